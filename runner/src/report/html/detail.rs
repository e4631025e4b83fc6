//! One case in full.

use protocol::evidence::TensorComparison;
use protocol::{CaseKey, Evidence, Number};

use super::super::collected::CaseRecord;
use super::super::text::{divergence_text, excerpt, last_operator_text, log_text, plain};
use super::{Fact, fact};

/// Most tensors shown of one comparison, the wrong ones first.
const MAX_TENSORS: usize = 20;
pub(super) struct CaseDetail {
    pub(super) key: String,
    pub(super) message: String,
    pub(super) facts: Vec<Fact>,
    pub(super) tensors: Vec<TensorRow>,
    pub(super) hidden_tensors: usize,
    pub(super) notes: Vec<String>,
    pub(super) traceback: String,
    pub(super) log: String,
    pub(super) repro: String,
}

pub(super) struct TensorRow {
    pub(super) held: bool,
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) tolerance: String,
    pub(super) mismatched: String,
    pub(super) max_abs: String,
    pub(super) max_rel: String,
    pub(super) ulps: String,
    pub(super) rmse: String,
    pub(super) similarity: String,
    pub(super) worst: String,
}

pub(super) fn of(case: &CaseRecord<'_>, repro_command: &str) -> CaseDetail {
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
