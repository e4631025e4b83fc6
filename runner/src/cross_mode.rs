//! Cases that are right in one mode and wrong in another: what one operator at a time computes, a
//! fused or compiled graph of the same operators does not.

use std::collections::{BTreeMap, HashMap};

use protocol::{CaseKey, Mode, Outcome};

use crate::event::CaseResult;

/// Findings that are told one by one.
const TOLD: usize = 20;

/// One line per case that passes in some modes and fails in others, sorted by case.
#[must_use]
pub fn findings(results: &HashMap<CaseKey, CaseResult>) -> Vec<String> {
    let mut by_case: BTreeMap<String, BTreeMap<Mode, CaseResult>> = BTreeMap::new();
    for (key, result) in results {
        let Some(variant) = key.variant() else { continue };
        let layout = variant.layout.map_or_else(String::new, |layout| format!(".{layout}"));
        let (suite, subject) = (key.suite(), key.subject());
        let case = format!("{suite}/{subject}/{}.*.{}{layout}", variant.dtype, variant.direction);
        by_case.entry(case).or_default().insert(variant.mode, *result);
    }
    let mut found: Vec<String> =
        by_case.iter().filter_map(|(case, modes)| difference(case, modes)).collect();
    let more = found.len().saturating_sub(TOLD);
    found.truncate(TOLD);
    if more > 0 {
        found.push(format!("cross-mode: {more} more cases pass in one mode and fail in another"));
    }
    found
}

fn difference(case: &str, modes: &BTreeMap<Mode, CaseResult>) -> Option<String> {
    let passing: Vec<&str> = modes
        .iter()
        .filter(|(_, result)| result.is_pass())
        .map(|(mode, _)| mode.as_str())
        .collect();
    let failing: Vec<String> = modes
        .iter()
        .filter_map(|(mode, result)| match result {
            CaseResult::Steady(outcome) if is_failure(*outcome) => {
                Some(format!("{outcome} in {mode}"))
            }
            CaseResult::Steady(_) | CaseResult::Flaky(_) => None,
        })
        .collect();
    if passing.is_empty() || failing.is_empty() {
        return None;
    }
    Some(format!("cross-mode: pass in {}, {}: {case}", passing.join(" and "), failing.join(", ")))
}

/// Whether the backend got something wrong. That a mode lacks an operator is no difference in what
/// it computes.
fn is_failure(outcome: Outcome) -> bool {
    outcome.is_conclusive() && !matches!(outcome, Outcome::Pass | Outcome::Unsupported)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(cases: &[(&str, CaseResult)]) -> HashMap<CaseKey, CaseResult> {
        cases.iter().map(|(key, result)| (key.parse().unwrap(), *result)).collect()
    }

    const PASS: CaseResult = CaseResult::Steady(Outcome::Pass);

    #[test]
    fn only_what_passes_in_one_mode_and_is_wrong_in_another_is_told() {
        let found = findings(&results(&[
            ("tier2/timm:a#tiny/float32.eager.forward", CaseResult::Steady(Outcome::Mismatch)),
            ("tier2/timm:a#tiny/float32.strict.forward", PASS),
            ("tier2/timm:a#tiny/float32.compile.forward", CaseResult::Steady(Outcome::Crash)),
            // Another dtype, another direction, another suite: other cases.
            ("tier2/timm:b#tiny/float32.eager.forward", CaseResult::Steady(Outcome::Mismatch)),
            ("tier2/timm:b#tiny/bfloat16.strict.forward", PASS),
            ("tier2/timm:b#tiny/float32.strict.train", PASS),
            ("tier1/timm:b#tiny/float32.strict.forward", PASS),
            // Wrong everywhere, flaky, unsupported, or nothing learnt.
            ("tier2/timm:c#tiny/float32.eager.forward", CaseResult::Steady(Outcome::Error)),
            ("tier2/timm:c#tiny/float32.strict.forward", CaseResult::Steady(Outcome::Error)),
            ("tier2/timm:d#tiny/float32.eager.forward", CaseResult::Flaky(Outcome::Error)),
            ("tier2/timm:d#tiny/float32.strict.forward", PASS),
            ("tier2/timm:d#tiny/float32.compile.forward", CaseResult::Steady(Outcome::HostLimit)),
            ("tier2/timm:e#tiny/float32.compile.forward", CaseResult::Steady(Outcome::Unsupported)),
            ("tier2/timm:e#tiny/float32.eager.forward", PASS),
        ]));
        assert_eq!(
            found,
            ["cross-mode: pass in strict, mismatch in eager, crash in compile: \
              tier2/timm:a#tiny/float32.*.forward"]
        );
    }

    #[test]
    fn many_are_counted() {
        let keys: Vec<String> = (0..25)
            .flat_map(|n| {
                ["eager", "strict"].map(|m| format!("tier1/timm:m{n}#tiny/float32.{m}.forward"))
            })
            .collect();
        let wrong = |key: &str| key.contains("eager");
        let all: Vec<(&str, CaseResult)> = keys
            .iter()
            .map(|key| {
                (key.as_str(), if wrong(key) { CaseResult::Steady(Outcome::Error) } else { PASS })
            })
            .collect();
        let found = findings(&results(&all));
        assert_eq!(found.len(), TOLD + 1);
        assert!(found[TOLD].contains(" 5 more "), "{}", found[TOLD]);
    }
}
