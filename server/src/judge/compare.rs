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

    const PASSED: [Verdict; 3] = [Verdict::Passed, Verdict::Fixed, Verdict::UnexpectedPass];
    const FAILED: [Verdict; 4] =
        [Verdict::Failed, Verdict::Regressed, Verdict::Flaky, Verdict::Waived];
    const NOTHING: [Verdict; 3] = [Verdict::Skipped, Verdict::Inconclusive, Verdict::Missing];

    #[test]
    fn every_pair_of_verdicts() {
        use Category as C;
        let rows: [(&[Verdict], [Category; 3]); 3] = [
            (&PASSED, [C::StillPassing, C::Regressed, C::NoLongerLearnt]),
            (&FAILED, [C::Fixed, C::StillFailing, C::NoLongerLearnt]),
            (&NOTHING, [C::NewlyLearnt, C::NewlyLearnt, C::NothingLearnt]),
        ];
        let mut pairs = 0;
        for (befores, categories) in rows {
            let columns: [&[Verdict]; 3] = [&PASSED, &FAILED, &NOTHING];
            for (nows, category) in columns.into_iter().zip(categories) {
                for (before, now) in befores.iter().flat_map(|b| nows.iter().map(move |n| (b, n))) {
                    let alike = categorise(Some(*before), Some(*now), true);
                    assert_eq!(alike, Some(category), "{before} {now}");
                    let fails_in_both = category == C::StillFailing;
                    let other = if fails_in_both { C::ChangedFailure } else { category };
                    let unlike = categorise(Some(*before), Some(*now), false);
                    assert_eq!(unlike, Some(other), "{before} {now}");
                    pairs += 1;
                }
            }
            for verdict in befores {
                assert_eq!(categorise(Some(*verdict), None, false), Some(C::Gone));
                assert_eq!(categorise(None, Some(*verdict), false), Some(C::New));
            }
        }
        assert_eq!(pairs, Verdict::ALL.len() * Verdict::ALL.len(), "a verdict is in no row");
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
