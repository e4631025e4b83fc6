//! The comparator, given files that a fuzzer makes: `scripts/fuzz` runs it.

#![no_main]

#[path = "input.rs"]
mod input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some(input) = input::Input::of(bytes) {
        let _ = input.compare(&std::env::temp_dir());
    }
});
