//! Judges runs again whose stored verdicts may no longer be right: an earlier run was pushed late or
//! withdrawn, or a waiver ended. The gate does not wait for this: it judges its candidates first.
//! Then adds up the cases of those that changed, or that were sealed by nobody's request.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::app::AppState;
use crate::ingest;

/// Between two looks.
const PERIOD: Duration = Duration::from_secs(10);

/// Runs until told to stop.
pub async fn run(state: AppState, stop: CancellationToken) {
    loop {
        if let Err(error) = ingest::judge_due_runs(&state).await {
            tracing::warn!(error = ?error, "runs could not be judged again; trying again later");
        }
        if let Err(error) = ingest::summarise_due_runs(&state).await {
            tracing::warn!(error = ?error, "runs could not be added up; trying again later");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}
