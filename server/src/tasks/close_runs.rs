//! Closes runs of which nothing was heard for the stated time: a runner that died for good must
//! leave an incomplete run, not one that runs for ever.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::app::AppState;
use crate::ingest;

/// Between two looks.
const PERIOD: Duration = Duration::from_secs(60);

/// Runs until told to stop.
pub async fn run(state: AppState, silence: Duration, stop: CancellationToken) {
    loop {
        if let Err(error) = ingest::close_silent_runs(&state, silence).await {
            tracing::warn!(error = ?error, "silent runs could not be closed; trying again later");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}
