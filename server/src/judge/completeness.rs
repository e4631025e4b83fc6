//! How much of what was planned has been judged.

use protocol::{Verdict, words};

words! {
    /// How far a run has come.
    RunState as "run state" {
        /// Announced; its manifest has not arrived.
        Created = "created",
        /// Has its manifest, and takes in results.
        Running = "running",
        /// The runner, or silence, has ended it. Late results are still taken in.
        Sealed = "sealed",
    }
}

words! {
    /// What a sealed run is worth.
    Completeness as "completeness" {
        /// Every planned case was judged.
        Complete = "complete",
        /// Some planned cases are missing or inconclusive.
        Incomplete = "incomplete",
        /// A person withdrew the run.
        Void = "void",
    }
}

/// Cases per verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally(std::collections::BTreeMap<Verdict, u64>);

impl Tally {
    /// Adds cases.
    pub fn add(&mut self, verdict: Verdict, cases: u64) {
        *self.0.entry(verdict).or_default() += cases;
    }

    /// Gives one case another verdict.
    pub fn move_case(&mut self, from: Verdict, to: Verdict) {
        if let Some(cases) = self.0.get_mut(&from) {
            *cases = cases.saturating_sub(1);
        }
        self.add(to, 1);
    }

    /// Cases per verdict, without the verdicts that none has.
    #[must_use]
    pub fn counts(&self) -> std::collections::BTreeMap<Verdict, u64> {
        self.0.iter().filter(|(_, cases)| **cases > 0).map(|(v, c)| (*v, *c)).collect()
    }

    /// Cases with that verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> u64 {
        self.0.get(&verdict).copied().unwrap_or(0)
    }

    fn sum(&self, wanted: impl Fn(Verdict) -> bool) -> u64 {
        self.0.iter().filter(|(verdict, _)| wanted(**verdict)).map(|(_, cases)| cases).sum()
    }

    /// Planned cases: every one of them has a verdict from the moment it is planned.
    #[must_use]
    pub fn planned(&self) -> u64 {
        self.sum(|_| true)
    }

    /// Cases of which something was learnt, or that were skipped for a listed reason.
    #[must_use]
    pub fn judged(&self) -> u64 {
        self.sum(Verdict::is_judged)
    }

    /// Cases that passed, whatever was expected of them.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.sum(|verdict| verdict.is_good() || verdict == Verdict::UnexpectedPass)
    }

    /// What a run that is sealed now is worth.
    #[must_use]
    pub fn completeness(&self) -> Completeness {
        if self.planned() > 0 && self.judged() == self.planned() {
            Completeness::Complete
        } else {
            Completeness::Incomplete
        }
    }
}

impl FromIterator<(Verdict, u64)> for Tally {
    fn from_iter<I: IntoIterator<Item = (Verdict, u64)>>(counts: I) -> Self {
        let mut tally = Self::default();
        for (verdict, cases) in counts {
            tally.add(verdict, cases);
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_unjudged_case_makes_it_incomplete() {
        for verdict in Verdict::ALL {
            let tally: Tally = [(Verdict::Passed, 9), (*verdict, 1)].into_iter().collect();
            let complete = tally.completeness() == Completeness::Complete;
            assert_eq!(complete, verdict.is_judged(), "{verdict}");
            assert_eq!(tally.planned(), 10);
        }
    }

    #[test]
    fn nothing_planned_is_not_complete() {
        assert_eq!(Tally::default().completeness(), Completeness::Incomplete);
    }
}
