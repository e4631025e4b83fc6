//! Which operators to fix first, so that most models run.
//!
//! Pure: the runner ranks the cases of a run that it keeps, the server those of a run it was sent.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::Outcome;
use crate::evidence::Blocker;

/// What stands in the way of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hindered {
    /// Names it.
    pub model: String,
    /// How much it counts: 1, or how popular it is.
    pub weight: u64,
    /// Operators that must be fixed, all of them, for it to run.
    pub operators: BTreeSet<String>,
}

impl Hindered {
    /// From the evidence of a model that did not run to its end. Nothing where what stands in its
    /// way is not the backend's: a limit of the host that simulates it.
    #[must_use]
    pub fn of(model: String, weight: u64, blockers: &[Blocker]) -> Option<Self> {
        let of_backend = blockers.iter().filter(|blocker| blocker.outcome != Outcome::HostLimit);
        let operators: BTreeSet<_> = of_backend.map(|blocker| blocker.overload.clone()).collect();
        (!operators.is_empty()).then_some(Self { model, weight, operators })
    }
}

/// The next operators to fix, and what that gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// To be fixed together, after those of the steps before.
    pub operators: BTreeSet<String>,
    /// Models that run then, and did not before.
    pub models: Vec<String>,
    /// Their weight.
    pub weight: u64,
    /// Operators fixed up to here.
    pub operators_so_far: usize,
    /// Models that run by then.
    pub models_so_far: usize,
    /// Their weight.
    pub weight_so_far: u64,
}

/// Ranks by greedy cover: each step takes the operators that, per operator still to be fixed, let
/// the most weight run. A model with several operators left counts only once all are fixed.
#[must_use]
pub fn rank(hindered: &[Hindered]) -> Vec<Step> {
    let mut left: BTreeMap<BTreeSet<String>, Vec<&Hindered>> = BTreeMap::new();
    for model in hindered {
        left.entry(model.operators.clone()).or_default().push(model);
    }
    let mut steps: Vec<Step> = Vec::new();
    let (mut operators_so_far, mut models_so_far, mut weight_so_far) = (0, 0, 0);
    while let Some(chosen) = best(&left) {
        let mut models = Vec::new();
        let mut weight = 0;
        let mut rest: BTreeMap<BTreeSet<String>, Vec<&Hindered>> = BTreeMap::new();
        for (needs, hindered) in left {
            let needs: BTreeSet<_> = needs.difference(&chosen).cloned().collect();
            if needs.is_empty() {
                models.extend(hindered.iter().map(|one| one.model.clone()));
                weight += hindered.iter().map(|one| one.weight).sum::<u64>();
            } else {
                rest.entry(needs).or_default().extend(hindered);
            }
        }
        left = rest;
        models.sort_unstable();
        operators_so_far += chosen.len();
        models_so_far += models.len();
        weight_so_far += weight;
        steps.push(Step {
            operators: chosen,
            models,
            weight,
            operators_so_far,
            models_so_far,
            weight_so_far,
        });
    }
    steps
}

/// The set with the most weight unlocked per operator; among equals the smaller one, then by name.
fn best(left: &BTreeMap<BTreeSet<String>, Vec<&Hindered>>) -> Option<BTreeSet<String>> {
    let unlocked = |fixed: &BTreeSet<String>| -> u64 {
        left.iter()
            .filter(|(needs, _)| needs.is_subset(fixed))
            .flat_map(|(_, hindered)| hindered)
            .map(|one| one.weight)
            .sum()
    };
    let mut best: Option<(u64, &BTreeSet<String>)> = None;
    for set in left.keys() {
        let weight = unlocked(set);
        let better = best.is_none_or(|(most, of)| {
            // weight / set.len() against most / of.len(), without rounding.
            let (mine, theirs) = (weight * of.len() as u64, most * set.len() as u64);
            mine > theirs || (mine == theirs && set.len() < of.len())
        });
        if better {
            best = Some((weight, set));
        }
    }
    best.map(|(_, set)| set.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str, weight: u64, operators: &[&str]) -> Hindered {
        let operators = operators.iter().map(|&name| name.to_owned()).collect();
        Hindered { model: name.to_owned(), weight, operators }
    }

    fn told(hindered: &[Hindered]) -> Vec<(Vec<String>, Vec<String>, usize, u64)> {
        let told = |step: Step| {
            let operators = step.operators.into_iter().collect();
            (operators, step.models, step.models_so_far, step.weight_so_far)
        };
        rank(hindered).into_iter().map(told).collect()
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn a_model_runs_only_once_everything_in_its_way_is_fixed() {
        let hindered = [
            model("one", 1, &["a"]),
            model("two", 1, &["a", "b"]),
            model("three", 1, &["b"]),
            model("four", 1, &["b"]),
            model("five", 1, &["c", "d", "e"]),
        ];
        assert_eq!(
            told(&hindered),
            [
                (words(&["b"]), words(&["four", "three"]), 2, 2),
                (words(&["a"]), words(&["one", "two"]), 4, 4),
                (words(&["c", "d", "e"]), words(&["five"]), 5, 5),
            ]
        );
        assert!(rank(&[]).is_empty());
    }

    #[test]
    fn weight_decides_per_operator() {
        let hindered = [
            model("rare", 1, &["a"]),
            model("rare too", 1, &["a"]),
            model("popular", 90, &["b", "c"]),
        ];
        assert_eq!(told(&hindered)[0], (words(&["b", "c"]), words(&["popular"]), 1, 90));
    }

    #[test]
    fn a_limit_of_the_host_is_nothing_to_fix_in_the_backend() {
        let blocker = |overload: &str, outcome| Blocker {
            overload: overload.to_owned(),
            outcome,
            message: String::new(),
        };
        let limit = blocker("aten::cumsum", Outcome::HostLimit);
        assert_eq!(Hindered::of("one".to_owned(), 1, std::slice::from_ref(&limit)), None);
        let both = [limit, blocker("aten::histc", Outcome::Unsupported)];
        let hindered = Hindered::of("one".to_owned(), 1, &both).unwrap();
        assert_eq!(hindered, model("one", 1, &["aten::histc"]));
    }
}
