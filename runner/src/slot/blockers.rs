//! The search for every operator that stands in a model's way, not only the first.

use protocol::evidence::Blocker;
use protocol::worker_link::WorkerBlocker;
use protocol::{Outcome, Suite};

use super::{Assignment, Purpose, SlotRunner};
use crate::outcome::{Ending, Judged, judge, outcome_of_kind};

/// Most executions of one search for what a model is refused.
const MOST_CRASHES_GONE_PAST: u32 = 5;

impl SlotRunner {
    /// Executes a model that was refused something once more, with every operator that the device
    /// refuses computed on the CPU, so that those behind the first one are known too. An operator
    /// that ends the process is gone past in the next execution.
    pub(super) async fn find_blockers(
        &mut self,
        assignment: &Assignment,
        judged: &Judged,
        evidence: &mut protocol::Evidence,
    ) {
        if assignment.case.key.suite() != Suite::Tier1 || !may_have_blockers(judged.outcome) {
            return;
        }
        if let Some(earlier) = assignment.earlier_alike(judged) {
            evidence.blockers.clone_from(&earlier.blockers);
            return;
        }
        let mut found: Vec<Blocker> = Vec::new();
        if judged.outcome == Outcome::Crash {
            let Some(overload) = judged.operator.clone() else { return };
            let message = judged.message.clone();
            found.push(Blocker { overload, outcome: Outcome::Crash, message });
        }
        // Every execution but the last goes past one more operator that ends the process.
        for _ in 0..MOST_CRASHES_GONE_PAST {
            let known = found.iter().map(|blocker| blocker.overload.clone()).collect();
            // A worker that the case left in order has compiled most of it, and has its device still.
            let executed = self.execute_again(assignment, &Purpose::FindBlockers(known)).await;
            let Some((executed, crumb)) = executed else { return };
            let found_its_end = matches!(&executed.ending,
                Some(Ending::Observed { observed, .. }) if observed.failure.is_none());
            if !found_its_end || !executed.worker_usable {
                self.drop_or_retire(executed.worker_usable, "it searched for what else is refused")
                    .await;
            }
            match (executed.ending, crumb) {
                (Some(Ending::Observed { observed, .. }), _) if observed.failure.is_none() => {
                    let more = observed.blockers.into_iter().flatten().map(as_blocker);
                    evidence.blockers = Some(found.into_iter().chain(more).collect());
                    return;
                }
                (Some(ending @ Ending::Died { .. }), Some(overload))
                    if found.iter().all(|blocker| blocker.overload != overload) =>
                {
                    let log = format!("{}\n{}", executed.log.head, executed.log.tail);
                    let (again, _) = judge(&self.asked(&assignment.case), &ending, &log);
                    let (outcome, message) = (again.outcome, again.message);
                    found.push(Blocker { overload, outcome, message });
                }
                _ => {
                    let note = "what else it needs is not known: it did not end where every \
                                operator that the device refused was computed on the CPU";
                    evidence.notes.push(note.to_owned());
                    return;
                }
            }
        }
    }
}

/// Whether an operator of the backend may be what ended a model so.
const fn may_have_blockers(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Error | Outcome::Unsupported | Outcome::Crash | Outcome::HostLimit => true,
        Outcome::Pass
        | Outcome::Mismatch
        | Outcome::Fallback
        | Outcome::Timeout
        | Outcome::Oom
        | Outcome::Skipped
        | Outcome::Infra => false,
    }
}

fn as_blocker(blocker: WorkerBlocker) -> Blocker {
    let outcome = outcome_of_kind(blocker.kind);
    Blocker { overload: blocker.overload, outcome, message: blocker.message }
}
