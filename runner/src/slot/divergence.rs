//! The search for the module and the operator that a mismatch of a model begins in.

use protocol::evidence::FirstDivergence;
use protocol::worker_link::Task;
use protocol::{Outcome, Tolerance};

use super::{Assignment, Purpose, SlotRunner};
use crate::compare::{ToleranceClass, ToleranceTable};
use crate::outcome::{Ending, Judged};
use crate::plan::CHECKPOINT;

impl SlotRunner {
    /// Executes a model whose values are wrong once more, beside the host, to find the first module
    /// and the first operator that differ. The outcome stands whatever comes of it.
    pub(super) async fn find_divergence(
        &mut self,
        assignment: &Assignment,
        judged: &Judged,
        evidence: &mut protocol::Evidence,
    ) {
        let case = &assignment.case;
        let is_model = matches!(case.task, Task::Model { .. });
        // What is recorded is kept as it is, and explained where it is compared with.
        let recorded = self.shared.goldens.as_ref().is_some_and(|goldens| goldens.records());
        // The search would build other weights.
        let from_file = case.key.planned_variant().layout.as_deref() == Some(CHECKPOINT);
        if judged.outcome != Outcome::Mismatch || !is_model || from_file || recorded {
            return;
        }
        if let Some(earlier) = assignment.earlier_alike(judged) {
            evidence.first_divergence.clone_from(&earlier.first_divergence);
            return;
        }
        let class = case.tolerance_class.unwrap_or(ToleranceClass::Model);
        let dtype = case.key.planned_variant().dtype;
        let Ok(tolerance) = ToleranceTable::embedded().tolerance(class, dtype.as_str()) else {
            return;
        };
        match self.executed_beside_the_host(assignment, tolerance).await {
            Ok((found, notes)) => {
                evidence.first_divergence = found;
                for note in notes {
                    // The others are of building and of the device, and stand there already.
                    if !evidence.notes.contains(&note) {
                        evidence.notes.push(note);
                    }
                }
            }
            Err(why) => {
                evidence.notes.push(format!("where it goes wrong was not found: {why}"));
            }
        }
    }

    async fn executed_beside_the_host(
        &mut self,
        assignment: &Assignment,
        tolerance: Tolerance,
    ) -> Result<(Option<FirstDivergence>, Vec<String>), String> {
        let executed = self.execute_apart(assignment, &Purpose::FindDivergence(tolerance)).await;
        let Some((executed, _)) = executed else {
            return Err("no worker or no folder for tensors could be made".to_owned());
        };
        let usable = executed.worker_usable;
        self.drop_or_retire(usable, "the search for where it goes wrong is over").await;
        match executed.ending {
            Some(Ending::Observed { observed, .. }) => match observed.failure {
                None => {
                    let notes = observed.notes.into_iter().chain(executed.notes).collect();
                    Ok((observed.first_divergence, notes))
                }
                Some(failure) => Err(format!("{}: {}", failure.error_class, failure.message)),
            },
            Some(Ending::TimedOut { limit_secs, .. }) => {
                Err(format!("the search took longer than {limit_secs} s"))
            }
            Some(Ending::Died { .. }) => Err("the search ended the process".to_owned()),
            Some(Ending::Skipped { .. } | Ending::Garbage { .. } | Ending::NoGolden { .. })
            | None => Err("the search did not end".to_owned()),
        }
    }
}
