//! The search for the module and the operator that a mismatch of a model begins in.

use protocol::evidence::FirstDivergence;
use protocol::worker_link::Task;
use protocol::{Outcome, Tolerance};

use super::{Assignment, Purpose, SlotRunner};
use crate::compare::{ToleranceClass, ToleranceTable};
use crate::outcome::{Ending, Judged};

/// Layout of a case whose weights come from a file; the search would build others.
const CHECKPOINT: &str = "checkpoint";

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
        let from_file = case.key.variant().layout.as_deref() == Some(CHECKPOINT);
        if judged.outcome != Outcome::Mismatch || !is_model || from_file {
            return;
        }
        if let Some(earlier) = assignment.earlier_alike(judged) {
            evidence.first_divergence.clone_from(&earlier.first_divergence);
            return;
        }
        let class = case.tolerance_class.unwrap_or(ToleranceClass::Model);
        let dtype = case.key.variant().dtype;
        let Ok(tolerance) = ToleranceTable::embedded().tolerance(class, dtype.as_str()) else {
            return;
        };
        match self.executed_beside_the_host(assignment, tolerance).await {
            Ok((found, notes)) => {
                evidence.first_divergence = found;
                evidence.notes.extend(notes);
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
        self.retire("replaced: a further execution looks for where it goes wrong").await;
        self.ensure_worker().await.map_err(|error| error.to_string())?;
        let executed = self.execute(assignment, &Purpose::FindDivergence(tolerance)).await;
        let Some((executed, _)) = executed else {
            return Err("no folder for tensors can be made".to_owned());
        };
        let usable = executed.worker_usable;
        self.drop_or_retire(usable, "the search for where it goes wrong is over").await;
        match executed.ending {
            Some(Ending::Observed { observed, .. }) => match observed.failure {
                None => {
                    let mut notes = search_notes(observed.notes);
                    notes.extend(executed.notes);
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

/// Those notes of an execution that are about the search; the others stand in the case already.
fn search_notes(notes: Vec<String>) -> Vec<String> {
    let of_search = |note: &String| {
        note.starts_with("where it goes wrong") || note.starts_with("the operators of")
    };
    notes.into_iter().filter(of_search).collect()
}
