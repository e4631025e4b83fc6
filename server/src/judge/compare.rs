//! What became of a case between two runs. Nothing is said of what only one of them learnt, so
//! that a run of other cases is never better or worse by its choice.

use protocol::{Verdict, words};

words! {
    /// What became of a case from one run to another.
    Category as "category" {
        /// Passed, and fails now.
        Regressed = "regressed",
        /// Failed, and passes now.
        Fixed = "fixed",
        /// Fails in both, in another way.
        ChangedFailure = "changed failure",
        /// Fails in both, in the same way.
        StillFailing = "still failing",
        /// Passes in both.
        StillPassing = "still passing",
        /// Only the second one planned it.
        New = "new",
        /// Only the first one planned it.
        Gone = "gone",
        /// Only the first one learnt something of it.
        NoLongerLearnt = "no longer learnt",
        /// Only the second one learnt something of it.
        NewlyLearnt = "newly learnt",
        /// Neither learnt anything of it.
        NothingLearnt = "nothing learnt",
    }
}

/// What a verdict says for a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Passed,
    Failed,
    Nothing,
}

const fn said(verdict: Verdict) -> Said {
    match verdict {
        Verdict::Passed | Verdict::Fixed | Verdict::UnexpectedPass => Said::Passed,
        Verdict::Failed | Verdict::Regressed | Verdict::Flaky | Verdict::Waived => Said::Failed,
        Verdict::Skipped | Verdict::Inconclusive | Verdict::Missing => Said::Nothing,
    }
}

/// The category of a case; a side is absent where the run did not plan it. `same` says whether
/// both failed with the same outcome and signature. None where both sides are absent.
#[must_use]
pub const fn categorise(
    before: Option<Verdict>,
    now: Option<Verdict>,
    same: bool,
) -> Option<Category> {
    let (before, now) = match (before, now) {
        (None, None) => return None,
        (None, Some(_)) => return Some(Category::New),
        (Some(_), None) => return Some(Category::Gone),
        (Some(before), Some(now)) => (said(before), said(now)),
    };
    Some(match (before, now) {
        (Said::Passed, Said::Passed) => Category::StillPassing,
        (Said::Passed, Said::Failed) => Category::Regressed,
        (Said::Failed, Said::Passed) => Category::Fixed,
        (Said::Failed, Said::Failed) => {
            if same {
                Category::StillFailing
            } else {
                Category::ChangedFailure
            }
        }
        (Said::Passed | Said::Failed, Said::Nothing) => Category::NoLongerLearnt,
        (Said::Nothing, Said::Passed | Said::Failed) => Category::NewlyLearnt,
        (Said::Nothing, Said::Nothing) => Category::NothingLearnt,
    })
}

/// Verdicts with which a case passed, for counting on the common set.
#[must_use]
pub const fn has_passed(verdict: Verdict) -> bool {
    matches!(said(verdict), Said::Passed)
}

/// Whether something was learnt, for counting on the common set.
#[must_use]
pub const fn is_learnt(verdict: Verdict) -> bool {
    !matches!(said(verdict), Said::Nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_verdicts() {
        for before in Verdict::ALL {
            assert_eq!(categorise(Some(*before), None, false), Some(Category::Gone));
            assert_eq!(categorise(None, Some(*before), false), Some(Category::New));
            for now in Verdict::ALL {
                let category = categorise(Some(*before), Some(*now), true).unwrap();
                let expected = match (said(*before), said(*now)) {
                    (Said::Passed, Said::Failed) => Category::Regressed,
                    (Said::Failed, Said::Passed) => Category::Fixed,
                    (Said::Failed, Said::Failed) => Category::StillFailing,
                    (Said::Passed, Said::Passed) => Category::StillPassing,
                    (Said::Nothing, Said::Nothing) => Category::NothingLearnt,
                    (Said::Nothing, _) => Category::NewlyLearnt,
                    (_, Said::Nothing) => Category::NoLongerLearnt,
                };
                assert_eq!(category, expected, "{before} {now}");
                let other = categorise(Some(*before), Some(*now), false).unwrap();
                assert_eq!(other == category, category != Category::StillFailing);
            }
        }
        assert_eq!(categorise(None, None, false), None);
    }

    #[test]
    fn an_absence_is_no_regression() {
        for now in [Verdict::Missing, Verdict::Inconclusive, Verdict::Skipped] {
            let category = categorise(Some(Verdict::Passed), Some(now), false);
            assert_eq!(category, Some(Category::NoLongerLearnt));
        }
    }
}
