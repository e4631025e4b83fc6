//! Tells an open page of a run how far the run has come, by server-sent events. Each page that is
//! told costs one small query every [`PERIOD`]; the database is asked and not the handler that
//! takes results in, since another server process may be the one that takes them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::get;
use futures_util::Stream;
use futures_util::stream;
use serde_json::json;
use sqlx::PgPool;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::run;
use super::view;
use crate::app::AppState;
use crate::db::read_live::{self, Progress};
use crate::error::{Error, Result};
use crate::extract::Path;

/// How often a run is looked at.
const PERIOD: Duration = Duration::from_secs(1);
/// After this long a page asks again by itself, so that nobody is told for ever.
const LONGEST: Duration = Duration::from_secs(600);
/// Pages that are told at once; the others read themselves again every few seconds.
pub const MOST_WATCHERS: usize = 64;

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/runs/{run}/events", get(follow))
}

/// Where the page of a run is told.
pub(super) fn events_href(run_key: &str) -> String {
    format!("{}/events", view::run_href(run_key))
}

/// One page that is told.
struct Watch {
    pool: PgPool,
    run_id: i64,
    told: Option<Progress>,
    until: Instant,
    stopping: CancellationToken,
    is_over: bool,
    _seat: OwnedSemaphorePermit,
}

async fn follow(
    State(state): State<AppState>,
    Path(key): Path<String>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let watchers: Arc<Semaphore> = state.watchers.clone();
    let seat = watchers
        .try_acquire_owned()
        .map_err(|_| Error::Busy { doing: "telling other pages", retry_after_secs: 30 })?;
    let run = run::find(state.db.pool(), &key).await?;
    let watch = Watch {
        pool: state.db.pool().clone(),
        run_id: run.id,
        told: None,
        until: Instant::now() + LONGEST,
        stopping: state.stopping.clone(),
        is_over: false,
        _seat: seat,
    };
    Ok(Sse::new(stream::unfold(watch, next)).keep_alive(KeepAlive::default()))
}

/// Waits for the next change; ends with the run, the server, the database or the time.
async fn next(mut watch: Watch) -> Option<(Result<Event, Infallible>, Watch)> {
    if watch.is_over {
        return None;
    }
    loop {
        if watch.told.is_some() {
            tokio::select! {
                () = tokio::time::sleep(PERIOD) => {}
                () = watch.stopping.cancelled() => return None,
            }
        }
        if Instant::now() > watch.until {
            return None;
        }
        let progress = match read_live::find_progress(&watch.pool, watch.run_id).await {
            Ok(progress) => progress?,
            Err(error) => {
                tracing::warn!(%error, run = watch.run_id, "a page is no longer told of its run");
                return None;
            }
        };
        if watch.told.as_ref() == Some(&progress) {
            continue;
        }
        watch.is_over = progress.state == "sealed";
        let name = if watch.is_over { "sealed" } else { "progress" };
        let data = json!({
            "state": progress.state,
            "planned": progress.planned,
            "attempts": progress.attempts,
        });
        watch.told = Some(progress);
        return Some((Ok(Event::default().event(name).data(data.to_string())), watch));
    }
}
