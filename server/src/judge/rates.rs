//! The pass rate: passed / (planned − skipped − inconclusive).
//!
//! A missing case stays in the denominator, so that dropping the bad ones cannot flatter; what
//! taught nothing about the backend (`infra`, `host-limit`) leaves it, and counts against
//! completeness instead. Nothing over nothing is no rate at all, neither 0 % nor 100 %.

use protocol::Verdict;

use super::completeness::Tally;

/// A figure older than this is no news: it is shown grey, with the word `stale`.
pub const STALE_AFTER_HOURS: i64 = 26;

/// Two whole numbers, so that every shown rate can be retraced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Rate {
    /// Passed.
    pub part: u64,
    /// Out of.
    pub whole: u64,
}

impl Rate {
    /// From 0 to 1; none for 0 of 0.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of cases are far below 2^52")]
    pub fn value(self) -> Option<f64> {
        (self.whole > 0).then(|| self.part as f64 / self.whole as f64)
    }
}

impl std::fmt::Display for Rate {
    /// `97.10 % (638 of 657)`, rounded down so that 100 % means all of them; `none (0 of 0)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.whole == 0 {
            return write!(f, "none (0 of 0)");
        }
        let hundredths = u128::from(self.part) * 10_000 / u128::from(self.whole);
        write!(
            f,
            "{}.{:02} % ({} of {})",
            hundredths / 100,
            hundredths % 100,
            self.part,
            self.whole
        )
    }
}

/// The pass rate.
#[must_use]
pub fn pass_rate(tally: &Tally) -> Rate {
    let out = tally.count(Verdict::Skipped) + tally.count(Verdict::Inconclusive);
    Rate { part: tally.passed(), whole: tally.planned() - out }
}

/// The part of the plan that was judged.
#[must_use]
pub fn completeness(tally: &Tally) -> Rate {
    Rate { part: tally.judged(), whole: tally.planned() }
}

/// The part of the plan of which nothing was learnt although it was attempted.
#[must_use]
pub fn inconclusive(tally: &Tally) -> Rate {
    Rate { part: tally.count(Verdict::Inconclusive), whole: tally.planned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(counts: &[(Verdict, u64)]) -> Tally {
        counts.iter().copied().collect()
    }

    #[test]
    fn missing_stays_in_the_denominator() {
        let rate = pass_rate(&tally(&[(Verdict::Passed, 1), (Verdict::Missing, 9)]));
        assert_eq!(rate, Rate { part: 1, whole: 10 });
    }

    #[test]
    fn what_taught_nothing_leaves_it() {
        let rate = pass_rate(&tally(&[
            (Verdict::Passed, 6),
            (Verdict::Failed, 2),
            (Verdict::Inconclusive, 3),
            (Verdict::Skipped, 4),
        ]));
        assert_eq!(rate, Rate { part: 6, whole: 8 });
    }

    #[test]
    fn each_verdict_counts_where_it_should() {
        for verdict in Verdict::ALL {
            let rate = pass_rate(&tally(&[(*verdict, 1)]));
            let expected = match verdict {
                Verdict::Passed | Verdict::Fixed | Verdict::UnexpectedPass => (1, 1),
                Verdict::Failed
                | Verdict::Regressed
                | Verdict::Flaky
                | Verdict::Waived
                | Verdict::Missing => (0, 1),
                Verdict::Skipped | Verdict::Inconclusive => (0, 0),
            };
            assert_eq!((rate.part, rate.whole), expected, "{verdict}");
        }
    }

    #[test]
    fn nothing_of_nothing_is_no_rate() {
        let rate = pass_rate(&Tally::default());
        assert_eq!(rate.value(), None);
        assert_eq!(rate.to_string(), "none (0 of 0)");
    }

    #[test]
    fn it_is_never_rounded_up_to_all() {
        assert_eq!(Rate { part: 99_999, whole: 100_000 }.to_string(), "99.99 % (99999 of 100000)");
        assert_eq!(Rate { part: 4821, whole: 4917 }.to_string(), "98.04 % (4821 of 4917)");
    }
}
