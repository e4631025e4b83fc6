//! A batch of attempts: checked, stored, judged, all or nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use protocol::ingest_api::{Attempt, MAX_BATCH_RESULTS, MAX_MESSAGE_BYTES, post_results};
use protocol::{CaseKey, Outcome, RunKey};
use sha2::{Digest as _, Sha256};
use sqlx::{Acquire as _, PgConnection};

use super::{judgement, sources, storable};
use crate::app::AppState;
use crate::db::attempts::{self, NewAttempt, Observation, Summary};
use crate::db::manifests;
use crate::db::operators::{self, Touch};
use crate::db::rejudge;
use crate::db::runs::{self, LockedRun};
use crate::db::verdicts::{self, Planned};
use crate::error::{Error, Result};
use crate::judge::completeness::RunState;
use crate::judge::signature::Signature;

/// Most attempts at one case in one run.
pub(super) const MAX_ATTEMPT: u32 = 1_000;
/// Longest attempt, in seconds: 115 days.
const MAX_SECONDS: f64 = 1e7;
/// Most dispatches of one overload that are counted; sums over any number of cases stay far below
/// what the database can hold.
const MAX_CALLS: u64 = 1_000_000_000_000;
/// Longest error class, in bytes.
pub(super) const MAX_CLASS_BYTES: usize = 300;
/// Longest overload name, in bytes; the schema has the same limit.
const MAX_OVERLOAD_BYTES: usize = 300;

/// Takes in a batch.
pub async fn post_results(
    state: &AppState,
    key: &RunKey,
    request: post_results::Request,
) -> Result<post_results::Response> {
    sources::check(request.source.as_ref())?;
    let source = request.source.clone();
    let batch = check(request)?;
    let mut connection = state.db.pool().acquire().await?;
    let case_ids = find_cases(&mut connection, &batch).await?;
    let mut overload_ids = find_overloads(&mut connection, &batch).await?;
    let mut transaction = connection.begin().await?;
    let run = super::lock(&mut transaction, key).await?;
    super::refuse_void(&run)?;
    if run.manifest_sha256.is_none() {
        return Err(Error::conflict(
            format!("run `{key}` has no manifest yet"),
            "send the manifest before the first result",
        ));
    }
    let mut planned = find_planned(&mut transaction, &run, &batch, &case_ids).await?;
    let source = sources::find_or_create(&mut transaction, &run, source.as_ref()).await?;
    // Mostly none has an attempt yet, which its verdict knows.
    let attempted: Vec<i64> =
        planned.iter().filter(|case| case.attempts > 0).map(|case| case.case_id).collect();
    let mut known = Vec::new();
    if !attempted.is_empty() {
        known = attempts::list_summaries(&mut transaction, &run, Some(&attempted)).await?;
    }
    let attempted: HashSet<i64> = attempted.into_iter().collect();
    let new = find_new(&batch, &case_ids, &known, source)?;
    let replayed = (batch.len() - new.len()) as u64;
    let response = post_results::Response { stored: new.len() as u64, replayed };
    if new.is_empty() {
        state.metrics.note_results(0, replayed);
        return Ok(response);
    }

    let now = state.clock.now();
    attempts::store(&mut transaction, &run, source, &new, now).await?;
    let overloads =
        operators::store_touches(&mut transaction, &run, &new, &mut overload_ids, &attempted)
            .await?;
    let touched: HashSet<i64> = new.iter().map(|row| row.case_id).collect();
    known.retain(|summary| touched.contains(&summary.case_id));
    known.extend(new.iter().map(|row| Summary::of_new(row, source)));
    planned.retain(|case| touched.contains(&case.case_id));
    // In one order, so that two writers of different runs take index pages alike.
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
    state.metrics.note_results(response.stored, response.replayed);
    Ok(response)
}

/// By case and number, each once, in that order.
type Batch = BTreeMap<(CaseKey, u32), Observation>;

/// Everything that can be made of a batch before the run is locked, since others wait for that.
fn check(request: post_results::Request) -> Result<Batch> {
    if request.results.len() > MAX_BATCH_RESULTS {
        return Err(Error::bad_request(
            format!("`results` has {} attempts", request.results.len()),
            format!("send at most {MAX_BATCH_RESULTS} in one request"),
        ));
    }
    let mut batch = Batch::new();
    for (number, attempt) in request.results.into_iter().enumerate() {
        check_attempt(number, &attempt)?;
        let key = (attempt.case.clone(), attempt.attempt);
        let observed = observe(attempt)?;
        if let Some(other) = batch.get(&key)
            && other.body_sha256 != observed.body_sha256
        {
            return Err(clash(&key.0, key.1));
        }
        batch.insert(key, observed);
    }
    Ok(batch)
}

/// What is stored of an attempt.
fn observe(attempt: Attempt) -> Result<Observation> {
    let body = serde_json::to_string(&attempt).map_err(anyhow::Error::from)?;
    let message = shorten(&storable(&attempt.message), MAX_MESSAGE_BYTES);
    let error_class = storable(&attempt.error_class);
    let operator = blamed(&attempt).map(str::to_owned);
    let Attempt { outcome, stage, .. } = attempt;
    let signature = Signature::new(outcome, stage, &error_class, operator.as_deref(), &message);
    Ok(Observation {
        body_sha256: Sha256::digest(&body).to_vec(),
        evidence: evidence_of(body)?,
        touches: find_touches(&attempt),
        outcome,
        stage,
        error_class,
        message,
        operator,
        started_at: attempt.started_at,
        seconds: attempt.seconds,
        signature,
    })
}

/// The evidence in the text of an attempt, which it ends with, so that it is written only once.
fn evidence_of(mut body: String) -> Result<String> {
    // In a text, the quotes would stand behind a backslash.
    const FIELD: &str = ",\"evidence\":";
    let place = body.find(FIELD).ok_or_else(|| anyhow::anyhow!("an attempt has no evidence"))?;
    body.truncate(body.len() - "}".len());
    body.drain(..place + FIELD.len());
    Ok(body)
}

fn clash(case: &CaseKey, attempt: u32) -> Error {
    Error::conflict(
        format!("attempt {attempt} at `{case}` exists with another body"),
        "number a retry as a new attempt; two runs must not share a run key",
    )
}

fn check_attempt(number: usize, attempt: &Attempt) -> Result<()> {
    let bad = |field: &str, problem: &str, hint: &str| {
        Err(Error::bad_request(format!("`results[{number}].{field}` {problem}"), hint))
    };
    if !(1..=MAX_ATTEMPT).contains(&attempt.attempt) {
        return bad("attempt", "is not from 1 to 1000", "number attempts from 1");
    }
    if !(0.0..=MAX_SECONDS).contains(&attempt.seconds) {
        return bad("seconds", "is not a length of time", "send seconds from 0 to 10 million");
    }
    super::check_time(&format!("results[{number}].started_at"), attempt.started_at)?;
    if attempt.error_class.len() > MAX_CLASS_BYTES {
        return bad("error_class", "is longer than 300 bytes", "send the class, not the message");
    }
    if (attempt.outcome == Outcome::Skipped) != attempt.evidence.skip_reason.is_some() {
        return bad(
            "evidence.skip_reason",
            "does not go with the outcome",
            "a skipped attempt, and no other, has a reason from the closed list",
        );
    }
    let evidence = &attempt.evidence;
    let named = evidence.operators.iter().flat_map(BTreeMap::keys);
    let named = named.chain(&evidence.fallback_operators).chain(&attempt.operator);
    let mut named = named.chain(evidence.last_operator.iter().map(|last| &last.overload));
    if named.any(|name| name.is_empty() || name.len() > MAX_OVERLOAD_BYTES || name.contains('\0')) {
        return bad(
            "evidence",
            "names an operator with nothing, with more than 300 bytes, or with NUL",
            "name overloads as `aten::add.Tensor`",
        );
    }
    Ok(())
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

/// The overload to blame: named by the error, or else the last one entered.
fn blamed(attempt: &Attempt) -> Option<&str> {
    if attempt.outcome == Outcome::Pass {
        return None;
    }
    let last = attempt.evidence.last_operator.as_ref().map(|last| last.overload.as_str());
    attempt.operator.as_deref().or(last)
}

/// At most so many bytes, cut between characters.
pub(super) fn shorten(text: &str, longest: usize) -> String {
    let mut end = text.len().min(longest);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// Which overloads an attempt touched, and how.
fn find_touches(attempt: &Attempt) -> BTreeMap<String, Touch> {
    let mut touches: BTreeMap<String, Touch> = BTreeMap::new();
    for (overload, calls) in attempt.evidence.operators.iter().flatten() {
        let calls = i64::try_from((*calls).min(MAX_CALLS)).unwrap_or(i64::MAX);
        touches.entry(overload.clone()).or_default().calls = Some(calls);
    }
    for overload in &attempt.evidence.fallback_operators {
        touches.entry(overload.clone()).or_default().fell_back = true;
    }
    if let Some(overload) = blamed(attempt) {
        touches.entry(overload.to_owned()).or_default().blamed = true;
    }
    touches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_evidence_is_what_an_attempt_ends_with() {
        let text = serde_json::json!({
            "case": "operators/opinfo:add#0/float32.eager.forward", "attempt": 1,
            "outcome": "error", "message": "it says ,\"evidence\":{} and }",
            "started_at": "2026-11-30T05:12:00Z", "seconds": 0.5,
            "evidence": { "device_used": "tpu:0", "notes": [",\"evidence\":"] },
        });
        let attempt: Attempt = serde_json::from_value(text).unwrap();
        let expected = serde_json::to_string(&attempt.evidence).unwrap();
        assert_eq!(observe(attempt).unwrap().evidence, expected);
    }
}
