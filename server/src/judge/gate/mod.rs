//! The release gate: rules from a TOML file, an answer rule by rule.
//!
//! `file` reads and checks the rules; `answer` is what is said of them; `evaluate` gets from the
//! one to the other. An absence of data is never `open`: no run, a stale run, an unjudged case and
//! a baseline that is not there all make the answer `incomplete`. One failing check never hides
//! another: all of them are evaluated and shown.

mod answer;
mod evaluate;
mod file;

pub use answer::{Answer, Blocking, CheckAnswer, CheckName, GateAnswer, Reason, RuleAnswer};
pub use evaluate::{Candidate, CaseFacts, LATEST, Pinned, RuleInput, evaluate, rejudge};
pub use file::{GateFile, GateFileError, Rule};
