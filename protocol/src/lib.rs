//! The words and the wire format that the server, the runner and the Python worker share.
//!
//! What belongs here: nouns, messages, parsing, and pure rules that more than one side must agree
//! on. What does not: I/O, async, HTTP, SQL, anything only one side needs. Judging lives in
//! `server/src/judge/`, comparing in `runner/src/compare/`.
//!
//! Read [`case`] for identity, [`outcome`] for what an attempt can observe, [`evidence`] for what
//! backs it, [`ingest_api`] for runner → server and [`worker_link`] for runner ↔ Python worker.
//! Every message has a recorded JSON file under `tests/wire/`, read by the Rust test and by the
//! worker's pytest, so neither side can drift alone.

#[macro_use]
mod words;

#[cfg(feature = "schema")]
#[doc(hidden)]
pub use utoipa;

pub mod blockers;
pub mod case;
pub mod coverage;
pub mod evidence;
pub mod ids;
pub mod ingest_api;
pub mod inventory;
pub mod number;
pub mod outcome;
pub mod query;
pub mod signature;
pub mod suite;
pub mod tolerance;
pub mod verdict;
pub mod waiver;
pub mod worker_link;

pub use case::{CaseKey, Direction, Dtype, Form, Mode, Variant};
pub use evidence::{Comparison, Evidence, Figures};
pub use ids::RunKey;
pub use number::Number;
pub use outcome::{Outcome, SkipReason, Stage};
pub use suite::{Integration, Suite};
pub use tolerance::Tolerance;
pub use verdict::Verdict;
pub use words::UnknownWord;

/// Version of the runner → server messages. A server refuses a run of another major version.
pub const PROTOCOL_VERSION: u32 = 1;
