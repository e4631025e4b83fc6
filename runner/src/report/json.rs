//! `summary.json`: the run for scripts, with a version of its own.
//!
//! Keys are added, never changed, within one `schema_version`. What a pass was made of is in the
//! journal; here it has its outcome and time.

use std::collections::BTreeMap;

use protocol::ingest_api::create_run;
use protocol::{CaseKey, Outcome, Stage, Suite};
use serde::Serialize;

use super::collected::{CaseRecord, Collected, Tally};
use super::file::FileReport;

/// Version of the file's format.
pub const SCHEMA_VERSION: u32 = 1;

/// `summary.json` in the directory of the run.
#[must_use]
pub fn report() -> FileReport {
    FileReport::new("summary.json", |collected| {
        let mut bytes = serde_json::to_vec_pretty(&summary(collected))?;
        bytes.push(b'\n');
        Ok(bytes)
    })
}

#[derive(Serialize)]
struct Summary<'a> {
    schema_version: u32,
    run: &'a create_run::Request,
    /// `finished`, `stopped by SIGINT`, `aborted: …`; null while the run goes on.
    ending: Option<String>,
    finished_at: Option<chrono::DateTime<chrono::Utc>>,
    manifest: Manifest<'a>,
    /// Cases of this process: the manifest or one shard of it.
    total: Counts,
    suites: BTreeMap<&'static str, Counts>,
    unimplemented_operators: Vec<Operator<'a>>,
    findings: &'a [String],
    cases: Vec<Case<'a>>,
}

#[derive(Serialize)]
struct Manifest<'a> {
    hash: &'a str,
    cases: usize,
}

#[derive(Serialize)]
struct Counts {
    planned: u64,
    outcomes: BTreeMap<&'static str, u64>,
    pass_rate: Rate,
    completeness: Rate,
}

/// Both numbers, and their quotient; null for 0 of 0.
#[derive(Serialize)]
struct Rate {
    part: u64,
    whole: u64,
    value: Option<f64>,
}

#[derive(Serialize)]
struct Operator<'a> {
    operator: String,
    cases: Vec<&'a CaseKey>,
}

#[derive(Serialize)]
struct Case<'a> {
    case: &'a CaseKey,
    /// An outcome word, `flaky` or `missing`.
    result: &'static str,
    attempts: Vec<&'static str>,
    seconds: f64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    vacuous: bool,
    /// The case that was executed in its place, when its model has the same graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    executed_as: Option<&'a CaseKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<Why<'a>>,
}

/// Of the telling attempt of a case that did not pass.
#[derive(Serialize)]
struct Why<'a> {
    outcome: Outcome,
    stage: Option<Stage>,
    error_class: &'a str,
    message: &'a str,
    operator: Option<&'a str>,
    evidence: &'a protocol::Evidence,
}

#[expect(clippy::cast_precision_loss, reason = "counts of cases are far below 2^52")]
fn rate((part, whole): (u64, u64)) -> Rate {
    Rate { part, whole, value: (whole > 0).then(|| part as f64 / whole as f64) }
}

fn counts(tally: Tally) -> Counts {
    Counts {
        planned: tally.planned,
        pass_rate: rate(tally.pass_rate()),
        completeness: rate(tally.completeness()),
        outcomes: tally.counts,
    }
}

fn summary(collected: &Collected) -> Summary<'_> {
    let started = collected.started.as_ref().expect("checked by the caller");
    let suites = Suite::ALL
        .iter()
        .map(|suite| (suite.as_str(), collected.tally(Some(*suite))))
        .filter(|(_, tally)| tally.planned > 0)
        .map(|(suite, tally)| (suite, counts(tally)))
        .collect();
    Summary {
        schema_version: SCHEMA_VERSION,
        run: &started.run,
        ending: collected.ended.as_ref().map(|ended| ended.ending.describe()),
        finished_at: collected.ended.as_ref().map(|ended| ended.finished_at),
        manifest: Manifest { hash: &started.manifest.hash, cases: started.manifest.cases.len() },
        total: counts(collected.tally(None)),
        suites,
        unimplemented_operators: collected
            .unimplemented()
            .into_iter()
            .map(|(operator, cases)| Operator { operator, cases })
            .collect(),
        findings: &collected.findings,
        cases: collected.cases().map(|case| case_line(&case)).collect(),
    }
}

fn case_line<'a>(case: &CaseRecord<'a>) -> Case<'a> {
    Case {
        case: case.key,
        result: case.settled.word(),
        attempts: case.attempts.iter().map(|attempt| attempt.outcome.as_str()).collect(),
        seconds: case.seconds(),
        vacuous: case.is_vacuous(),
        executed_as: case.executed_as(),
        why: case.telling().map(|attempt| Why {
            outcome: attempt.outcome,
            stage: attempt.stage,
            error_class: &attempt.error_class,
            message: &attempt.message,
            operator: attempt.operator.as_deref(),
            evidence: &attempt.evidence,
        }),
    }
}
