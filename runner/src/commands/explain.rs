//! `runner explain`: why a case of a kept run does not hold, in figures, elements and words.

use std::collections::HashMap;

use protocol::evidence::TensorComparison;
use protocol::ingest_api::Attempt;
use protocol::{Comparison, Number};
use serde::Serialize;

use super::print;
use super::repro::attempts_of;
use crate::Error;
use crate::args::ExplainArgs;
use crate::compare::{Detail, details};
use crate::exit::Exit;
use crate::run_dir::RunDir;
use crate::slot::kept::tensor_names;

/// What is printed.
#[derive(Debug, Serialize)]
struct Explanation<'a> {
    case: &'a protocol::CaseKey,
    attempt: u32,
    outcome: protocol::Outcome,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_divergence: Option<&'a protocol::evidence::FirstDivergence>,
    /// What the outputs of a model mean.
    model_figures: &'a [protocol::evidence::ModelFigure],
    /// Every output set that was compared.
    comparisons: &'a [Comparison],
    /// Of the first set that did not hold, from the tensors kept with the run; empty with `missing`.
    details: Vec<Detail>,
    /// Why there are no details.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
    /// What would have to be true for it to pass.
    to_pass: Vec<String>,
}

pub(super) fn execute(args: &ExplainArgs) -> Result<Exit, Error> {
    let run_dir = RunDir::find(&args.runs.directory(), args.of.run())?;
    let attempts = attempts_of(&run_dir, args.of.case())?;
    let attempt = telling(&attempts);
    let failing = attempt.evidence.comparisons.iter().find(|comparison| !comparison.held);
    let (details, missing) = match failing.map(|set| look(&run_dir, attempt, set, args.worst)) {
        None => (Vec::new(), None),
        Some(Ok(details)) => (details, None),
        Some(Err(why)) => (Vec::new(), Some(why)),
    };
    let explanation = Explanation {
        case: &attempt.case,
        attempt: attempt.attempt,
        outcome: attempt.outcome,
        message: &attempt.message,
        first_divergence: attempt.evidence.first_divergence.as_ref(),
        model_figures: &attempt.evidence.model_figures,
        comparisons: &attempt.evidence.comparisons,
        to_pass: to_pass(attempt, failing, &details),
        details,
        missing,
    };
    if args.json {
        let text = serde_json::to_string_pretty(&explanation).expect("text keys only");
        print(&format!("{text}\n"))?;
    } else {
        print(&describe(&explanation))?;
    }
    Ok(Exit::Success)
}

/// The last attempt with something that did not hold, else the last one.
fn telling(attempts: &[Attempt]) -> &Attempt {
    let differs = |attempt: &&Attempt| attempt.evidence.comparisons.iter().any(|set| !set.held);
    let last = attempts.last().expect("at least one");
    attempts.iter().rev().find(differs).unwrap_or(last)
}

fn look(
    run_dir: &RunDir,
    attempt: &Attempt,
    set: &Comparison,
    most: usize,
) -> Result<Vec<Detail>, String> {
    let executed = attempt.evidence.executed_as.as_ref().unwrap_or(&attempt.case);
    let names = tensor_names(executed, attempt.attempt);
    let [actual, expected, wide] = names.map(|name| run_dir.tensors().join(name));
    if !actual.exists() || !expected.exists() {
        return Err("the tensors of this attempt were not kept; its notes may say why".to_owned());
    }
    let tolerances: HashMap<String, _> =
        set.tensors.iter().map(|tensor| (tensor.path.clone(), tensor.tolerance)).collect();
    let wide = Some(wide.as_path()).filter(|path| path.exists());
    details(&actual, &expected, wide, &tolerances, most).map_err(|error| error.to_string())
}

/// What would have to be true for the case to pass, one line each.
fn to_pass(attempt: &Attempt, failing: Option<&Comparison>, details: &[Detail]) -> Vec<String> {
    let Some(failing) = failing else {
        let outcome = attempt.outcome;
        let text = if outcome == protocol::Outcome::Pass {
            "nothing: it passes".to_owned()
        } else {
            format!("it would have to end otherwise than by `{outcome}`")
        };
        return vec![text];
    };
    let mut lines = Vec::new();
    for tensor in failing.tensors.iter().filter(|tensor| !tensor.held) {
        let detail = details.iter().find(|detail| detail.path == tensor.path);
        let other_dtype = format!("{}: dtype ", tensor.path);
        let wrong_dtype = failing.findings.iter().any(|line| line.starts_with(&other_dtype));
        let needed = match needed(tensor, detail, &failing.rule) {
            _ if wrong_dtype => {
                "its dtype would have to be the expected one; no tolerance helps".to_owned()
            }
            needed => needed,
        };
        lines.push(format!("{}: {needed}", tensor.path));
    }
    if lines.is_empty() {
        lines.push("both sides would need one structure: see what was found".to_owned());
    }
    lines
}

fn needed(tensor: &TensorComparison, detail: Option<&Detail>, rule: &str) -> String {
    let figures = &tensor.figures;
    if figures.elements == 0 {
        return "its shape or dtype would have to be the expected one; no tolerance helps"
            .to_owned();
    }
    if figures.nonfinite_mismatched > 0 {
        return format!(
            "{} elements would have to be finite, NaN or infinite as expected; no tolerance helps",
            figures.nonfinite_mismatched
        );
    }
    let Some(detail) = detail.filter(|_| rule == "close") else {
        return format!(
            "{} elements would have to be within the rule `{rule}`",
            figures.mismatched
        );
    };
    let tolerance = tensor.tolerance;
    format!(
        "an atol of {} in place of {:e}, or an rtol of {} in place of {:e}; or {} of {} elements \
         nearer",
        figure(detail.needed_atol),
        tolerance.atol,
        figure(detail.needed_rtol),
        tolerance.rtol,
        detail.mismatched,
        detail.elements
    )
}

/// Two digits after the first, rounded up: what is printed is enough.
fn figure(number: Number) -> String {
    if number.0 == 0.0 || !number.0.is_finite() {
        return number.to_string();
    }
    let unit = 10f64.powf(number.0.abs().log10().floor() - 2.0);
    format!("{:.2e}", (number.0 / unit).ceil() * unit)
}

fn describe(explanation: &Explanation<'_>) -> String {
    let mut lines = vec![
        format!("{}", explanation.case),
        format!("attempt {}: {}", explanation.attempt, explanation.outcome),
    ];
    if !explanation.message.is_empty() {
        lines.push(format!("  {}", explanation.message));
    }
    if let Some(found) = explanation.first_divergence {
        lines.push(format!("first goes wrong in {found}"));
    }
    for set in explanation.comparisons {
        lines.extend(describe_set(set));
    }
    lines.extend(explanation.model_figures.iter().map(ToString::to_string));
    if let Some(why) = &explanation.missing {
        lines.push(format!("no elements to show: {why}"));
    }
    for detail in telling_details(explanation) {
        lines.extend(describe_detail(detail));
    }
    lines.push("to pass:".to_owned());
    lines.extend(explanation.to_pass.iter().map(|line| format!("  {line}")));
    lines.join("\n") + "\n"
}

/// Of the tensors that do not hold, or of all where none of them is known to be wrong.
fn telling_details<'a>(explanation: &'a Explanation<'_>) -> Vec<&'a Detail> {
    let failing = explanation.comparisons.iter().find(|set| !set.held);
    let tensors = failing.map_or(&[][..], |set| &set.tensors);
    let is_wrong = |detail: &&Detail| tensors.iter().any(|it| !it.held && it.path == detail.path);
    let telling: Vec<_> = explanation.details.iter().filter(is_wrong).collect();
    if telling.is_empty() { explanation.details.iter().collect() } else { telling }
}

/// Most names of tensors that hold beside others that do not.
const MOST_NAMES: usize = 10;

fn describe_set(set: &Comparison) -> Vec<String> {
    let label = if set.label.is_empty() { String::new() } else { format!(" at {}", set.label) };
    let held = if set.held { "holds" } else { "does not hold" };
    let mut lines = vec![format!(
        "rule `{}`{label} {held} (tolerances {}, against {})",
        set.rule, set.tolerance_id, set.reference
    )];
    lines.extend(set.findings.iter().map(|finding| format!("  {finding}")));
    let (holding, wrong): (Vec<_>, Vec<_>) = set.tensors.iter().partition(|tensor| tensor.held);
    if !wrong.is_empty() && !holding.is_empty() {
        let names: Vec<&str> =
            holding.iter().take(MOST_NAMES).map(|tensor| tensor.path.as_str()).collect();
        let more = if holding.len() > MOST_NAMES { ", …" } else { "" };
        lines.push(format!(
            "  {} of {} tensors hold: {}{more}",
            holding.len(),
            set.tensors.len(),
            names.join(", ")
        ));
    }
    for tensor in if wrong.is_empty() { &holding } else { &wrong } {
        let figures = &tensor.figures;
        let text = |number: Option<Number>| number.map_or("–".to_owned(), |n| n.to_string());
        lines.push(format!("  {} {} {:?}", tensor.path, tensor.dtype, tensor.shape));
        lines.push(format!(
            "    mismatched {} of {}, limit 0; |error| ≤ {:e} + {:e}·|expected|",
            figures.mismatched, figures.elements, tensor.tolerance.atol, tensor.tolerance.rtol
        ));
        lines.push(format!(
            "    max abs {}, max rel {}, RMSE {}, ULP p50/p99/max {}/{}/{}, PCC {}, cosine {}",
            text(figures.max_abs_error),
            text(figures.max_rel_error),
            text(figures.rmse),
            text(figures.ulp_p50),
            text(figures.ulp_p99),
            text(figures.ulp_max),
            text(figures.pcc),
            text(figures.cosine)
        ));
    }
    lines
}

/// Widest bar of the histogram, in characters.
const WIDEST: u64 = 40;

fn describe_detail(detail: &Detail) -> Vec<String> {
    let mut lines = vec![format!("errors of {}:", detail.path)];
    let most = detail
        .decades
        .values()
        .copied()
        .chain([detail.equal, detail.nonfinite])
        .max()
        .unwrap_or(0)
        .max(1);
    let bar = |name: String, count: u64| {
        let width = usize::try_from((count * WIDEST).div_ceil(most)).unwrap_or(0);
        format!("  {name:>16} {count:>10}  {}", "█".repeat(width))
    };
    lines.push(bar("0".to_owned(), detail.equal));
    for (decade, count) in &detail.decades {
        lines.push(bar(format!("1e{decade} … 1e{}", decade + 1), *count));
    }
    if detail.nonfinite > 0 {
        lines.push(bar("not finite".to_owned(), detail.nonfinite));
    }
    if !detail.worst.is_empty() {
        lines.push(format!("worst of {}:", detail.path));
    }
    for element in &detail.worst {
        let float64 = element.float64.map_or("–".to_owned(), |number| format!("{:e}", number.0));
        let ulps = element.ulps.map_or("–".to_owned(), |ulps| ulps.to_string());
        lines.push(format!(
            "  {:?}  actual {}, expected {}, float64 {float64}, error {}, allowed {}, {ulps} ULP",
            element.index, element.actual, element.expected, element.error, element.allowed
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_rounded_up_so_that_it_is_enough() {
        for value in [1.234e-5, 0.099_99, 3.0, 7.001e8] {
            let shown: f64 = figure(Number(value)).parse().unwrap();
            assert!(shown >= value && shown < value * 1.011, "{value} as {shown}");
        }
        assert_eq!(figure(Number(f64::INFINITY)), "inf");
    }

    #[test]
    fn what_does_not_hold_is_shown_and_what_holds_is_named() {
        let tensor = |path: &str, held| TensorComparison {
            path: path.to_owned(),
            held,
            dtype: "float32".to_owned(),
            shape: vec![2],
            tolerance: protocol::Tolerance::EXACT,
            figures: protocol::Figures::default(),
        };
        let set = |tensors| Comparison {
            label: String::new(),
            held: false,
            rule: "close".to_owned(),
            tolerance_id: "t".to_owned(),
            reference: "cpu".to_owned(),
            tensors,
            findings: Vec::new(),
            addends: None,
            spread: None,
        };
        let lines = describe_set(&set(vec![tensor("a", true), tensor("b", false)]));
        assert_eq!(lines[1..3], ["  1 of 2 tensors hold: a", "  b float32 [2]"]);
        assert_eq!(lines.len(), 5, "{lines:?}");
        let many = (0..12).map(|number| tensor(&number.to_string(), number > 0)).collect();
        assert!(
            describe_set(&set(many))[1]
                .ends_with("11 of 12 tensors hold: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …")
        );
        let all = describe_set(&set(vec![tensor("a", true), tensor("b", true)]));
        assert_eq!(all.len(), 7, "what holds throughout is shown: {all:?}");
    }
}
