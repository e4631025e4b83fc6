//! Reading somebody else's JUnit report. `read` takes the XML apart, within limits; `meaning` says
//! what an element says of a test. Both are pure; `ingest::import` makes a run of the result.
//!
//! The format has no standard, and every writer of it has habits of its own. Where they differ the
//! reader takes the worse meaning: a test is passed only where nothing says otherwise.

mod meaning;
mod read;

pub use meaning::{Found, Try};
pub use read::{Problem, Report, read};

#[cfg(test)]
mod tests;
