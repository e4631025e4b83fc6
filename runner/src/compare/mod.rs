//! Actual against expected, under a rule and a tolerance: the one implementation for operators,
//! Tier 2 and dynamism.
//!
//! Order of checks: tree structure, shape, dtype (strides as a note), places and signs of
//! non-finite values, values. Similarity (`pcc`, `cosine`) is recorded and never decides.
//!
//! Read [`outputs`] for the order, `rules` for what close means, `relative` for what is as good as a
//! GPU, `table` for how close. What does
//! not belong here: turning the result into an outcome (`dispatch`), judging it (the server).

mod addends;
mod detail;
mod elements;
mod error;
mod figures;
mod file;
mod float;
mod float8;
mod header;
mod integer;
mod kernel;
mod leaf;
mod narrow;
mod outputs;
mod places;
mod relative;
mod rules;
mod statistical;
mod table;
mod tensors;
mod ulps;
mod value_findings;

pub use detail::{Detail, Element, details};
pub use error::CompareError;
pub use outputs::{check_file, compare_outputs};
pub use relative::{Limits, Measured, RelativeFailure, judge as judge_relative};
pub use rules::{Rule, is_close};
pub use table::{ToleranceClass, ToleranceTable};
