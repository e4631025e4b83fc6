//! Periodic jobs; each stops when it is told to.

pub mod close_runs;
pub mod keep_database;
