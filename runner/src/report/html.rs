//! `report.html`: the run for people, in one file that needs nothing else.
//!
//! No script and no outside address: the page forbids both to itself, whatever a model or a log may
//! hold. Everything from a run is escaped by the template, which computes nothing; what it shows is
//! made here.

mod detail;

use askama::Template;
use protocol::{CaseKey, Outcome, Suite};

use self::detail::CaseDetail;
use super::collected::{CaseRecord, Collected, Settled, Tally, rate_text};
use super::file::{ReportFile, Reports};
use super::text::{duration_text, plain};
use crate::event::Ending;
use crate::waivers::{Standing, Waiver};

/// Most cases of one group that are shown in full.
const MAX_DETAILED: usize = 300;
/// Most cases in the table of all cases.
const MAX_ROWS: usize = 20_000;
/// Most cases named under an operator.
const MAX_NAMED: usize = 200;

/// `report.html` in the directory of the run.
pub(super) const FILE: ReportFile = ReportFile { name: "report.html", render };

/// Writes `report.html`.
#[must_use]
pub fn report() -> Reports {
    Reports::of(&[FILE])
}

fn render(collected: &Collected) -> Result<Vec<u8>, std::io::Error> {
    Page::of(collected).render().map(String::into_bytes).map_err(std::io::Error::other)
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page {
    run_key: String,
    device: String,
    simulated: bool,
    /// How the run ended when it did not finish; empty otherwise.
    unfinished: String,
    facts: Vec<Fact>,
    versions: Vec<Fact>,
    suites: Vec<SuiteRow>,
    unimplemented: Vec<OperatorRow>,
    failing: Vec<OperatorRow>,
    clusters: Vec<ClusterRow>,
    waiver_file: String,
    waivers: Vec<WaiverRow>,
    findings: Vec<String>,
    groups: Vec<Group>,
    words: Vec<WordCount>,
    rows: Vec<CaseRow>,
    hidden_rows: usize,
}

struct Fact {
    name: String,
    value: String,
}

struct SuiteRow {
    name: &'static str,
    planned: u64,
    counts: Vec<WordCount>,
    pass_rate: String,
    completeness: String,
}

struct WordCount {
    word: &'static str,
    slug: String,
    count: u64,
}

struct OperatorRow {
    name: String,
    count: usize,
    cases: Vec<String>,
}

/// Failures that are alike.
struct ClusterRow {
    count: usize,
    word: &'static str,
    what: String,
    operator: String,
    line: String,
    case: String,
}

struct WaiverRow {
    loud: bool,
    name: String,
    standing: String,
    reason: String,
    owner: String,
}

/// Cases with one result, in full.
struct Group {
    word: &'static str,
    /// The word as it may stand in a name.
    slug: String,
    title: &'static str,
    count: usize,
    cases: Vec<CaseDetail>,
}

struct CaseRow {
    key: String,
    word: &'static str,
    slug: String,
    attempts: usize,
    seconds: String,
    note: String,
}

/// Groups in the order of how much they matter, with their headings.
const GROUPS: &[(&str, &str)] = &[
    ("crash", "Crashes: the process ended; each cost one case"),
    ("timeout", "Timeouts: a deadline outside the process ran out"),
    ("oom", "Out of memory"),
    ("mismatch", "Mismatches: computed, and not what was expected"),
    ("flaky", "Flaky: attempts of one run differ"),
    ("error", "Errors"),
    ("unsupported", "Unsupported: the backend said so"),
    ("fallback", "Fallback: computed somewhere else"),
    ("infra", "Infrastructure: nothing was learnt about the backend"),
    ("host-limit", "Host limit: this host cannot execute what a TPU could"),
    ("waived", "Waived: did not pass, and a person answers for that until a day"),
    ("unexpected pass", "Unexpected passes: a waiver expects them to fail, and can go"),
    ("skipped", "Skipped"),
    ("missing", "Missing: planned and not run"),
];

impl Page {
    fn of(collected: &Collected) -> Self {
        let started = collected.started.as_ref().expect("checked by the caller");
        let run = &started.run;
        let cases: Vec<_> = collected.cases().collect();
        let total = collected.tally(None);
        let order = GROUPS.iter().map(|(word, _)| *word).chain(std::iter::once("pass"));
        Self {
            run_key: run.run_key.to_string(),
            device: plain(&format!("{} ({})", run.device_profile, run.device_kind)),
            simulated: run.simulated,
            unfinished: unfinished(collected),
            facts: facts(collected, &total),
            versions: run.versions.iter().map(|(name, value)| fact(name, value)).collect(),
            suites: suites(collected),
            unimplemented: operators(collected.unimplemented()),
            failing: operators(collected.failing()),
            clusters: clusters(collected),
            waiver_file: plain(&started.waivers.file),
            waivers: waivers(collected),
            findings: collected.findings.iter().map(|finding| plain(finding)).collect(),
            groups: GROUPS
                .iter()
                .filter_map(|(w, title)| group(w, title, &cases, collected))
                .collect(),
            words: order.filter_map(|word| word_count(word, &total)).collect(),
            rows: cases.iter().take(MAX_ROWS).map(row).collect(),
            hidden_rows: cases.len().saturating_sub(MAX_ROWS),
        }
    }
}

fn fact(name: &str, value: &str) -> Fact {
    Fact { name: plain(name), value: plain(value) }
}

fn unfinished(collected: &Collected) -> String {
    match collected.ended.as_ref().map(|ended| (&ended.ending, ended.not_run)) {
        None => {
            "The run has not ended: this is what was known when the report was made.".to_owned()
        }
        Some((Ending::Finished, _)) => String::new(),
        Some((Ending::Stopped { by }, left)) => {
            format!("Stopped by {}: {left} cases were not run.", plain(by))
        }
        Some((Ending::Aborted { reason }, left)) => {
            format!("Aborted: {}. {left} cases were not run.", plain(reason))
        }
    }
}

fn facts(collected: &Collected, total: &Tally) -> Vec<Fact> {
    let started = collected.started.as_ref().expect("checked by the caller");
    let run = &started.run;
    let mut facts = vec![
        fact("Pass rate", &rate_text(total.pass_rate())),
        fact("Completeness", &rate_text(total.completeness())),
        fact("Started", &run.started_at.format("%Y-%m-%d %H:%M:%S UTC").to_string()),
    ];
    if let Some(ended) = &collected.ended {
        let taken = (ended.finished_at - run.started_at).as_seconds_f64();
        facts.push(fact("Took", &duration_text(taken)));
    }
    facts.push(fact("Host", &run.host));
    if let Some(reason) = &started.device_reason {
        facts.push(fact("Device chosen because", reason));
    }
    facts.push(fact("Cases in the manifest", &started.manifest.cases.len().to_string()));
    facts.push(fact("Manifest", &started.manifest.hash));
    facts.extend(run.labels.iter().map(|(name, value)| fact(name, value)));
    facts
}

fn suites(collected: &Collected) -> Vec<SuiteRow> {
    let tallies = Suite::ALL.iter().map(|suite| (suite.as_str(), collected.tally(Some(*suite))));
    tallies
        .filter(|(_, tally)| tally.planned > 0)
        .map(|(name, tally)| SuiteRow {
            name,
            planned: tally.planned,
            counts: std::iter::once("pass")
                .chain(GROUPS.iter().map(|(word, _)| *word))
                .filter_map(|word| word_count(word, &tally))
                .collect(),
            pass_rate: rate_text(tally.pass_rate()),
            completeness: rate_text(tally.completeness()),
        })
        .collect()
}

fn word_count(word: &'static str, tally: &Tally) -> Option<WordCount> {
    let count = tally.counts.get(word).copied()?;
    Some(WordCount { word, slug: slug(word), count })
}

fn slug(word: &str) -> String {
    word.replace(' ', "-")
}

/// Most clusters that are shown.
const MAX_CLUSTERS: usize = 100;

fn clusters(collected: &Collected) -> Vec<ClusterRow> {
    let clusters = collected.clusters().into_iter().filter(|cluster| cluster.cases.len() > 1);
    clusters
        .take(MAX_CLUSTERS)
        .map(|cluster| {
            let stage = cluster.stage.map_or("", |stage| stage.as_str());
            ClusterRow {
                count: cluster.cases.len(),
                word: cluster.outcome.as_str(),
                what: plain(format!("{stage} {}", cluster.error_class).trim()),
                operator: plain(cluster.operator.unwrap_or_default()),
                line: plain(&cluster.line),
                case: cluster.cases[0].to_string(),
            }
        })
        .collect()
}

fn waivers(collected: &Collected) -> Vec<WaiverRow> {
    let Some(started) = &collected.started else { return Vec::new() };
    let waivers = &started.waivers;
    let rows = collected.standings.iter().zip(&waivers.waivers).enumerate();
    let row = |(index, (standing, waiver)): (usize, (&Standing, &Waiver))| WaiverRow {
        loud: standing.is_loud(),
        name: plain(&waivers.describe(index)),
        standing: plain(&standing.describe(waiver)),
        reason: plain(&waiver.reason),
        owner: plain(&waiver.owner),
    };
    let mut rows: Vec<_> = rows.map(row).collect();
    rows.sort_by_key(|row| !row.loud);
    rows
}

fn operators(ranked: Vec<(String, Vec<&CaseKey>)>) -> Vec<OperatorRow> {
    ranked
        .into_iter()
        .map(|(name, cases)| OperatorRow {
            name: plain(&name),
            count: cases.len(),
            cases: cases.iter().take(MAX_NAMED).map(|case| case.to_string()).collect(),
        })
        .collect()
}

fn group(
    word: &'static str,
    title: &'static str,
    cases: &[CaseRecord<'_>],
    collected: &Collected,
) -> Option<Group> {
    let started = collected.started.as_ref().expect("checked by the caller");
    let cases: Vec<_> = cases.iter().filter(|case| case.word() == word).collect();
    if cases.is_empty() {
        return None;
    }
    let detail = |case: &&CaseRecord<'_>| {
        let mut detail = detail::of(case, &started.repro_command);
        let leave = collected.leave_text(case);
        detail.notes.extend(leave.map(|leave| plain(&leave)));
        detail
    };
    let shown = cases.iter().take(MAX_DETAILED).map(detail).collect();
    Some(Group { word, slug: slug(word), title, count: cases.len(), cases: shown })
}

fn row(case: &CaseRecord<'_>) -> CaseRow {
    let note = match (case.settled, case.telling()) {
        (_, Some(attempt)) => plain(&attempt.message),
        (Settled::Steady(Outcome::Pass), None) if case.is_vacuous() => {
            "vacuous: nothing finite was compared".to_owned()
        }
        (Settled::Missing | Settled::Steady(_) | Settled::Flaky(_), None) => String::new(),
    };
    CaseRow {
        key: case.key.to_string(),
        word: case.word(),
        slug: slug(case.word()),
        attempts: case.attempts.len(),
        seconds: format!("{:.2}", case.seconds()),
        note: note.chars().take(300).collect(),
    }
}
