//! libFuzzer's way into [`fuzz::policy`].

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::policy(bytes));
