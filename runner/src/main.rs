//! The `runner` program. Everything is in the library; this file only turns its answer into an
//! exit code.

fn main() {}
