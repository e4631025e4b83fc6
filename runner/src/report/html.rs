//! `report.html`: the run for people, in one file that needs nothing else.
//!
//! No script and no outside address: the page forbids both to itself, whatever a model or a log may
//! hold. Everything from a run is escaped by the template, which computes nothing; what it shows is
//! made here.

use askama::Template;
use protocol::evidence::TensorComparison;
use protocol::{CaseKey, Evidence, Number, Outcome, Suite};

use super::collected::{CaseRecord, Collected, Settled, Tally, rate_text};
use super::file::{ReportFile, Reports};
use super::text::{divergence_text, duration_text, excerpt, last_operator_text, log_text, plain};
use crate::event::Ending;
use crate::waivers::{Standing, Waiver};

/// Most cases of one group that are shown in full.
const MAX_DETAILED: usize = 300;
/// Most cases in the table of all cases.
const MAX_ROWS: usize = 20_000;
/// Most tensors shown of one comparison, the wrong ones first.
const MAX_TENSORS: usize = 20;
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

struct CaseDetail {
    key: String,
    message: String,
    facts: Vec<Fact>,
    tensors: Vec<TensorRow>,
    hidden_tensors: usize,
    notes: Vec<String>,
    traceback: String,
    log: String,
    repro: String,
}

struct TensorRow {
    held: bool,
    name: String,
    kind: String,
    tolerance: String,
    mismatched: String,
    max_abs: String,
    max_rel: String,
    ulps: String,
    rmse: String,
    similarity: String,
    worst: String,
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
        let mut detail = detail(case, &started.repro_command);
        let leave = collected.leave_text(case);
        detail.notes.extend(leave.map(|leave| plain(&leave)));
        detail
    };
    let shown = cases.iter().take(MAX_DETAILED).map(detail).collect();
    Some(Group { word, slug: slug(word), title, count: cases.len(), cases: shown })
}

fn detail(case: &CaseRecord<'_>, repro_command: &str) -> CaseDetail {
    let mut detail = CaseDetail {
        key: case.key.to_string(),
        message: String::new(),
        facts: Vec::new(),
        tensors: Vec::new(),
        hidden_tensors: 0,
        notes: Vec::new(),
        traceback: String::new(),
        log: String::new(),
        repro: String::new(),
    };
    if case.is_waived() {
        detail.facts.push(fact("Outcome", case.settled.word()));
    }
    let words: Vec<&str> = case.attempts.iter().map(|attempt| attempt.outcome.as_str()).collect();
    if words.len() > 1 {
        detail.facts.push(fact("Attempts", &words.join(", ")));
    }
    let Some(attempt) = case.telling() else { return detail };
    let evidence = &attempt.evidence;
    detail.message = plain(&attempt.message);
    let mut push = |name: &str, value: &str| {
        if !value.is_empty() {
            detail.facts.push(fact(name, value));
        }
    };
    push("Stage", attempt.stage.map_or("", |stage| stage.as_str()));
    push("Class", &attempt.error_class);
    push("Operator", attempt.operator.as_deref().unwrap_or_default());
    push("Last operator entered", &last_operator_text(evidence));
    push("First goes wrong in", &divergence_text(evidence));
    let operator = evidence.first_divergence.as_ref().and_then(|found| found.operator.as_ref());
    let script = operator.map_or("", |operator| operator.repro_file.as_str());
    push("Script of that operator", &in_repros(script));
    let meant: Vec<String> = evidence.model_figures.iter().map(ToString::to_string).collect();
    push("What the outputs mean", &meant.join("; "));
    push("Signal", &evidence.signal.map(|signal| signal.to_string()).unwrap_or_default());
    push("Exit code", &evidence.exit_code.map(|code| code.to_string()).unwrap_or_default());
    push("Skipped because", evidence.skip_reason.map_or("", |reason| reason.as_str()));
    push("Executed as", evidence.executed_as.as_ref().map_or("", CaseKey::as_str));
    push("Device used", &evidence.device_used);
    push("Reference", &evidence.reference);
    push("Computed on the CPU", &evidence.fallback_operators.join(", "));
    push("Substituted", &evidence.substitutions.join(", "));
    push("Reproduce", &format!("{repro_command} '{}'", case.key));
    comparisons(evidence, &mut detail);
    detail.notes.extend(evidence.notes.iter().map(|note| plain(note)));
    detail.traceback = excerpt(&plain(&evidence.traceback));
    detail.log = excerpt(&log_text(&evidence.log));
    detail.repro = excerpt(&plain(&evidence.repro));
    detail
}

/// A file of the run's folder `repros`.
fn in_repros(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("repros/{name}") }
}

/// Rules, findings and figures, what is wrong first.
fn comparisons(evidence: &Evidence, detail: &mut CaseDetail) {
    let mut rows: Vec<(bool, TensorRow)> = Vec::new();
    for comparison in &evidence.comparisons {
        let label = if comparison.label.is_empty() { "" } else { &comparison.label };
        if !comparison.held {
            let rule = format!("{}, tolerances {}", comparison.rule, comparison.tolerance_id);
            detail.facts.push(fact("Rule", format!("{rule} {label}").trim_end()));
        }
        let findings = comparison.findings.iter();
        detail
            .notes
            .extend(findings.map(|finding| plain(format!("{label} {finding}").trim_start())));
        rows.extend(comparison.tensors.iter().map(|t| (t.held, tensor_row(label, t))));
    }
    rows.sort_by_key(|(held, _)| *held);
    detail.hidden_tensors = rows.len().saturating_sub(MAX_TENSORS);
    detail.tensors = rows.into_iter().take(MAX_TENSORS).map(|(_, row)| row).collect();
}

fn tensor_row(label: &str, tensor: &TensorComparison) -> TensorRow {
    let figures = &tensor.figures;
    let text =
        |number: Option<Number>| number.map_or("–".to_owned(), |number| number.to_string());
    let worst = figures.worst_index.as_ref().map_or(String::new(), |index| {
        let (actual, expected) = (text(figures.worst_actual), text(figures.worst_expected));
        format!("{index:?}: {actual}, expected {expected}")
    });
    TensorRow {
        held: tensor.held,
        name: plain(format!("{label} {}", tensor.path).trim_start()),
        kind: format!("{} {:?}", tensor.dtype, tensor.shape),
        tolerance: format!("rtol {:e}, atol {:e}", tensor.tolerance.rtol, tensor.tolerance.atol),
        mismatched: format!("{} of {}", figures.mismatched, figures.elements),
        max_abs: text(figures.max_abs_error),
        max_rel: text(figures.max_rel_error),
        ulps: format!(
            "{} / {} / {}",
            text(figures.ulp_p50),
            text(figures.ulp_p99),
            text(figures.ulp_max)
        ),
        rmse: text(figures.rmse),
        similarity: format!("{} / {}", text(figures.pcc), text(figures.cosine)),
        worst,
    }
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
