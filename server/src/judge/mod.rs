//! Judgement: pure functions from attempts, waivers and earlier runs to verdicts, rates and the
//! gate's answer. No SQL, no async, no clock of its own.
//!
//! `verdict` one case; `baseline` what earlier runs say of it; `waiver` whose leave covers it;
//! `compare` what became of a
//! case between two runs; `signature` what failing cases cluster by; `completeness` and `rates` over a run; `gate` the
//! release gate's rules and answer.

pub mod baseline;
pub mod compare;
pub mod completeness;
pub mod gate;
pub mod rates;
pub mod signature;
pub mod verdict;
pub mod waiver;
