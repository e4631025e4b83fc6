//! Taking in what runners send: validated outside any transaction, then stored and judged inside
//! one that holds the run's row, so that a batch is either wholly visible with its verdicts and
//! tallies, or not at all.
//!
//! `announce` a run and its manifest; `import` a run made of a JUnit report; `batch` a batch of attempts as it came, `results` takes it in; `sources` who sends it;
//! `judgement` verdicts of the touched cases, and of runs whose baseline changed; `seal` the end of
//! a run, by its runners or by silence; `artifacts` the files that attempts left; `waive` a person's leave, `waiver_file` those that are kept with the
//! code.

mod announce;
mod artifacts;
mod batch;
mod import;
mod inventory;
mod judgement;
mod results;
mod seal;
mod sources;
mod waive;
mod waiver_file;

pub use announce::{create_run, put_manifest};
pub use artifacts::{LinkRequest, MAX_LINKS, NewLink, link_artifacts, read_hash, store_artifact};
pub use import::{About, Imported, import_junit};
pub use inventory::put_inventory;
pub use judgement::{judge_cases, judge_due_runs, judge_if_due, summarise_due_runs};
pub use results::post_results;
pub use seal::{close_silent_runs, seal_run, void_run};
pub use waive::{NewWaiver, When, create_waiver, revoke_waiver};
pub use waiver_file::{SyncPlan, sync_waivers};

use chrono::{DateTime, Datelike as _, Utc};
use protocol::RunKey;
use sqlx::PgConnection;

use crate::db::runs::{self, Hold, LockedRun};
use crate::error::{Error, Result};
use crate::judge::completeness::Completeness;

/// Cases, or attempts, from which on a run changes what the planner should know.
const LARGE_RUN: i64 = 1_000;

/// Holds the run alone, or says that there is none.
async fn lock(connection: &mut PgConnection, key: &RunKey) -> Result<LockedRun> {
    hold(connection, key, Hold::Alone).await
}

/// Holds the run, or says that there is none.
async fn hold(connection: &mut PgConnection, key: &RunKey, hold: Hold) -> Result<LockedRun> {
    runs::lock(connection, key, hold).await?.ok_or_else(|| Error::no_such("run", key))
}

/// A withdrawn run takes nothing in, and neither does one whose evidence is gone.
fn refuse_void(run: &LockedRun) -> Result<()> {
    if run.completeness == Some(Completeness::Void) {
        return Err(Error::conflict(
            format!("run `{}` was withdrawn", run.key),
            "start a new run under another key",
        ));
    }
    if run.evidence_dropped {
        return Err(Error::conflict(
            format!("the evidence of run `{}` is no longer kept", run.key),
            "what is this old is final; start a new run under another key",
        ));
    }
    Ok(())
}

/// What PostgreSQL cannot store in `text` or `jsonb`: NUL, which becomes U+FFFD.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Times that a clock can reasonably show; PostgreSQL cannot store every one that can be written.
fn check_time(field: &str, time: DateTime<Utc>) -> Result<()> {
    if (2000..=2200).contains(&time.year()) {
        return Ok(());
    }
    Err(Error::bad_request(
        format!("`{field}` is {time}, which no clock shows"),
        "send the time in UTC, as in `2026-11-30T05:12:00Z`",
    ))
}
