//! libFuzzer's way into [`fuzz::json`].

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::json(bytes));
