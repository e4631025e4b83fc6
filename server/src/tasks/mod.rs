//! Periodic jobs; each stops when it is told to.

pub mod close_runs;
