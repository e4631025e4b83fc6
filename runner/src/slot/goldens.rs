//! Goldens of the cases of a slot: looked for before a case is executed, kept after.

use std::path::Path;
use std::sync::Arc;

use protocol::worker_link::{Execute, Golden, Observed};
use protocol::{Comparison, Outcome, Suite};

use super::{Purpose, SlotRunner};
use crate::execute::Executed;
use crate::golden::Goldens;
use crate::golden::store::ToKeep;
use crate::outcome::{Ending, judge};
use crate::plan::PlannedCase;

impl SlotRunner {
    /// The golden of the case, or the ending of a case that has none to be compared with. Nothing
    /// where none is needed.
    pub(super) async fn find_golden(
        &self,
        case: &Arc<PlannedCase>,
    ) -> Result<Option<Golden>, Ending> {
        let wanted = case.key.suite() == Suite::Tier2;
        let reading = |goldens: &&Arc<Goldens>| wanted && !goldens.records();
        let Some(goldens) = self.shared.goldens.as_ref().filter(reading) else { return Ok(None) };
        let (goldens, case) = (Arc::clone(goldens), Arc::clone(case));
        // Its files are hashed, which takes a while for large ones.
        let found = tokio::task::spawn_blocking(move || goldens.find(&case)).await;
        match found {
            Ok(Ok(golden)) => Ok(Some(golden)),
            Ok(Err(unusable)) => {
                let class = unusable.class();
                Err(Ending::NoGolden { class, message: unusable.to_string() })
            }
            Err(panic) => {
                let message = format!("looking for it failed: {panic}");
                Err(Ending::NoGolden { class: "golden-corrupt", message })
            }
        }
    }

    /// Says in a request what is to be done about a golden.
    pub(super) async fn add_golden(
        &self,
        request: &mut Execute,
        case: &Arc<PlannedCase>,
        purpose: &Purpose,
    ) {
        match purpose {
            Purpose::Decide => {
                let tier2 = case.key.suite() == Suite::Tier2;
                let records = self.shared.goldens.as_ref().is_some_and(|goldens| goldens.records());
                request.record = tier2 && records;
                request.golden.clone_from(&self.golden);
            }
            // Executed again to see how it ends; a golden that has gone meanwhile is no reason.
            Purpose::Replay | Purpose::NameOperator => {
                request.golden = self.find_golden(case).await.ok().flatten();
            }
            Purpose::FindBlockers(_) | Purpose::FindDivergence(_) => {}
        }
    }

    /// Keeps the outputs of a case that was recorded: those that are of the device, in the structure
    /// that the host gives. What cannot be kept is the case's outcome.
    pub(super) async fn keep_golden(&self, case: &Arc<PlannedCase>, executed: &mut Executed) {
        let Some(goldens) = &self.shared.goldens else { return };
        if !goldens.records() || case.key.suite() != Suite::Tier2 {
            return;
        }
        let Some(ending) = &executed.ending else { return };
        let (judged, _) = judge(&self.asked(case), ending, "");
        let recordable = judged.outcome == Outcome::Pass
            || (judged.outcome == Outcome::Mismatch && judged.error_class == "values-differ");
        let Ending::Observed { observed, comparisons } = ending else { return };
        let [Ok(comparison)] = comparisons.as_slice() else { return };
        if !recordable {
            return;
        }
        let (goldens, case) = (Arc::clone(goldens), Arc::clone(case));
        let (observed, comparison) = (observed.clone(), comparison.clone());
        let keeping =
            tokio::task::spawn_blocking(move || keep(&goldens, &case, &observed, &comparison));
        let kept = keeping.await.unwrap_or_else(|panic| Err(format!("keeping it failed: {panic}")));
        if let Err(message) = kept {
            executed.ending = Some(Ending::NoGolden { class: "golden-not-kept", message });
        }
    }
}

fn keep(
    goldens: &Goldens,
    case: &PlannedCase,
    observed: &Observed,
    comparison: &Comparison,
) -> Result<(), String> {
    let (Some(set), Some(fingerprint)) = (observed.to_compare.first(), &observed.fingerprint)
    else {
        return Err("the worker reported no fingerprint to keep it with".to_owned());
    };
    let kept = ToKeep {
        outputs: Path::new(&set.actual),
        wide: set.wide.as_deref().map(Path::new),
        fingerprint,
        comparison,
    };
    goldens.keep(case, kept)
}
