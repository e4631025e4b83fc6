//! The search for the module and the operator that a mismatch of a model begins in.

use std::path::{Path, PathBuf};

use protocol::evidence::FirstDivergence;
use protocol::worker_link::Task;
use protocol::{Outcome, Tolerance};

use super::{Assignment, Earlier, Purpose, SlotRunner};
use crate::compare::{ToleranceClass, ToleranceTable};
use crate::execute::Exchange;
use crate::outcome::{Ending, Judged};

/// Begins the names of files that the worker leaves to be kept.
const KEPT_PREFIX: &str = "divergence-";
/// Most bytes of all kept scripts and tensors of a run.
const MOST_KEPT_BYTES: u64 = 1 << 30;
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
        let same_end = |earlier: &&Earlier| {
            earlier.outcome == judged.outcome && earlier.error_class == judged.error_class
        };
        if let Some(earlier) = assignment.earlier.as_ref().filter(same_end) {
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
            Some(Ending::Skipped { .. } | Ending::Garbage { .. }) | None => {
                Err("the search did not end".to_owned())
            }
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

/// Moves what the worker left to be kept from `exchange` to `folder`, which is made where it is not
/// there and never grows beyond its limit. Gives a note for what could not be kept.
pub(super) fn keep_files(exchange: &Exchange, folder: &Path) -> Option<String> {
    let left = left_files(exchange);
    if left.is_empty() {
        return None;
    }
    let size = |path: &PathBuf| path.metadata().map_or(0, |metadata| metadata.len());
    let new: u64 = left.iter().map(size).sum();
    let kept: u64 = files_of(folder).iter().map(size).sum();
    if kept + new > MOST_KEPT_BYTES {
        return Some(format!(
            "the tensors of the operator were not kept: `{}` is at its limit of {} MiB",
            folder.display(),
            MOST_KEPT_BYTES >> 20
        ));
    }
    let keep = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        std::fs::copy(path, folder.join(name)).map(|_| ())
    };
    let all = std::fs::create_dir_all(folder).and_then(|()| left.iter().try_for_each(keep));
    all.err().map(|error| format!("the tensors of the operator were not kept: {error}"))
}

fn left_files(exchange: &Exchange) -> Vec<PathBuf> {
    let is_kept = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(KEPT_PREFIX))
    };
    files_of(exchange.folder()).into_iter().filter(is_kept).collect()
}

fn files_of(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let plain = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    entries.flatten().filter(plain).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_to_be_kept_is_and_never_beyond_the_limit() {
        let parent = tempfile::tempdir().unwrap();
        let exchange = Exchange::create(parent.path()).unwrap();
        let repros = parent.path().join("repros");
        std::fs::write(exchange.folder().join("0.actual.safetensors"), "x").unwrap();
        assert_eq!(keep_files(&exchange, &repros), None);
        assert!(!repros.exists(), "a run without a script has no folder of scripts");

        std::fs::write(exchange.folder().join("divergence-1.py"), "pass").unwrap();
        assert_eq!(keep_files(&exchange, &repros), None);
        assert_eq!(files_of(&repros), [repros.join("divergence-1.py")]);

        let huge = std::fs::File::create(repros.join("divergence-0.safetensors")).unwrap();
        huge.set_len(MOST_KEPT_BYTES).unwrap();
        std::fs::write(exchange.folder().join("divergence-2.py"), "pass").unwrap();
        assert!(keep_files(&exchange, &repros).unwrap().contains("at its limit of 1024 MiB"));
        assert!(!repros.join("divergence-2.py").exists());
    }
}
