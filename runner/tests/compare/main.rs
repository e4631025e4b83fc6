//! Behaviour of the comparator through its one public function, on files as the worker writes them.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, and its helpers are tests")]

mod differential;
mod harness;
mod hostile;
mod order;
mod relative;
mod trials;
