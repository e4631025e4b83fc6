//! Counting cases for pages. A sum of counts is the count of the sum, so that every roll-up equals
//! its children by construction.

use std::ops::AddAssign;

use protocol::{Outcome, Verdict};

use super::view::Mark;
use crate::charts::{Bar, Segment};
use crate::judge::completeness::{Completeness, Tally};
use crate::judge::rates;

/// Cases by verdict, and the worst outcome among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Count {
    tally: Tally,
    worst: Option<Outcome>,
}

impl Count {
    /// Adds cases of one verdict and outcome. A negative number is no number of cases.
    pub fn add(&mut self, verdict: Verdict, outcome: Option<Outcome>, cases: i64) {
        self.tally.add(verdict, u64::try_from(cases).unwrap_or(0));
        self.note(outcome);
    }

    fn note(&mut self, outcome: Option<Outcome>) {
        let severity = |o: Option<Outcome>| o.map(Outcome::severity);
        if severity(outcome) > severity(self.worst) {
            self.worst = outcome;
        }
    }

    /// Cases of one verdict.
    #[must_use]
    pub fn of(&self, verdict: Verdict) -> u64 {
        self.tally.count(verdict)
    }

    /// Cases of every verdict.
    #[must_use]
    pub fn planned(&self) -> u64 {
        self.tally.planned()
    }

    /// Cases that passed, whatever was expected of them.
    #[must_use]
    pub fn passed(&self) -> u64 {
        rates::pass_rate(&self.tally).part
    }

    /// What the pass rate is out of.
    #[must_use]
    pub fn rated(&self) -> u64 {
        rates::pass_rate(&self.tally).whole
    }

    /// Cases of which something was learnt.
    #[must_use]
    pub fn judged(&self) -> u64 {
        self.tally.judged()
    }

    /// Cases that did not pass, among those the pass rate is out of.
    #[must_use]
    pub fn not_passed(&self) -> u64 {
        self.rated() - self.passed()
    }

    /// Cases planned without any attempt.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.of(Verdict::Missing)
    }

    /// `96.1 %`, or `none` of nothing.
    #[must_use]
    pub fn rate(&self) -> String {
        percent(self.passed(), self.rated())
    }

    /// What to sort by for the lowest rate first; what has none comes last.
    #[must_use]
    pub fn rate_order(&self) -> u128 {
        (u128::from(self.passed()) * 1_000_000)
            .checked_div(u128::from(self.rated()))
            .unwrap_or(u128::MAX)
    }

    /// `100 %`, or `none` of nothing.
    #[must_use]
    pub fn completeness(&self) -> String {
        percent(self.judged(), self.planned())
    }

    /// Whether everything planned was judged. Nothing is not complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.tally.completeness() == Completeness::Complete
    }

    /// `not judged` cases in words, for beside a number; empty when there are none.
    #[must_use]
    pub fn set_aside(&self) -> String {
        [Verdict::Missing, Verdict::Inconclusive, Verdict::Skipped]
            .iter()
            .filter(|verdict| self.of(**verdict) > 0)
            .map(|verdict| format!("{} {verdict}", self.of(*verdict)))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The one mark that stands for all of them: the worst outcome where something did not pass,
    /// and never a tick where something planned was not judged.
    #[must_use]
    pub fn mark(&self) -> Mark {
        if self.not_passed() > self.missing() {
            let failure = self.worst.filter(|o| o.is_conclusive() && *o != Outcome::Pass);
            return failure.map_or(Mark::of_verdict(Verdict::Failed), Mark::of_outcome);
        }
        for verdict in [Verdict::Missing, Verdict::Inconclusive, Verdict::UnexpectedPass] {
            if self.of(verdict) > 0 {
                return Mark::of_verdict(verdict);
            }
        }
        if self.passed() > 0 {
            return Mark::of_outcome(Outcome::Pass);
        }
        if self.of(Verdict::Skipped) > 0 {
            return Mark::of_verdict(Verdict::Skipped);
        }
        Mark { word: "none", shape: "gap", tone: "absent" }
    }

    /// Verdicts that occur, with their numbers, the good ones first.
    #[must_use]
    pub fn verdicts(&self) -> Vec<(Mark, u64)> {
        Verdict::ALL
            .iter()
            .filter(|verdict| self.of(**verdict) > 0)
            .map(|verdict| (Mark::of_verdict(*verdict), self.of(*verdict)))
            .collect()
    }

    /// The same as a bar.
    #[must_use]
    pub fn bar(&self) -> Bar {
        Bar::new(self.verdicts().into_iter().map(|(mark, cases)| Segment::new(mark, cases)))
    }
}

impl AddAssign<&Self> for Count {
    fn add_assign(&mut self, other: &Self) {
        for verdict in Verdict::ALL {
            self.tally.add(*verdict, other.of(*verdict));
        }
        self.note(other.worst);
    }
}

/// Per cent with one decimal, cut and never rounded up, so that only everything is `100 %`.
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "none".to_owned();
    }
    let tenths = u128::from(part) * 1000 / u128::from(whole);
    match (tenths / 10, tenths % 10) {
        (full, 0) if part == whole || part == 0 => format!("{full} %"),
        (full, tenth) => format!("{full}.{tenth} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_everything_is_a_hundred_per_cent_and_nothing_is_none() {
        for (part, whole, text) in [
            (0, 0, "none"),
            (0, 7, "0 %"),
            (7, 7, "100 %"),
            (9_999, 10_000, "99.9 %"),
            (1, 3, "33.3 %"),
            (1, 2, "50.0 %"),
            (1, 100_000, "0.0 %"),
        ] {
            assert_eq!(percent(part, whole), text, "{part} of {whole}");
        }
    }

    #[test]
    fn missing_stays_in_the_denominator_and_skipped_and_inconclusive_do_not() {
        let mut count = Count::default();
        count.add(Verdict::Passed, Some(Outcome::Pass), 6);
        count.add(Verdict::Fixed, Some(Outcome::Pass), 1);
        count.add(Verdict::Failed, Some(Outcome::Mismatch), 1);
        count.add(Verdict::Missing, None, 2);
        count.add(Verdict::Skipped, Some(Outcome::Skipped), 3);
        count.add(Verdict::Inconclusive, Some(Outcome::Infra), 4);
        assert_eq!((count.planned(), count.passed(), count.rated()), (17, 7, 10));
        assert_eq!(count.judged(), 11);
        assert_eq!(count.rate(), "70.0 %");
        assert_eq!(count.set_aside(), "2 missing, 4 inconclusive, 3 skipped");
        assert!(!count.is_complete());
    }

    #[test]
    fn a_sum_is_the_sum_of_its_children_and_as_bad_as_the_worst() {
        let mut sum = Count::default();
        let mut planned = 0;
        for (verdict, outcome) in [
            (Verdict::Passed, Some(Outcome::Pass)),
            (Verdict::Failed, Some(Outcome::Crash)),
            (Verdict::Failed, Some(Outcome::Unsupported)),
            (Verdict::Missing, None),
        ] {
            let mut child = Count::default();
            child.add(verdict, outcome, 3);
            planned += child.planned();
            sum += &child;
        }
        assert_eq!(sum.planned(), planned);
        assert_eq!(sum.mark().word, "crash");
    }

    #[test]
    fn what_was_not_judged_is_never_marked_good() {
        for verdict in Verdict::ALL.iter().filter(|verdict| !verdict.is_good()) {
            let mut count = Count::default();
            let outcome = (*verdict != Verdict::Missing).then_some(Outcome::Skipped);
            count.add(*verdict, outcome, 1);
            assert_ne!(count.mark().tone, "good", "{verdict}");
        }
        assert_ne!(Count::default().mark().tone, "good");
    }

    #[test]
    fn a_cell_with_a_missing_case_is_not_a_tick() {
        let mut count = Count::default();
        count.add(Verdict::Passed, Some(Outcome::Pass), 5);
        count.add(Verdict::Missing, None, 1);
        assert_eq!(count.mark().word, "missing");
    }
}
