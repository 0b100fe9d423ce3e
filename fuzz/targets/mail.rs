//! libFuzzer's way into [`fuzz::mail`].

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::mail(bytes));
