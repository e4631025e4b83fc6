//! A batch of attempts as it came: checked, and made ready before the run is held, since others wait
//! for that.

use std::collections::BTreeMap;

use protocol::ingest_api::{Attempt, MAX_BATCH_RESULTS, MAX_MESSAGE_BYTES, post_results};
use protocol::{CaseKey, Outcome};
use sha2::{Digest as _, Sha256};

use super::storable;
use crate::db::attempts::Observation;
use crate::db::operators::Touch;
use crate::error::{Error, Result};
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

/// By case and number, each once, in that order.
pub(super) type Batch = BTreeMap<(CaseKey, u32), Observation>;

/// Checks a batch, and makes of it what is stored.
pub(super) fn check(request: post_results::Request) -> Result<Batch> {
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

pub(super) fn clash(case: &CaseKey, attempt: u32) -> Error {
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
