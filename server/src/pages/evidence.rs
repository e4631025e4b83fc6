//! The evidence of one attempt, put into words and tables for the case page.

use chrono::{DateTime, Utc};
use protocol::evidence::{Figures, TensorComparison};
use protocol::{Comparison, Evidence, Number};

use super::ansi::{self, Line};
use super::view::{self, Mark};
use crate::charts::SweepChart;
use crate::db::read_cases::AttemptView;
use crate::filters;

/// One attempt of a case page.
#[derive(Debug)]
pub struct AttemptSection {
    /// From 1.
    pub number: i32,
    /// Whether the case's verdict rests on it.
    pub is_decisive: bool,
    /// What was observed.
    pub outcome: Mark,
    /// Where it stopped.
    pub stage: String,
    /// Class of the error.
    pub error_class: String,
    /// First line of what went wrong.
    pub message: String,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// Wall time.
    pub seconds: f64,
    /// What backs it, where it can be read.
    pub evidence: Option<EvidenceView>,
    /// The stored text, where it cannot.
    pub unreadable: String,
}

/// Evidence as tables.
#[derive(Debug)]
pub struct EvidenceView {
    /// Name and value of what is one line.
    pub facts: Vec<(&'static str, String)>,
    /// What the reader must know before believing a pass.
    pub warnings: Vec<String>,
    /// Stage, seconds.
    pub stages: Vec<(String, f64)>,
    /// What was wrong, in the comparison's words.
    pub findings: Vec<String>,
    /// One per tensor compared.
    pub tensors: Vec<TensorRow>,
    /// Sizes of a sweep.
    pub sweep: Vec<SweepRow>,
    /// The same, drawn.
    pub chart: Option<SweepChart>,
    /// Reasons for graphs beyond the first.
    pub graph_reasons: Vec<String>,
    /// Overload, its page, dispatches; nothing when recording did not finish.
    pub operators: Option<Vec<OperatorLine>>,
    /// Paths that were replaced for the host's sake.
    pub substitutions: Vec<String>,
    /// Findings that change nothing.
    pub notes: Vec<String>,
    /// Python's.
    pub traceback: String,
    /// First part of the log.
    pub log_head: Vec<Line>,
    /// Last part, when there is a gap.
    pub log_tail: Vec<Line>,
    /// Size of the gap in words; empty when there is none.
    pub log_gap: String,
    /// Python that executes just this case.
    pub repro: String,
    /// Python that executes just the operator that the mismatch begins in.
    pub operator_repro: String,
}

/// An overload with its number of dispatches.
#[derive(Debug)]
pub struct OperatorLine {
    /// `aten::add.Tensor`.
    pub overload: String,
    /// Its page.
    pub href: String,
    /// Dispatches.
    pub calls: u64,
    /// Dtypes and shapes that it was given, the first few.
    pub inputs: Vec<String>,
    /// Whether the backend computed it on the CPU.
    pub fell_back: bool,
}

/// Figures of one tensor, as text; a dash where undefined.
#[derive(Debug)]
pub struct TensorRow {
    /// Output set and path in the output tree.
    pub place: String,
    /// Whether it held.
    pub held: bool,
    /// Element type and shape.
    pub shape: String,
    /// Rule and tolerance.
    pub rule: String,
    /// What it was compared with.
    pub reference: String,
    /// `3 of 1,024`.
    pub mismatched: String,
    /// In the order of the table's heads.
    pub figures: Vec<String>,
    /// Place, actual and expected value of the worst element; empty when there is none.
    pub worst: String,
}

/// Heads of [`TensorRow::figures`].
pub const FIGURE_HEADS: [(&str, &str); 10] = [
    ("max abs", "largest |actual − expected|"),
    ("max rel", "largest |actual − expected| / |expected|"),
    ("ULP p50", "distance in units in the last place, median"),
    ("ULP p99", "the same, 99th percentile"),
    ("ULP max", "the same, maximum"),
    ("RMSE", "root mean square error"),
    ("PCC", "Pearson correlation"),
    ("cosine", "cosine similarity"),
    ("top-1", "rows whose largest element is at the same place"),
    ("non-finite", "pairs that differ in being NaN or infinite"),
];

/// One size of a sweep.
#[derive(Debug)]
pub struct SweepRow {
    /// `sequence=17`.
    pub label: String,
    /// Inside the bounds, or what happened outside.
    pub place: String,
    /// What was observed.
    pub mark: Mark,
    /// Graphs compiled up to here.
    pub graph_count: u64,
    /// What went wrong.
    pub message: String,
}

impl AttemptSection {
    /// From its row. `pin` keeps the run in the links to operators.
    #[must_use]
    pub fn new(attempt: AttemptView, decisive: Option<i32>, pin: &str) -> Self {
        let evidence = serde_json::from_str::<Evidence>(&attempt.evidence);
        let unreadable = if evidence.is_err() { attempt.evidence } else { String::new() };
        Self {
            number: attempt.attempt,
            is_decisive: decisive == Some(attempt.attempt),
            outcome: Mark::of_outcome(attempt.outcome.0),
            stage: attempt.stage.unwrap_or_default(),
            error_class: attempt.error_class,
            message: attempt.message,
            started_at: attempt.started_at,
            seconds: attempt.seconds,
            evidence: evidence.ok().map(|evidence| EvidenceView::new(evidence, pin)),
            unreadable,
        }
    }
}

impl EvidenceView {
    fn new(evidence: Evidence, pin: &str) -> Self {
        let vacuous = evidence.comparisons.iter().filter(|c| c.is_vacuous());
        let warnings = vacuous
            .map(|comparison| {
                format!("{} held without one finite pair of numbers", output_set(comparison))
            })
            .collect();
        let findings = evidence.comparisons.iter().flat_map(findings).collect();
        Self {
            facts: facts(&evidence),
            operator_repro: operator_repro(&evidence),
            warnings,
            findings,
            stages: in_stage_order(&evidence),
            tensors: evidence.comparisons.iter().flat_map(tensor_rows).collect(),
            chart: SweepChart::new(&evidence.sweep, &evidence.comparisons),
            sweep: evidence.sweep.iter().map(SweepRow::new).collect(),
            operators: operator_lines(&evidence, pin),
            graph_reasons: evidence.graphs.map(|graphs| graphs.reasons).unwrap_or_default(),
            substitutions: evidence.substitutions,
            notes: evidence.notes,
            traceback: evidence.traceback,
            log_head: ansi::lines(&evidence.log.head),
            log_tail: ansi::lines_of_tail(&evidence.log.tail),
            log_gap: match evidence.log.dropped_bytes {
                0 => String::new(),
                bytes => format!("{} were not kept", filters::say_bytes(bytes)),
            },
            repro: evidence.repro,
        }
    }
}

fn operator_repro(evidence: &Evidence) -> String {
    let operator = evidence.first_divergence.as_ref().and_then(|found| found.operator.as_ref());
    operator.map_or(String::new(), |operator| operator.repro.clone())
}

fn output_set(comparison: &Comparison) -> String {
    match comparison.label.as_str() {
        "" => "the comparison".to_owned(),
        label => format!("the comparison at {label}"),
    }
}

/// What was wrong, each line with the output set that it is of.
pub(super) fn findings(comparison: &Comparison) -> Vec<String> {
    let label = &comparison.label;
    let one = |finding: &String| match label.as_str() {
        "" => finding.clone(),
        label => format!("{label}: {finding}"),
    };
    comparison.findings.iter().map(one).collect()
}

fn facts(evidence: &Evidence) -> Vec<(&'static str, String)> {
    let graphs = evidence.graphs.as_ref();
    let graphs = graphs.map_or(String::new(), |g| {
        format!(
            "{} compiled, {} recompiled, {} breaks, {} calls outside any graph",
            g.graph_count, g.recompiles, g.graph_breaks, g.eager_calls
        )
    });
    let both = evidence.both_raised.as_ref();
    let both = both.map_or(String::new(), |b| format!("{} here, {} there", b.actual, b.expected));
    let last = evidence.last_operator.as_ref();
    let last = last.map_or(String::new(), |last| {
        let how = match last.source.as_str() {
            "message" => "the error names it",
            "breadcrumb" => "entered and not left by then",
            "entered-last" => "the last one entered; what was asked for before may still have run",
            "rerun" => "a second execution, one operator at a time, stopped there",
            other => other,
        };
        format!("{} ({how})", last.overload)
    });
    let divergence = evidence.first_divergence.as_ref();
    let operator = divergence.and_then(|found| found.operator.as_ref());
    let inputs = operator.map_or(String::new(), |operator| operator.inputs.join(", "));
    let divergence = divergence.map_or(String::new(), ToString::to_string);
    let meant: Vec<String> = evidence.model_figures.iter().map(ToString::to_string).collect();
    let memory = evidence.peak_memory_bytes.map_or(String::new(), filters::say_bytes);
    let signal = evidence.signal.map_or(String::new(), |signal| signal.to_string());
    let exit_code = evidence.exit_code.map_or(String::new(), |code| code.to_string());
    let skip = evidence.skip_reason.map_or(String::new(), |reason| reason.to_string());
    let executed = evidence.executed_as.as_ref();
    let executed = executed.map_or(String::new(), |case| {
        format!("not itself: its result is that of {case}, a model with the same graph")
    });
    let graph = evidence.graph_signature.clone().unwrap_or_default();
    let device = match evidence.device_used.as_str() {
        "" => "nothing came out".to_owned(),
        device => device.to_owned(),
    };
    [
        ("Executed", executed),
        ("Device used", device),
        ("Reference", evidence.reference.clone()),
        ("Skipped because", skip),
        ("Both sides raised", both),
        ("Last operator", last),
        ("First goes wrong in", divergence),
        ("From inputs", inputs),
        ("What the outputs mean", meant.join("; ")),
        ("Ended by signal", signal),
        ("Exit code", exit_code),
        ("Computed on the CPU", evidence.fallback_operators.join(", ")),
        ("Graph of the model", graph),
        ("Graphs", graphs),
        ("Peak device memory", memory),
        ("Seed", evidence.seed.to_string()),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .collect()
}

fn in_stage_order(evidence: &Evidence) -> Vec<(String, f64)> {
    let place = |word: &str| protocol::Stage::ALL.iter().position(|stage| stage.as_str() == word);
    let mut stages: Vec<(String, f64)> =
        evidence.stage_seconds.iter().map(|(stage, seconds)| (stage.clone(), *seconds)).collect();
    stages.sort_by_key(|(stage, _)| place(stage).unwrap_or(usize::MAX));
    stages
}

fn operator_lines(evidence: &Evidence, pin: &str) -> Option<Vec<OperatorLine>> {
    let operators = evidence.operators.as_ref()?;
    let mut lines: Vec<OperatorLine> = operators
        .iter()
        .map(|(overload, calls)| OperatorLine {
            overload: overload.clone(),
            href: view::operator_href(overload, pin),
            calls: *calls,
            inputs: evidence
                .operator_inputs
                .as_ref()
                .and_then(|inputs| inputs.get(overload).cloned())
                .unwrap_or_default(),
            fell_back: evidence.fallback_operators.contains(overload),
        })
        .collect();
    lines.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.overload.cmp(&b.overload)));
    Some(lines)
}

fn tensor_rows(comparison: &Comparison) -> Vec<TensorRow> {
    comparison.tensors.iter().map(|tensor| TensorRow::new(comparison, tensor)).collect()
}

/// What is undefined is a dash, never a flattering number.
const UNDEFINED: &str = "–";

fn shown(number: Option<Number>) -> String {
    number.map_or_else(|| UNDEFINED.to_owned(), |number| filters::say_figure(number.0))
}

/// A likeness of at most 1, cut and not rounded: only 1 is `1`.
fn likeness(number: Option<Number>) -> String {
    number.map_or_else(|| UNDEFINED.to_owned(), |number| filters::say_likeness(number.0))
}

impl TensorRow {
    fn new(comparison: &Comparison, tensor: &TensorComparison) -> Self {
        let figures = &tensor.figures;
        let sizes: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
        Self {
            place: [comparison.label.as_str(), tensor.path.as_str()]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(" · "),
            held: tensor.held,
            shape: format!("{}[{}]", tensor.dtype, sizes.join(", ")),
            rule: format!(
                "{} rtol {:e} atol {:e} ({})",
                comparison.rule,
                tensor.tolerance.rtol,
                tensor.tolerance.atol,
                comparison.tolerance_id
            ),
            reference: comparison.reference.clone(),
            mismatched: format!("{} of {}", figures.mismatched, figures.elements),
            figures: cells(figures),
            worst: worst(figures),
        }
    }
}

fn cells(figures: &Figures) -> Vec<String> {
    let mut cells: Vec<String> = [
        figures.max_abs_error,
        figures.max_rel_error,
        figures.ulp_p50,
        figures.ulp_p99,
        figures.ulp_max,
        figures.rmse,
    ]
    .into_iter()
    .map(shown)
    .collect();
    cells.extend([figures.pcc, figures.cosine, figures.top1_agreement].into_iter().map(likeness));
    cells.push(figures.nonfinite_mismatched.to_string());
    cells
}

fn worst(figures: &Figures) -> String {
    let Some(index) = &figures.worst_index else { return String::new() };
    format!(
        "at {index:?}: actual {}, expected {}",
        shown(figures.worst_actual),
        shown(figures.worst_expected)
    )
}

impl SweepRow {
    fn new(point: &protocol::evidence::SweepPoint) -> Self {
        let outside = point.boundary.as_deref().unwrap_or("not said what happened");
        Self {
            label: point.label.clone(),
            place: if point.inside { "inside".to_owned() } else { format!("outside: {outside}") },
            mark: Mark::of_outcome(point.outcome),
            graph_count: point.graph_count,
            message: point.message.clone(),
        }
    }
}
