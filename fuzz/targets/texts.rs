//! libFuzzer's way into [`fuzz::texts`].

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::texts(bytes));
