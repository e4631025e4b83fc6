//! What a worker is asked, by what a case is executed for.

use protocol::worker_link::Execute;
use protocol::{Direction, Suite, Tolerance};

use super::Shared;
use crate::exchange::Exchange;
use crate::plan::PlannedCase;

/// What a case is executed for.
#[derive(Debug, Clone)]
pub(super) enum Purpose {
    /// To decide it.
    Decide,
    /// To see whether it still fails after others.
    Replay,
    /// To learn in which operator it ends, one operator at a time.
    NameOperator,
    /// To learn which operators stand in its way, these among them.
    FindBlockers(Vec<String>),
    /// To learn where in a model the device first differs from the host by more than this.
    FindDivergence(Tolerance),
}

impl Purpose {
    fn known_blockers(&self) -> Option<Vec<String>> {
        if let Self::FindBlockers(known) = self { Some(known.clone()) } else { None }
    }

    const fn divergence_beyond(&self) -> Option<Tolerance> {
        if let Self::FindDivergence(tolerance) = self { Some(*tolerance) } else { None }
    }
}

impl Shared {
    pub(super) fn request(
        &self,
        case: &PlannedCase,
        exchange: &Exchange,
        purpose: &Purpose,
    ) -> Execute {
        let variant = case.key.planned_variant();
        let decides = matches!(purpose, Purpose::Decide | Purpose::Replay);
        let breadcrumb = (!decides).then(|| exchange.breadcrumb().display().to_string());
        Execute {
            case: case.key.to_string(),
            task: case.task.clone(),
            dtype: variant.dtype,
            mode: variant.mode,
            train: variant.direction == Direction::Train,
            layout: variant.layout.unwrap_or_default(),
            seed: self.seed,
            exchange: exchange.path(),
            breadcrumb,
            // A sweep is long, and its operators are those of the model's other cases.
            record_operators: decides && case.key.suite() != Suite::Dynamism,
            continue_past: purpose.known_blockers(),
            find_divergence: purpose.divergence_beyond(),
            record: false,
            golden: None,
        }
    }
}
