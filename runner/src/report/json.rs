//! `summary.json`, and what `--json` prints of a run: the run for scripts, with a version of its own.
//!
//! Keys are added, never changed, within one `schema_version`. What a pass was made of is in the
//! journal; here it has its outcome and time.

use std::collections::BTreeMap;

use protocol::ingest_api::create_run;
use protocol::{CaseKey, Outcome, Stage, Suite};
use serde::Serialize;

use super::collected::{CaseRecord, Collected, Tally};
use super::file::{ReportFile, Reports};
use super::grouped::Cluster;
use crate::event::PeakMemory;
use crate::waivers::Standing;

/// Version of the file's format.
pub const SCHEMA_VERSION: u32 = 1;

/// `summary.json` in the directory of the run.
pub(super) const FILE: ReportFile = ReportFile { name: "summary.json", render };

/// Writes `summary.json`.
#[must_use]
pub fn report() -> Reports {
    Reports::of(&[FILE])
}

fn render(collected: &Collected) -> Result<Vec<u8>, std::io::Error> {
    let cases = collected.cases().map(|case| case_line(collected, &case)).collect();
    let mut bytes = serde_json::to_vec_pretty(&Summary { cases, ..summary(collected) })?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The same without the single cases, for `--json`.
pub(super) fn summary_text(collected: &Collected) -> Result<String, std::io::Error> {
    if collected.started.is_none() {
        return Ok(String::new());
    }
    Ok(serde_json::to_string_pretty(&summary(collected))? + "\n")
}

#[derive(Serialize)]
struct Summary<'a> {
    schema_version: u32,
    run: &'a create_run::Request,
    /// `finished`, `stopped by SIGINT`, `aborted: …`; null while the run goes on.
    ending: Option<String>,
    finished_at: Option<chrono::DateTime<chrono::Utc>>,
    peak_memory: Option<PeakMemory>,
    manifest: Manifest<'a>,
    /// Cases of this process: the manifest or one shard of it.
    total: Counts,
    suites: BTreeMap<&'static str, Counts>,
    unimplemented_operators: Vec<Operator<'a>>,
    /// Operators and models that fail otherwise, the most failures first.
    failing: Vec<Operator<'a>>,
    /// Failures by signature, the most frequent first.
    clusters: Vec<ClusterLine<'a>>,
    /// Null without `--waivers`.
    waivers: Option<WaiverFile<'a>>,
    findings: &'a [String],
    run_dir: &'a std::path::Path,
    /// In the file only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cases: Vec<Case<'a>>,
}

/// Cases that failed in the same way.
#[derive(Serialize)]
struct ClusterLine<'a> {
    outcome: Outcome,
    stage: Option<Stage>,
    error_class: &'a str,
    operator: Option<&'a str>,
    /// First line of the message, without what differs from process to process.
    line: String,
    count: usize,
    /// The first of them.
    case: &'a CaseKey,
}

#[derive(Serialize)]
struct WaiverFile<'a> {
    file: &'a str,
    sha256: &'a str,
    waivers: Vec<WaiverLine<'a>>,
}

#[derive(Serialize)]
struct WaiverLine<'a> {
    line: usize,
    /// `used`, `not needed`, `expired`, `not for this run` or `unmatched`; null while the run goes
    /// on.
    standing: Option<&'static str>,
    /// The same for people.
    text: String,
    waived: u64,
    unexpected_passes: u64,
    issue: &'a str,
    owner: &'a str,
    expires_on: chrono::NaiveDate,
}

#[derive(Serialize)]
struct Manifest<'a> {
    hash: &'a str,
    cases: usize,
}

#[derive(Serialize)]
struct Counts {
    planned: u64,
    /// Neither passed nor skipped nor waived; missing ones too.
    failures: u64,
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
    /// An outcome word, `flaky`, `missing`, `waived` or `unexpected pass`.
    result: &'static str,
    /// The waiver that speaks of it, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiver: Option<String>,
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
        failures: tally.failures,
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
        peak_memory: collected.ended.as_ref().and_then(|ended| ended.peak_memory),
        manifest: Manifest { hash: &started.manifest.hash, cases: started.manifest.cases.len() },
        total: counts(collected.tally(None)),
        suites,
        unimplemented_operators: operators(collected.unimplemented()),
        failing: operators(collected.failing()),
        clusters: collected.clusters().into_iter().map(cluster_line).collect(),
        waivers: waiver_file(collected),
        findings: &collected.findings,
        run_dir: &started.run_dir,
        cases: Vec::new(),
    }
}

fn operators(ranked: Vec<(String, Vec<&CaseKey>)>) -> Vec<Operator<'_>> {
    ranked.into_iter().map(|(operator, cases)| Operator { operator, cases }).collect()
}

fn cluster_line(cluster: Cluster<'_>) -> ClusterLine<'_> {
    let Cluster { outcome, stage, error_class, operator, line, cases } = cluster;
    let (count, case) = (cases.len(), cases[0]);
    ClusterLine { outcome, stage, error_class, operator, line, count, case }
}

fn waiver_file(collected: &Collected) -> Option<WaiverFile<'_>> {
    let file = &collected.started.as_ref()?.waivers;
    let line = |(index, waiver): (usize, &'_ crate::waivers::Waiver)| {
        let standing = collected.standings.get(index);
        let (waived, unexpected_passes) = match standing {
            Some(Standing::Used { waived, passed }) => (*waived, *passed),
            Some(
                Standing::NotNeeded
                | Standing::Expired
                | Standing::OtherRun(_)
                | Standing::Unmatched,
            )
            | None => (0, 0),
        };
        (
            standing.map(Standing::word),
            standing.map(|s| s.describe(waiver)),
            waived,
            unexpected_passes,
        )
    };
    let waivers = file.waivers.iter().enumerate();
    let waivers = waivers.map(|(index, waiver)| {
        let (standing, text, waived, unexpected_passes) = line((index, waiver));
        WaiverLine {
            line: waiver.line,
            standing,
            text: text.unwrap_or_default(),
            waived,
            unexpected_passes,
            issue: &waiver.issue,
            owner: &waiver.owner,
            expires_on: waiver.terms.expires_on,
        }
    });
    (!file.file.is_empty()).then(|| WaiverFile {
        file: &file.file,
        sha256: &file.sha256,
        waivers: waivers.collect(),
    })
}

fn case_line<'a>(collected: &Collected, case: &CaseRecord<'a>) -> Case<'a> {
    Case {
        case: case.key,
        result: case.word(),
        waiver: collected.leave_text(case),
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
