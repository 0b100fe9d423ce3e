//! libFuzzer's way into [`fuzz::fence`].

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::fence(bytes));
