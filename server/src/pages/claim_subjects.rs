//! What is counted of a published claim, and the names that are not in its numerator.

use std::collections::BTreeMap;

use protocol::coverage::{Coverage, Definition};

use super::count::Count;
use crate::db::read_operators::OverloadCount;

/// What is counted of a claim.
pub(super) struct Subjects {
    pub(super) whole: u64,
    pub(super) definition: Option<Definition>,
    /// Names that are not in the numerator.
    pub(super) failing: Vec<String>,
    pub(super) failing_weight: u64,
}

impl Subjects {
    /// Models of which something planned did not pass.
    pub(super) fn of_models(subjects: &BTreeMap<&str, Count>) -> Self {
        let all_passed = |count: &Count| count.passed() == count.planned();
        let failing = subjects.iter().filter(|(_, count)| !all_passed(count));
        Self::new(subjects.len(), failing.map(|(name, _)| (*name).to_owned()).collect())
    }

    /// Operators that no passing case dispatched.
    pub(super) fn of_operators(overloads: &[OverloadCount]) -> Self {
        let mut operators: BTreeMap<&str, bool> = BTreeMap::new();
        for row in overloads {
            // `aten::add.Tensor` is an overload of `aten::add`.
            let name = row.overload.split('.').next().unwrap_or_default();
            if name.starts_with("aten::") {
                *operators.entry(name).or_default() |= row.passed > 0;
            }
        }
        let failing = operators.iter().filter(|(_, passed)| !**passed);
        Self::new(operators.len(), failing.map(|(name, _)| (*name).to_owned()).collect())
    }

    /// What a definition counts and the build does not cover.
    pub(super) fn of_coverage(coverage: &Coverage) -> Self {
        let failing = coverage.items.iter().filter(|item| !item.covered);
        Self {
            whole: coverage.denominator,
            definition: Some(coverage.definition),
            failing: failing.map(|item| item.name.clone()).collect(),
            failing_weight: coverage.denominator - coverage.numerator,
        }
    }

    fn new(whole: usize, failing: Vec<String>) -> Self {
        Self {
            whole: whole as u64,
            definition: None,
            failing_weight: failing.len() as u64,
            failing,
        }
    }
}
