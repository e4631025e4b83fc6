//! The comparator, given files that a fuzzer makes: `scripts/fuzz` runs it.

#![no_main]

#[path = "input.rs"]
mod input;

use std::path::PathBuf;
use std::sync::LazyLock;

/// Files are written in memory, where there is such a folder.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let shared = PathBuf::from("/dev/shm");
    let folder = if shared.is_dir() { shared } else { std::env::temp_dir() };
    let folder = folder.join(format!("fuzz-compare-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is room");
    folder
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some(input) = input::Input::of(bytes) {
        let _ = input.compare(&FOLDER);
    }
});
