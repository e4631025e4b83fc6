//! The worker on a slot: made, looked after, replaced.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::Outcome;
use protocol::worker_link::Probed;

use super::{Assignment, Purpose, Report, SlotRunner};
use crate::event::Event;
use crate::execute::Executed;
use crate::outcome::{Judged, is_retryable};
use crate::plan::PlannedCase;
use crate::worker::process;
use crate::worker::worker::ProbeError;
use crate::worker::{StartError, Worker};

/// The worker that is on the slot at present.
pub(super) struct Current {
    pub(super) worker: Worker,
    pub(super) device_type: String,
    pub(super) executed: u32,
    resident_at_start: u64,
    /// What it has executed, in order, to name what may have poisoned it.
    pub(super) cases: Vec<Arc<PlannedCase>>,
}

impl SlotRunner {
    /// After a case: a worker that is gone or spoiled is dropped; after a bad outcome it must prove
    /// that its device still works. Returns a note when it could not.
    pub(super) async fn look_after_worker(
        &mut self,
        judged: &Judged,
        usable: bool,
    ) -> Option<String> {
        let current = self.current.as_mut()?;
        if !usable || judged.outcome.spoils_the_worker() {
            let reason = match judged.outcome {
                Outcome::Crash | Outcome::Timeout | Outcome::Oom => {
                    format!("{}: {}", judged.outcome, judged.error_class)
                }
                Outcome::Pass
                | Outcome::Mismatch
                | Outcome::Error
                | Outcome::Unsupported
                | Outcome::Fallback
                | Outcome::Skipped
                | Outcome::Infra
                | Outcome::HostLimit => "its device can no longer be trusted".to_owned(),
            };
            self.drop_worker(&reason).await;
            return None;
        }
        if is_retryable(judged.outcome)
            && let Err(error) = current.worker.probe().await
        {
            self.drop_worker(&format!("it failed its probe after a bad case: {error}")).await;
            return Some(format!("the device failed its probe after this case: {error}"));
        }
        let current = self.current.as_ref()?;
        let resident = process::resident_bytes(current.worker.pid).unwrap_or(0);
        let growth = resident.saturating_sub(current.resident_at_start);
        if current.executed >= self.shared.recycle_after {
            self.retire(&format!("recycled after {} cases", self.shared.recycle_after)).await;
        } else if growth > self.shared.recycle_growth_bytes {
            self.retire(&format!("recycled: its memory grew by {} MiB", growth >> 20)).await;
        }
        None
    }

    /// Makes sure that a worker is there whose device has just been seen to work.
    pub(super) async fn ensure_worker(&mut self) -> Result<(), StartError> {
        if self.current.is_some() {
            return Ok(());
        }
        let environment: BTreeMap<_, _> = self.slot.environment.clone();
        let (worker, probed) = self.shared.backend.proven_worker(environment).await?;
        let event = Event::WorkerStarted { worker: worker.number, pid: worker.pid };
        self.current = Some(Current::new(worker, &probed));
        self.tell(Report::Event(event)).await;
        Ok(())
    }

    /// Executes the case once more in a process of its own, for something else than to decide it;
    /// nothing where that could not be done. The worker is still there.
    pub(super) async fn execute_apart(
        &mut self,
        assignment: &Assignment,
        purpose: &Purpose,
    ) -> Option<(Executed, Option<String>)> {
        self.retire("replaced: a case is executed again, to learn more of it").await;
        self.execute_again(assignment, purpose).await
    }

    /// The same in the worker that is there, or in a new one where there is none.
    pub(super) async fn execute_again(
        &mut self,
        assignment: &Assignment,
        purpose: &Purpose,
    ) -> Option<(Executed, Option<String>)> {
        self.ensure_worker().await.ok()?;
        self.execute(assignment, purpose).await
    }

    pub(super) async fn drop_or_retire(&mut self, usable: bool, reason: &str) {
        if usable {
            self.retire(reason).await;
        } else {
            self.drop_worker(reason).await;
        }
    }

    /// Lets the worker leave in order; how it left is a finding of the run when it went wrong.
    pub(super) async fn retire(&mut self, reason: &str) {
        let Some(current) = self.current.take() else { return };
        let number = current.worker.number;
        let peak_bytes = current.peak_bytes();
        let problem = current.worker.leave().await;
        let event = Event::WorkerEnded { worker: number, reason: reason.to_owned(), peak_bytes };
        self.tell(Report::Event(event)).await;
        if let Some(problem) = problem {
            let text = format!("teardown-crash: worker {number} {problem} after its last result");
            self.tell(Report::Event(Event::Finding { text })).await;
        }
    }

    /// Ends the worker, which may have ended already.
    pub(super) async fn drop_worker(&mut self, reason: &str) {
        let Some(mut current) = self.current.take() else { return };
        let peak_bytes = current.peak_bytes();
        current.worker.kill(false).await;
        let (worker, reason) = (current.worker.number, reason.to_owned());
        let event = Event::WorkerEnded { worker, reason, peak_bytes };
        self.tell(Report::Event(event)).await;
    }

    /// What the worker has executed before the case in flight, where a bad end may be its doing.
    pub(super) fn predecessors(&self, outcome: Outcome) -> Vec<Arc<PlannedCase>> {
        let current = self.current.as_ref().filter(|_| outcome != Outcome::Pass);
        let before = current.and_then(|current| Some(current.cases.split_last()?.1.to_vec()));
        before.unwrap_or_default()
    }
}

impl Current {
    fn peak_bytes(&self) -> u64 {
        process::peak_resident_bytes(self.worker.pid).unwrap_or(0)
    }

    pub(super) fn new(worker: Worker, probed: &Probed) -> Self {
        let device_type = probed.device.split(':').next().unwrap_or_default().to_owned();
        let resident_at_start = process::resident_bytes(worker.pid).unwrap_or(0);
        Self { worker, device_type, executed: 0, resident_at_start, cases: Vec::new() }
    }
}

impl From<ProbeError> for StartError {
    fn from(error: ProbeError) -> Self {
        match error {
            ProbeError::Failed { message, hint, absent } => {
                Self { message, hint, may_pass: !absent }
            }
            ProbeError::Died(message) => Self { message, hint: String::new(), may_pass: true },
        }
    }
}
