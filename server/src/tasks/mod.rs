//! Periodic jobs; each stops when it is told to.

pub mod close_runs;
pub mod deliver;
pub mod judge_again;
pub mod keep_database;
