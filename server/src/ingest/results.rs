//! A batch of attempts: checked, stored, judged, all or nothing.

use std::collections::{BTreeSet, HashMap, HashSet};

use protocol::ingest_api::{Source, post_results};
use protocol::{CaseKey, RunKey};
use sqlx::pool::PoolConnection;
use sqlx::{Acquire as _, PgConnection, Postgres};

use super::batch::{self, Batch, MAX_ATTEMPT, clash};
use super::sources::Found;
use super::{judgement, sources};
use crate::app::AppState;
use crate::db::attempts::{self, NewAttempt, Summary};
use crate::db::runs::{self, Hold, LockedRun};
use crate::db::verdicts::{self, Planned};
use crate::db::{manifests, operators, rejudge};
use crate::error::{Error, Result};
use crate::judge::completeness::RunState;

/// Takes in a batch.
///
/// Batches of one run are taken in side by side while they have nothing to do with each other. Where
/// two have (the same case in both), or where one changes more than its cases (the first of a
/// source, one that comes after the seal), nothing of it is kept, and it is taken in again, in the end
/// by itself.
pub async fn post_results(
    state: &AppState,
    key: &RunKey,
    request: post_results::Request,
) -> Result<post_results::Response> {
    sources::check(request.source.as_ref())?;
    let source = request.source.clone();
    let batch = batch::check(request)?;
    let mut connection = state.db.pool().acquire().await?;
    let new = New {
        case_ids: find_cases(&mut connection, &batch).await?,
        overload_ids: find_overloads(&mut connection, &batch).await?,
        source: source.as_ref(),
        batch: &batch,
    };
    let mut stored = None;
    for way in [Way::Beside, Way::First, Way::Beside, Way::Alone] {
        stored = match new.take_in(state, &mut connection, key, way).await {
            Err(error) if error.is_overtaken() && way != Way::Alone => None,
            result => result?,
        };
        if stored.is_some() {
            break;
        }
    }
    let stored = stored.ok_or_else(|| anyhow::anyhow!("a batch is not taken in by itself"))?;
    let replayed = batch.len() as u64 - stored;
    state.metrics.note_results(stored, replayed);
    Ok(post_results::Response { stored, replayed })
}

/// How a batch is taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Beside others.
    Beside,
    /// By itself, unless another has been the first of the source meanwhile: those that come at once
    /// with the first need not wait for each other.
    First,
    /// By itself, whatever it is.
    Alone,
}

impl Way {
    const fn hold(self) -> Hold {
        match self {
            Self::Beside => Hold::Shared,
            Self::First | Self::Alone => Hold::Alone,
        }
    }
}

/// A batch with what is known of it before its run is held.
struct New<'a> {
    batch: &'a Batch,
    source: Option<&'a Source>,
    case_ids: HashMap<String, i64>,
    overload_ids: HashMap<String, i64>,
}

impl New<'_> {
    /// Stores and judges it in one transaction; answers how many attempts were not there yet, or
    /// nothing where it is to be taken in another way.
    async fn take_in(
        &self,
        state: &AppState,
        connection: &mut PoolConnection<Postgres>,
        key: &RunKey,
        way: Way,
    ) -> Result<Option<u64>> {
        let Self { batch, case_ids, .. } = self;
        let mut transaction = connection.begin().await?;
        let run = super::hold(&mut transaction, key, way.hold()).await?;
        super::refuse_void(&run)?;
        if run.manifest_sha256.is_none() {
            return Err(Error::conflict(
                format!("run `{key}` has no manifest yet"),
                "send the manifest before the first result",
            ));
        }
        let found = sources::find(&mut transaction, &run, self.source).await?;
        let is_first = matches!(found, Found::New(_));
        let is_alone = is_first || run.state == RunState::Sealed;
        match way {
            Way::Beside if is_alone => return Ok(None),
            Way::First if !is_alone => return Ok(None),
            Way::Beside | Way::First | Way::Alone => {}
        }
        let mut planned = find_planned(&mut transaction, &run, batch, case_ids).await?;
        let source = sources::create_if_new(&mut transaction, &run, self.source, found).await?;
        // Mostly none has an attempt yet, which its verdict knows.
        let attempted: Vec<i64> =
            planned.iter().filter(|case| case.attempts > 0).map(|case| case.case_id).collect();
        let mut known = Vec::new();
        if !attempted.is_empty() {
            known = attempts::list_summaries(&mut transaction, &run, &attempted).await?;
        }
        let attempted: HashSet<i64> = attempted.into_iter().collect();
        let new = find_new(batch, case_ids, &known, source)?;
        if new.is_empty() {
            return Ok(Some(0));
        }

        let now = state.clock.now();
        attempts::store(&mut transaction, &run, source, &new, now).await?;
        let overload_ids = self.overload_ids.clone();
        let overloads =
            operators::store_touches(&mut transaction, &run, &new, overload_ids, &attempted)
                .await?;
        let touched: HashSet<i64> = new.iter().map(|row| row.case_id).collect();
        known.retain(|summary| touched.contains(&summary.case_id));
        known.extend(new.iter().map(|row| Summary::of_new(row, source)));
        planned.retain(|case| touched.contains(&case.case_id));
        // In one order, so that two writers take index pages and rows alike.
        planned.sort_by_key(|case| case.case_id);
        judgement::judge_attempts(&mut transaction, &run, &planned, known, overloads, now).await?;
        let count = i64::try_from(new.len()).unwrap_or(i64::MAX);
        runs::note_attempts(&mut transaction, &run, count, now).await?;
        crate::db::sources::note_received(&mut transaction, &run, source, count).await?;
        if run.state == RunState::Sealed {
            let worth = verdicts::tally(&mut *transaction, run.id).await?.completeness();
            runs::correct_completeness(&mut transaction, &run, worth).await?;
            rejudge::push_later(&mut transaction, &run, now).await?;
        }
        transaction.commit().await?;
        Ok(Some(new.len() as u64))
    }
}

/// Ids of the batch's cases that were ever planned. A case keeps its id, so that no lock is needed.
async fn find_cases(connection: &mut PgConnection, batch: &Batch) -> Result<HashMap<String, i64>> {
    let mut keys: Vec<String> = batch.keys().map(|(case, _)| case.to_string()).collect();
    keys.dedup();
    Ok(manifests::find_ids(connection, &keys).await?)
}

/// Ids of the batch's overloads that were ever touched, which stay as well.
async fn find_overloads(
    connection: &mut PgConnection,
    batch: &Batch,
) -> Result<HashMap<String, i64>> {
    let names: BTreeSet<&String> = batch.values().flat_map(|row| row.touches.keys()).collect();
    let names: Vec<String> = names.into_iter().cloned().collect();
    Ok(operators::find_ids(connection, &names).await?)
}

/// The batch's cases, every one of which must have been planned.
async fn find_planned(
    connection: &mut PgConnection,
    run: &LockedRun,
    batch: &Batch,
    case_ids: &HashMap<String, i64>,
) -> Result<Vec<Planned>> {
    let mut keys: Vec<&CaseKey> = batch.keys().map(|(case, _)| case).collect();
    keys.dedup();
    let by_id: HashMap<i64, &CaseKey> =
        keys.iter().filter_map(|key| Some((*case_ids.get(key.as_str())?, *key))).collect();
    let planned = verdicts::find_planned(connection, run, &by_id).await?;
    if planned.len() < keys.len() {
        let found: HashSet<&str> = planned.iter().map(|case| case.key.as_str()).collect();
        let strangers: Vec<&&CaseKey> =
            keys.iter().filter(|key| !found.contains(key.as_str())).collect();
        return Err(Error::bad_request(
            format!(
                "`{}` is not in the manifest of run `{}` ({} of {} cases are not)",
                strangers[0],
                run.key,
                strangers.len(),
                keys.len()
            ),
            "a result needs a planned case; plan it in a run of its own",
        ));
    }
    Ok(planned)
}

/// Rows for the attempts of the batch that are not stored yet. What the source sent before must
/// have the same body; what another source calls by the same number is another attempt.
fn find_new<'a>(
    batch: &'a Batch,
    case_ids: &HashMap<String, i64>,
    known: &[Summary],
    source: i16,
) -> Result<Vec<NewAttempt<'a>>> {
    let mut by_case: HashMap<i64, Vec<&Summary>> = HashMap::new();
    for summary in known {
        by_case.entry(summary.case_id).or_default().push(summary);
    }
    let mut taken: HashMap<i64, BTreeSet<i32>> = HashMap::new();
    let mut new = Vec::with_capacity(batch.len());
    for ((case, number), observed) in batch {
        let case_id = case_ids[case.as_str()];
        let source_attempt = i32::try_from(*number).map_err(anyhow::Error::from)?;
        let known = by_case.get(&case_id).map_or(&[][..], Vec::as_slice);
        let is_same = |summary: &&&Summary| {
            summary.source == source && summary.source_attempt == source_attempt
        };
        match known.iter().find(is_same) {
            Some(stored) if stored.body_sha256 == observed.body_sha256 => continue,
            Some(_) => return Err(clash(case, *number)),
            None => {}
        }
        let taken = taken
            .entry(case_id)
            .or_insert_with(|| known.iter().map(|summary| summary.attempt).collect());
        let attempt = if taken.contains(&source_attempt) {
            taken.last().map_or(1, |last| last + 1)
        } else {
            source_attempt
        };
        if attempt > MAX_ATTEMPT.cast_signed() {
            return Err(Error::conflict(
                format!("`{case}` has {MAX_ATTEMPT} attempts in this run"),
                "start a new run under another key",
            ));
        }
        taken.insert(attempt);
        new.push(NewAttempt { case_id, attempt, source_attempt, observed });
    }
    Ok(new)
}
