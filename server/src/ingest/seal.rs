//! The end of a run: by its runner, by silence, or by a person who withdraws it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use protocol::ingest_api::seal_run;
use protocol::{RunKey, Verdict};
use serde_json::json;
use sqlx::PgConnection;

use super::{judgement, sources};
use crate::app::AppState;
use crate::db::cases::{self, CaseFilter};
use crate::db::runs::{self, LockedRun, SealedBy};
use crate::db::tokens::Caller;
use crate::db::{self, audit, rejudge, verdicts};
use crate::error::{Error, Result};
use crate::judge::completeness::{Completeness, RunState, Tally};
use crate::webhooks::Event;

/// Most cases named to webhooks; how many there are is always said.
const MOST_CASES_TOLD: i64 = 20;

/// Seals a run, or one shard of it; repeatable. Refused while attempts that the source has sent
/// are not here. The run is sealed when every shard is.
pub async fn seal_run(
    state: &AppState,
    key: &RunKey,
    request: seal_run::Request,
) -> Result<seal_run::Response> {
    super::check_time("finished_at", request.finished_at)?;
    sources::check(request.source.as_ref())?;
    let mut transaction = state.db.pool().begin().await?;
    let run = super::lock(&mut transaction, key).await?;
    super::refuse_void(&run)?;
    if run.manifest_sha256.is_none() {
        return Err(Error::conflict(
            format!("run `{key}` has no manifest yet"),
            "send the manifest and the results before the seal",
        ));
    }
    let now = state.clock.now();
    let waiting_for = seal_source(&mut transaction, &run, &request, now).await?;
    if waiting_for.is_empty() {
        // Judged once more as a whole: an earlier run may have been sealed since a case was judged.
        judgement::judge_cases(&mut transaction, &run, None, now).await?;
    }
    let tally = verdicts::tally(&mut *transaction, run.id).await?;
    let mut worth = tally.completeness();
    if waiting_for.is_empty() {
        let by = SealedBy::Runner(request.finished_at);
        runs::seal(&mut transaction, &run, by, worth, now).await?;
        if run.state != RunState::Sealed {
            rejudge::push_later(&mut transaction, &run, now).await?;
            tell(state, &mut transaction, &run, &tally, worth, now).await?;
        }
    } else {
        runs::note_attempts(&mut transaction, &run, 0, now).await?;
        worth = Completeness::Incomplete;
    }
    transaction.commit().await?;
    if waiting_for.is_empty() {
        judgement::summarise(state, key).await?;
        if run.attempts.cast_signed() >= super::LARGE_RUN {
            // The planner would guess by what it knew before this run, and guess badly, until the
            // database looks by itself.
            crate::db::refresh_statistics(state.db.pool(), run.day()).await?;
        }
    }
    Ok(seal_run::Response {
        completeness: worth.as_str().to_owned(),
        planned: tally.planned(),
        judged: tally.judged(),
        missing: tally.count(Verdict::Missing),
        waiting_for,
    })
}

/// Tells webhooks that the run is sealed, and what got worse.
async fn tell(
    state: &AppState,
    connection: &mut PgConnection,
    run: &LockedRun,
    tally: &Tally,
    worth: Completeness,
    now: DateTime<Utc>,
) -> Result<()> {
    let page = format!("{}/runs/{}", state.settings.public_url, run.key);
    let body = json!({
        "event": Event::RunSealed, "run": run.key, "page": page, "suites": run.suites,
        "device_profile": run.device_profile, "completeness": worth, "planned": tally.planned(),
        "judged": tally.judged(), "missing": tally.count(Verdict::Missing),
        "verdicts": tally.counts(),
    });
    state.webhooks.tell(connection, Event::RunSealed, &body, now).await?;
    let regressed = tally.count(Verdict::Regressed);
    if regressed > 0 {
        let filter = CaseFilter { verdict: Some(Verdict::Regressed), ..CaseFilter::default() };
        let cases = cases::list(&mut *connection, run.id, filter, MOST_CASES_TOLD).await?;
        let cases: Vec<_> = cases
            .into_iter()
            .map(|case| {
                json!({ "case": case.case, "outcome": case.outcome, "message": case.message,
                        "operator": case.operator, "baseline_run": case.baseline_run })
            })
            .collect();
        let body = json!({
            "event": Event::Regression, "run": run.key, "page": page,
            "device_profile": run.device_profile, "regressed": regressed, "cases": cases,
        });
        state.webhooks.tell(connection, Event::Regression, &body, now).await?;
    }
    Ok(())
}

/// Notes that one source has ended; answers which shards have not.
async fn seal_source(
    connection: &mut PgConnection,
    run: &LockedRun,
    request: &seal_run::Request,
    now: DateTime<Utc>,
) -> Result<Vec<u32>> {
    let source = request.source.as_ref();
    let number = sources::find_or_create(connection, run, source).await?;
    let known = db::sources::list(&mut *connection, run.id).await?;
    // Who does not say which journal it is speaks for the whole run.
    let here = match source {
        Some(_) => known.iter().find(|row| row.number == number).map_or(0, |row| row.received),
        None => run.attempts,
    };
    if here < request.attempts {
        let of = match source {
            Some(source) => format!(" of shard {} of {}", source.shard, source.shards),
            None => String::new(),
        };
        return Err(Error::conflict(
            format!(
                "run `{}` has {here} attempts{of} here, and the seal says {}",
                run.key, request.attempts
            ),
            "send the results that were lost again, then seal",
        ));
    }
    db::sources::seal(connection, run, number, request.finished_at, now).await?;
    let known = db::sources::list(&mut *connection, run.id).await?;
    Ok(source.map_or_else(Vec::new, |source| sources::waiting_for(&known, source.shards)))
}

/// Seals runs of which nothing was heard for `silence`, so that a runner that died leaves an
/// incomplete run and not one that runs for ever. Answers how many.
pub async fn close_silent_runs(state: &AppState, silence: Duration) -> Result<usize> {
    let now = state.clock.now();
    let silence = chrono::Duration::from_std(silence).map_err(anyhow::Error::from)?;
    let before = now - silence;
    let mut closed = 0;
    for key in runs::list_silent(state.db.pool(), before).await? {
        let key: RunKey = key.parse().map_err(anyhow::Error::from)?;
        let mut transaction = state.db.pool().begin().await?;
        let run = super::lock(&mut transaction, &key).await?;
        // It may have been sealed between the list and the lock; or be heard of, which is why the
        // list is asked again with the row locked.
        let still = runs::list_silent(&mut *transaction, before).await?;
        if run.state == RunState::Sealed || !still.iter().any(|silent| silent == key.as_str()) {
            continue;
        }
        judgement::judge_cases(&mut transaction, &run, None, now).await?;
        let worth = verdicts::tally(&mut *transaction, run.id).await?.completeness();
        runs::seal(&mut transaction, &run, SealedBy::Silence, worth, now).await?;
        rejudge::push_later(&mut transaction, &run, now).await?;
        let tally = verdicts::tally(&mut *transaction, run.id).await?;
        tell(state, &mut transaction, &run, &tally, worth, now).await?;
        transaction.commit().await?;
        tracing::warn!(run = %key, %worth, "closed after silence");
        closed += 1;
    }
    Ok(closed)
}

/// Withdraws a run, with a reason that goes to the audit log.
pub async fn void_run(state: &AppState, caller: &Caller, key: &RunKey, reason: &str) -> Result<()> {
    if !(10..=2_000).contains(&reason.trim().chars().count()) {
        return Err(Error::bad_request(
            "`reason` is not 10 to 2,000 characters long",
            "say why the run must not count, for whoever looks at it in a year",
        ));
    }
    let mut transaction = state.db.pool().begin().await?;
    let run = super::lock(&mut transaction, key).await?;
    let now = state.clock.now();
    runs::void(&mut transaction, &run, now).await?;
    // It is nobody's baseline any more.
    rejudge::push_later(&mut transaction, &run, now).await?;
    let detail = json!({ "reason": super::storable(reason) });
    audit::record(&mut *transaction, Some(caller), "run.void", key.as_str(), detail).await?;
    transaction.commit().await?;
    Ok(())
}
