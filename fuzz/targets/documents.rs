//! libFuzzer's way into [`fuzz::documents`].

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::documents(bytes));
