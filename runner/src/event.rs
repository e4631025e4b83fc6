//! What happened in a run, in order. The dispatcher emits these; journal, console, JUnit, JSON,
//! HTML report and upload only read them.
//!
//! A finished run can be read back from its journal as the same events, so that `runner report`
//! makes every report again.

use std::path::PathBuf;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use protocol::ingest_api::{Attempt, create_run, put_manifest};
use protocol::{CaseKey, Outcome, Stage};
use serde::{Deserialize, Serialize};

use crate::waivers::Waivers;

/// One thing that happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// The plan is fixed and the first case is about to be executed. Always the first event.
    RunStarted(Arc<RunStarted>),
    /// A case was handed to a worker.
    CaseStarted {
        /// The case.
        case: CaseKey,
        /// From 1.
        attempt: u32,
        /// Number of the worker process, unique in the run.
        worker: u32,
    },
    /// A case has been in one stage for a notable time; it is not over.
    CaseSlow {
        /// The case.
        case: CaseKey,
        /// Where it is.
        stage: Stage,
        /// Seconds since it was handed out.
        seconds: u64,
    },
    /// An attempt is over, with everything that is known about it.
    AttemptFinished(AttemptFinished),
    /// A worker process answered its probe and takes cases.
    WorkerStarted {
        /// Its number.
        worker: u32,
        /// Its process id.
        pid: u32,
    },
    /// A worker process is gone.
    WorkerEnded {
        /// Its number.
        worker: u32,
        /// Why, for people: `recycled after 500 cases`, `SIGABRT`.
        reason: String,
        /// Most memory that it was seen to hold, in bytes; 0 where it was gone too soon.
        peak_bytes: u64,
    },
    /// A device slot failed its probe and takes no more cases.
    SlotDrained {
        /// Slot, from 0.
        slot: u32,
        /// Why, for people.
        reason: String,
    },
    /// Something a person should see that belongs to the run and not to a case: a worker that
    /// crashed while leaving, an upload that waits for the server.
    Finding {
        /// One line.
        text: String,
    },
    /// No new case is started; those in flight are finished or abandoned.
    StopRequested {
        /// What asked for it: `SIGINT`, `SIGTERM`.
        by: String,
    },
    /// Always the last event.
    RunEnded(RunEnded),
}

/// What a run is, before its first case.
#[derive(Debug, Clone)]
pub struct RunStarted {
    /// The run as it is announced to the server.
    pub run: create_run::Request,
    /// All planned cases, those of other shards too.
    pub manifest: Arc<put_manifest::Request>,
    /// The cases that this process executes, in order: the manifest, or one shard of it.
    pub planned: Arc<Vec<CaseKey>>,
    /// Cases of `planned` that already have their final attempt, when a run is resumed. Their
    /// `AttemptFinished` events come right after this one.
    pub already_done: usize,
    /// Where the run is kept.
    pub run_dir: PathBuf,
    /// Why this device, when it was chosen by `auto`.
    pub device_reason: Option<String>,
    /// Settings that a repro command needs to name again: model list files and so on.
    pub repro_command: String,
    /// Whose leave failures have.
    pub waivers: Arc<Waivers>,
}

/// One attempt is over.
#[derive(Debug, Clone)]
pub struct AttemptFinished {
    /// The attempt, as it goes into the journal and to the server.
    pub attempt: Arc<Attempt>,
    /// Whether another attempt of this case follows.
    pub retrying: bool,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnded {
    /// When.
    pub finished_at: DateTime<Utc>,
    /// In which way.
    pub ending: Ending,
    /// Cases of this process's plan that have no attempt.
    pub not_run: u64,
    /// What the run held at most.
    pub peak_memory: Option<PeakMemory>,
}

/// Most resident memory that processes of a run have held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakMemory {
    /// This process, in bytes.
    pub runner_bytes: u64,
    /// The worker that held most, in bytes; 0 where none has ended.
    pub worker_bytes: u64,
}

/// The ways a run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Every planned case has its final attempt.
    Finished,
    /// Someone asked it to stop.
    Stopped {
        /// `SIGINT`, `SIGTERM`.
        by: String,
    },
    /// It could not go on: the backend failed to start, every device was drained, the journal
    /// could not be written.
    Aborted {
        /// Why, for people.
        reason: String,
    },
}

impl Ending {
    /// In a few words, as the journal keeps it.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Finished => "finished".to_owned(),
            Self::Stopped { by } => format!("stopped by {by}"),
            Self::Aborted { reason } => format!("aborted: {reason}"),
        }
    }
}

/// The outcome of a case over its attempts, for local summaries. (Judging against baselines and
/// waivers is the server's, which sums attempts up by the same rule.)
///
/// An inconclusive attempt (`infra`, `host-limit`, `skipped`) counts only where there is no other,
/// and `infra` only where there is nothing else at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CaseResult {
    /// All conclusive attempts passed, or none did: then the worst outcome.
    Steady(Outcome),
    /// Some passed and some did not; the worst outcome.
    Flaky(Outcome),
}

impl CaseResult {
    /// From the outcomes of all attempts of one case; `None` without any.
    #[must_use]
    pub fn of(outcomes: impl IntoIterator<Item = Outcome>) -> Option<Self> {
        let add = |result: Option<Self>, outcome| {
            Some(result.map_or(Self::Steady(outcome), |result| result.and(outcome)))
        };
        outcomes.into_iter().fold(None, add)
    }

    /// With one more attempt.
    #[must_use]
    pub fn and(self, outcome: Outcome) -> Self {
        let (Self::Steady(before) | Self::Flaky(before)) = self;
        let worse = if outcome.severity() > before.severity() { outcome } else { before };
        match (before.is_conclusive(), outcome.is_conclusive()) {
            (true, false) => self,
            (false, true) => Self::Steady(outcome),
            (false, false) => Self::Steady(before.more_telling(outcome)),
            (true, true) => {
                let mixed = (before == Outcome::Pass) != (outcome == Outcome::Pass);
                if mixed || matches!(self, Self::Flaky(_)) {
                    Self::Flaky(worse)
                } else {
                    Self::Steady(worse)
                }
            }
        }
    }

    /// Whether every attempt passed.
    #[must_use]
    pub fn is_pass(self) -> bool {
        self == Self::Steady(Outcome::Pass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_sum_up_as_they_do_on_the_server_in_any_order() {
        use Outcome::{Crash, HostLimit, Infra, Mismatch, Pass, Skipped};
        for (outcomes, result) in [
            (vec![], None),
            (vec![Pass], Some(CaseResult::Steady(Pass))),
            (vec![Crash, Crash], Some(CaseResult::Steady(Crash))),
            (vec![Mismatch, Crash], Some(CaseResult::Steady(Crash))),
            (vec![Mismatch, Pass], Some(CaseResult::Flaky(Mismatch))),
            (vec![Pass, Mismatch, Crash], Some(CaseResult::Flaky(Crash))),
            (vec![Infra, Pass], Some(CaseResult::Steady(Pass))),
            (vec![Infra, Mismatch], Some(CaseResult::Steady(Mismatch))),
            (vec![Infra, Mismatch, Pass], Some(CaseResult::Flaky(Mismatch))),
            (vec![Infra, HostLimit], Some(CaseResult::Steady(HostLimit))),
            (vec![Infra, Skipped], Some(CaseResult::Steady(Skipped))),
            (vec![HostLimit, Skipped], Some(CaseResult::Steady(HostLimit))),
            (vec![Skipped], Some(CaseResult::Steady(Skipped))),
        ] {
            assert_eq!(CaseResult::of(outcomes.clone()), result, "{outcomes:?}");
            assert_eq!(CaseResult::of(outcomes.iter().rev().copied()), result, "{outcomes:?}");
        }
        assert!(CaseResult::of([Infra, Pass]).unwrap().is_pass());
        assert!(!CaseResult::of([Crash, Pass]).unwrap().is_pass());
    }
}
