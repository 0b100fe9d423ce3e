//! libFuzzer's way into [`fuzz::frames`].

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::frames(bytes));
