//! What is said about the values of one tensor: what is wrong with them, and what is worth knowing.

use protocol::{Number, Tolerance};

use super::elements::Element;
use super::rules::Rule;
use super::statistical;
use super::tensors::{Compared, Pair};

/// What is wrong with the values under the rule of closeness, non-finite ones first.
pub(super) fn value_problems(compared: &Compared, tolerance: Tolerance) -> Vec<String> {
    let figures = &compared.figures;
    let mut problems = Vec::new();
    if figures.mismatched == 0 {
        return problems;
    }
    let number = |value: &Option<Number>| value.map_or(String::new(), |number| number.to_string());
    let place = format!(
        "worst at {:?}: {} where {} was expected",
        figures.worst_index.as_deref().unwrap_or_default(),
        number(&figures.worst_actual),
        number(&figures.worst_expected)
    );
    if compared.reference_undefined > 0 {
        problems.push(format!(
            "reference-undefined: expected is NaN and actual is not at {} of {} elements",
            compared.reference_undefined, figures.elements
        ));
    }
    if figures.nonfinite_mismatched > 0 {
        problems.push(format!(
            "{} of {} elements are NaN or infinite on one side only, or of the other sign",
            figures.nonfinite_mismatched, figures.elements
        ));
    }
    problems.push(format!(
        "{} of {} elements differ (rtol {:e}, atol {:e}), {place}",
        figures.mismatched, figures.elements, tolerance.rtol, tolerance.atol
    ));
    problems
}

/// What is wrong with zeros in place of subnormal numbers, where the device does not declare them.
///
/// Their error is far below any `atol`, which must not hide that a device loses them. In float16 and
/// float8 the subnormal range is that of ordinary rounding: a cancelled sum comes out as zero on a
/// device that flushes nothing, so there the tolerance decides.
pub(super) fn flushed_problem(compared: &Compared, pair: &Pair<'_>, rule: Rule) -> Option<String> {
    let judges = matches!(rule, Rule::Close | Rule::Exact);
    let is_wide =
        matches!(pair.actual.element, Element::Float64 | Element::Float32 | Element::Bfloat16);
    (judges && is_wide && !pair.flushes && compared.flushed > 0).then(|| {
        format!(
            "{} subnormal numbers came out as zero, and the device does not declare that it \
             flushes `{}`",
            compared.flushed,
            pair.actual.element.name()
        )
    })
}

/// What is worth knowing and not wrong.
pub(super) fn value_notes(
    compared: &Compared,
    held: bool,
    rule: Rule,
    flushes: bool,
) -> Vec<String> {
    let figures = &compared.figures;
    let mut notes = Vec::new();
    if figures.elements == 0 {
        notes.push("no elements".to_owned());
    } else if held && figures.max_abs_error.is_none() {
        notes.push("vacuous: nothing finite was compared".to_owned());
    }
    if figures.sign_of_zero > 0 && rule != Rule::Statistical {
        notes.push(format!("note: {} zeros of the other sign", figures.sign_of_zero));
    }
    if compared.flushed > 0 {
        let declared = if flushes { ", as the device declares" } else { "" };
        let flushed = compared.flushed;
        notes.push(format!("note: {flushed} subnormal numbers came out as zero{declared}"));
    }
    let few = statistical::FEW as u64;
    if rule == Rule::Statistical && (1..few).contains(&figures.elements) {
        notes.push(format!("note: {} elements tell little of a distribution", figures.elements));
    }
    notes
}
