//! A run made of somebody else's JUnit report: the same announcement, manifest, results and seal
//! that a runner sends, so that imported cases are judged, compared and gated like any other.
//!
//! Everything is checked before the first write. Sending the same report again continues where a
//! lost connection or a stopped server left it; another report under the same key is refused,
//! because the hash of the report is part of the run.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use protocol::evidence::LogExcerpt;
use protocol::ingest_api::{
    Attempt, MAX_BATCH_RESULTS, MAX_MESSAGE_BYTES, create_run, post_results, put_manifest, seal_run,
};
use protocol::{
    CaseKey, Evidence, Integration, Outcome, PROTOCOL_VERSION, RunKey, SkipReason, Suite,
};
use sha2::{Digest as _, Sha256};

use super::announce::is_simulated;
use super::batch::{MAX_ATTEMPT, MAX_CLASS_BYTES, shorten};
use crate::app::AppState;
use crate::db::tokens::Caller;
use crate::error::{Error, Result};
use crate::junit::{self, Found, Try};

/// The label that keeps two reports from becoming one run.
const REPORT_LABEL: &str = "report_sha256";
/// Most bytes kept of the beginning, and of the end, of what a test wrote.
const EXCERPT_BYTES: usize = 8 * 1024;

/// What a report does not say of its run.
#[derive(Debug, Clone)]
pub struct About {
    /// The run to make.
    pub run: RunKey,
    /// Whose tests they are.
    pub integration: Integration,
    /// Device profile.
    pub device: String,
    /// Model of the device.
    pub device_kind: String,
    /// Whether results are simulated; by the profile when absent.
    pub simulated: Option<bool>,
    /// Version tuple.
    pub versions: BTreeMap<String, String>,
    /// Free labels.
    pub labels: BTreeMap<String, String>,
    /// Where it was executed, as the sender claims.
    pub host: String,
    /// When it began; by the report when absent.
    pub started_at: Option<DateTime<Utc>>,
}

/// What came of it.
#[derive(Debug)]
pub struct Imported {
    /// Whether the run is new.
    pub created: bool,
    /// Path of its page.
    pub page: String,
    /// Attempts stored now.
    pub stored: u64,
    /// Attempts that were there already.
    pub replayed: u64,
    /// As of its seal.
    pub sealed: seal_run::Response,
}

/// Takes in a report.
pub async fn import_junit(
    state: &AppState,
    caller: &Caller,
    about: About,
    report: &[u8],
) -> Result<Imported> {
    let read = junit::read(report)
        .map_err(|problem| Error::bad_request(problem.to_string(), problem.hint))?;
    let Some(started_at) = about.started_at.or(read.started_at) else {
        return Err(Error::bad_request(
            "neither `started_at` nor the report says when it began with a time zone",
            "send `started_at` in UTC, as in `2026-11-30T05:12:00Z`",
        ));
    };
    let longest = read.tests.iter().map(|test| test.seconds).fold(0.0, f64::max);
    let cases = group(about.integration, read.tests)?;
    let manifest = manifest(&cases);
    let attempts = attempts(cases, started_at);
    let key = about.run.clone();
    let created = super::create_run(state, caller, announcement(about, started_at, report)).await?;
    super::put_manifest(state, &key, manifest).await?;
    let (mut stored, mut replayed) = (0, 0);
    for batch in attempts.chunks(MAX_BATCH_RESULTS) {
        let request = post_results::Request { source: None, results: batch.to_vec() };
        let response = super::post_results(state, &key, request).await?;
        stored += response.stored;
        replayed += response.replayed;
    }
    // A lower bound: how many tests were executed at once is not known, and figures must not look
    // younger than they are.
    let longest = chrono::Duration::milliseconds((longest * 1e3) as i64);
    let finished_at = (started_at + longest).min(state.clock.now().max(started_at));
    let attempts = attempts.len() as u64;
    let request = seal_run::Request { source: None, attempts, finished_at };
    let sealed = super::seal_run(state, &key, request).await?;
    Ok(Imported { created: created.created, page: created.page, stored, replayed, sealed })
}

fn announcement(about: About, started_at: DateTime<Utc>, report: &[u8]) -> create_run::Request {
    let mut labels = about.labels;
    labels.insert(REPORT_LABEL.to_owned(), hex::encode(Sha256::digest(report)));
    create_run::Request {
        protocol_version: PROTOCOL_VERSION,
        run_key: about.run,
        suites: vec![Suite::Imported(about.integration)],
        simulated: about.simulated.unwrap_or_else(|| is_simulated(&about.device)),
        device_profile: about.device,
        device_kind: about.device_kind,
        versions: about.versions,
        host: about.host,
        started_at,
        labels,
    }
}

/// Tests by case, in the order of the report. One that stands there twice is one case that was
/// executed twice, so that the worst of it counts.
type Cases = Vec<(CaseKey, Vec<Found>)>;

fn group(integration: Integration, tests: Vec<Found>) -> Result<Cases> {
    let mut cases: Cases = Vec::new();
    let mut places: HashMap<CaseKey, usize> = HashMap::new();
    for test in tests {
        let whole = format!("{}\n{}", test.class, test.name);
        let hash = &hex::encode(Sha256::digest(whole.as_bytes()))[..12];
        let key = CaseKey::imported(integration, &test.class, &test.name, hash);
        let place = *places.entry(key.clone()).or_insert_with(|| {
            cases.push((key, Vec::new()));
            cases.len() - 1
        });
        cases[place].1.push(test);
    }
    for (key, tests) in &cases {
        let tries: usize = tests.iter().map(|test| test.tries.len()).sum();
        if tries > MAX_ATTEMPT as usize {
            return Err(Error::bad_request(
                format!("the report has `{key}` {tries} times"),
                format!("at most {MAX_ATTEMPT} executions of a test are kept"),
            ));
        }
    }
    Ok(cases)
}

fn manifest(cases: &Cases) -> put_manifest::Request {
    let cases: Vec<CaseKey> = cases.iter().map(|(key, _)| key.clone()).collect();
    let text = put_manifest::Request::hash_text(&cases);
    put_manifest::Request { hash: hex::encode(Sha256::digest(text.as_bytes())), cases }
}

fn attempts(cases: Cases, started_at: DateTime<Utc>) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    for (case, tests) in cases {
        let mut number = 0;
        for test in tests {
            // The time is that of all its tries; how it was divided is not known.
            let part = test.seconds / test.tries.len() as f64;
            for one in &test.tries {
                number += 1;
                attempts.push(attempt(&case, number, &test, one, part, started_at));
            }
        }
    }
    attempts
}

fn attempt(
    case: &CaseKey,
    number: u32,
    test: &Found,
    one: &Try,
    seconds: f64,
    started_at: DateTime<Utc>,
) -> Attempt {
    Attempt {
        case: case.clone(),
        attempt: number,
        outcome: one.outcome,
        // No report says in which stage of ours something went wrong.
        stage: None,
        error_class: shorten(&one.class, MAX_CLASS_BYTES),
        message: shorten(&one.message, MAX_MESSAGE_BYTES),
        operator: None,
        started_at,
        seconds,
        evidence: Evidence {
            skip_reason: (one.outcome == Outcome::Skipped).then_some(SkipReason::Reported),
            notes: vec![format!("imported from a JUnit report: {} :: {}", test.class, test.name)],
            traceback: shorten(&one.text, EXCERPT_BYTES),
            log: log(&test.output),
            ..Evidence::default()
        },
    }
}

/// The beginning and the end.
fn log(output: &str) -> LogExcerpt {
    let head = shorten(output, EXCERPT_BYTES);
    let rest = &output[head.len()..];
    let mut start = rest.len().saturating_sub(EXCERPT_BYTES);
    while !rest.is_char_boundary(start) {
        start += 1;
    }
    LogExcerpt { head, tail: rest[start..].to_owned(), dropped_bytes: start as u64 }
}
