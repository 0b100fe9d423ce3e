//! libFuzzer's way into [`fuzz::log`].

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::log(bytes));
