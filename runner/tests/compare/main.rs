//! Behaviour of the comparator through its one public function, on files as the worker writes them.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, and its helpers are tests")]

mod differential;
mod harness;
mod hostile;
#[path = "../../fuzz/fuzz_targets/input.rs"]
mod input;
mod order;
mod relative;
mod trials;
