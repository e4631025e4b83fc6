//! Starts the private database again when it ends without being told to (killed by the kernel for
//! memory, for example). Requests meanwhile are answered 503, and runners send again.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::embedded::Embedded;

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(500);

/// Runs until told to stop.
pub async fn run(embedded: Arc<Embedded>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        let looked_at = embedded.clone();
        match tokio::task::spawn_blocking(move || looked_at.revive()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::error!("{error:#}"),
            Err(error) => tracing::error!(%error, "looking after the private database"),
        }
    }
}
