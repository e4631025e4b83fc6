//! From the attempts of one case, its history and its waiver to its verdict.
//!
//! Attempts of one run share version and device, so a difference between them is flakiness; a
//! difference between runs is a regression or a fix, never flakiness.

use std::collections::BTreeMap;

pub use protocol::waiver::Leave;
use protocol::{Outcome, Verdict};

use super::baseline::History;

/// What the attempts of one case in one run amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// No attempt has arrived.
    Nothing,
    /// Not executed, for a reason from the closed list.
    Skipped,
    /// Attempted, and nothing learnt about the backend.
    Inconclusive(Outcome),
    /// Every conclusive attempt passed.
    Passed,
    /// No conclusive attempt passed; the worst outcome.
    Failed(Outcome),
    /// Some passed and some did not; the worst outcome.
    Mixed(Outcome),
}

impl Observed {
    /// The outcome that stands for all attempts: the worst conclusive one.
    #[must_use]
    pub const fn outcome(self) -> Option<Outcome> {
        match self {
            Self::Nothing => None,
            Self::Skipped => Some(Outcome::Skipped),
            Self::Passed => Some(Outcome::Pass),
            Self::Inconclusive(outcome) | Self::Failed(outcome) | Self::Mixed(outcome) => {
                Some(outcome)
            }
        }
    }
}

/// Sums up attempts, in any order.
pub fn observe(outcomes: impl IntoIterator<Item = Outcome>) -> Observed {
    let mut passed = false;
    let mut worst_failure: Option<Outcome> = None;
    let mut inconclusive: Option<Outcome> = None;
    let worse = |current: Option<Outcome>, new: Outcome| match current {
        Some(current) if current.severity() >= new.severity() => Some(current),
        Some(_) | None => Some(new),
    };
    for outcome in outcomes {
        if outcome == Outcome::Pass {
            passed = true;
        } else if outcome.is_conclusive() {
            worst_failure = worse(worst_failure, outcome);
        } else {
            inconclusive = Some(inconclusive.map_or(outcome, |told| told.more_telling(outcome)));
        }
    }
    match (worst_failure, passed, inconclusive) {
        (Some(outcome), true, _) => Observed::Mixed(outcome),
        (Some(outcome), false, _) => Observed::Failed(outcome),
        (None, true, _) => Observed::Passed,
        (None, false, Some(Outcome::Skipped)) => Observed::Skipped,
        (None, false, Some(outcome)) => Observed::Inconclusive(outcome),
        (None, false, None) => Observed::Nothing,
    }
}

/// Sums up what several sources observed of one case, in any order: two shards that both executed
/// it, or a shard that was executed again elsewhere. Attempts of one source that differ are
/// flakiness; sources that differ are not, and the worst of them stands.
pub fn observe_sources<S: Ord>(attempts: impl IntoIterator<Item = (S, Outcome)>) -> Observed {
    let mut by_source: BTreeMap<S, Vec<Outcome>> = BTreeMap::new();
    for (source, outcome) in attempts {
        by_source.entry(source).or_default().push(outcome);
    }
    by_source.into_values().map(observe).fold(Observed::Nothing, worse)
}

/// The one of two observations that stands. A failure outweighs attempts that differ, those a
/// pass, and a pass what taught nothing; of two alike the worse outcome counts.
fn worse(first: Observed, second: Observed) -> Observed {
    use Observed::{Failed, Inconclusive, Mixed, Nothing, Passed, Skipped};
    let of_two = |a: Outcome, b: Outcome| if a.severity() >= b.severity() { a } else { b };
    match (first, second) {
        (Failed(a), Failed(b) | Mixed(b)) | (Mixed(a), Failed(b)) => Failed(of_two(a, b)),
        (Mixed(a), Mixed(b)) => Mixed(of_two(a, b)),
        (Inconclusive(a), Inconclusive(b)) => Inconclusive(a.more_telling(b)),
        (Failed(a), Passed | Skipped | Inconclusive(_) | Nothing)
        | (Passed | Skipped | Inconclusive(_) | Nothing, Failed(a)) => Failed(a),
        (Mixed(a), Passed | Skipped | Inconclusive(_) | Nothing)
        | (Passed | Skipped | Inconclusive(_) | Nothing, Mixed(a)) => Mixed(a),
        (Passed, Passed | Skipped | Inconclusive(_) | Nothing)
        | (Skipped | Inconclusive(_) | Nothing, Passed) => Passed,
        (Inconclusive(a), Skipped | Nothing) | (Skipped | Nothing, Inconclusive(a)) => {
            Inconclusive(a)
        }
        (Skipped, Skipped | Nothing) | (Nothing, Skipped) => Skipped,
        (Nothing, Nothing) => Nothing,
    }
}

/// The verdict.
#[must_use]
pub const fn judge(observed: Observed, history: History, leave: Leave) -> Verdict {
    match (observed, leave) {
        (Observed::Nothing, _) => Verdict::Missing,
        (Observed::Skipped, _) => Verdict::Skipped,
        (Observed::Inconclusive(_), _) => Verdict::Inconclusive,
        (Observed::Passed, Leave::Expected) => Verdict::UnexpectedPass,
        (Observed::Passed, Leave::None | Leave::Forgiven) => {
            if history.was_failing() {
                Verdict::Fixed
            } else {
                Verdict::Passed
            }
        }
        (Observed::Failed(_) | Observed::Mixed(_), Leave::Forgiven | Leave::Expected) => {
            Verdict::Waived
        }
        (Observed::Mixed(_), Leave::None) => Verdict::Flaky,
        (Observed::Failed(_), Leave::None) => {
            if history.has_passed() {
                Verdict::Regressed
            } else {
                Verdict::Failed
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole table, written down once more as data: outcome class × history × leave.
    #[test]
    fn every_cell_of_outcome_history_and_leave() {
        use History::{NeverPassed, New, PassedBefore, Passing};
        use Leave::{Expected, Forgiven, None};
        use Verdict::{Failed, Fixed, Passed, Regressed, UnexpectedPass, Waived};
        let pass = [
            (New, None, Passed),
            (New, Forgiven, Passed),
            (New, Expected, UnexpectedPass),
            (NeverPassed, None, Fixed),
            (NeverPassed, Forgiven, Fixed),
            (NeverPassed, Expected, UnexpectedPass),
            (Passing, None, Passed),
            (Passing, Forgiven, Passed),
            (Passing, Expected, UnexpectedPass),
            (PassedBefore, None, Fixed),
            (PassedBefore, Forgiven, Fixed),
            (PassedBefore, Expected, UnexpectedPass),
        ];
        let bad = [
            (New, None, Failed),
            (New, Forgiven, Waived),
            (New, Expected, Waived),
            (NeverPassed, None, Failed),
            (NeverPassed, Forgiven, Waived),
            (NeverPassed, Expected, Waived),
            (Passing, None, Regressed),
            (Passing, Forgiven, Waived),
            (Passing, Expected, Waived),
            (PassedBefore, None, Regressed),
            (PassedBefore, Forgiven, Waived),
            (PassedBefore, Expected, Waived),
        ];
        assert_eq!(pass.len(), History::ALL.len() * Leave::ALL.len());
        assert_eq!(bad.len(), pass.len());
        for outcome in Outcome::ALL {
            let observed = observe([*outcome]);
            assert_eq!(observed.outcome(), Some(*outcome));
            match outcome {
                Outcome::Pass => {
                    for (history, leave, verdict) in pass {
                        assert_eq!(judge(observed, history, leave), verdict);
                    }
                }
                Outcome::Skipped | Outcome::Infra | Outcome::HostLimit => {
                    let verdict = if *outcome == Outcome::Skipped {
                        Verdict::Skipped
                    } else {
                        Verdict::Inconclusive
                    };
                    for (history, leave, _) in pass {
                        assert_eq!(judge(observed, history, leave), verdict);
                    }
                }
                Outcome::Mismatch
                | Outcome::Error
                | Outcome::Unsupported
                | Outcome::Fallback
                | Outcome::Crash
                | Outcome::Timeout
                | Outcome::Oom => {
                    for (history, leave, verdict) in bad {
                        assert_eq!(judge(observed, history, leave), verdict, "{outcome}");
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_is_missing_whatever_else_is_known() {
        for history in History::ALL {
            for leave in Leave::ALL {
                assert_eq!(judge(observe([]), history, leave), Verdict::Missing);
            }
        }
    }

    #[test]
    fn attempts_that_differ_are_flaky_and_the_worst_one_stands() {
        let observed = observe([Outcome::Pass, Outcome::Error, Outcome::Crash]);
        assert_eq!(observed, Observed::Mixed(Outcome::Crash));
        for history in History::ALL {
            assert_eq!(judge(observed, history, Leave::None), Verdict::Flaky);
        }
    }

    #[test]
    fn a_retry_that_fails_again_is_a_failure_and_not_flaky() {
        // TRIALS S18.
        let observed = observe([Outcome::Mismatch, Outcome::Mismatch]);
        assert_eq!(judge(observed, History::New, Leave::None), Verdict::Failed);
        let observed = observe([Outcome::Timeout, Outcome::Crash]);
        assert_eq!(judge(observed, History::Passing, Leave::None), Verdict::Regressed);
    }

    #[test]
    fn what_taught_nothing_never_outweighs_what_did() {
        for inconclusive in [Outcome::Infra, Outcome::HostLimit, Outcome::Skipped] {
            assert_eq!(observe([inconclusive, Outcome::Pass]), Observed::Passed);
            assert_eq!(
                observe([Outcome::Unsupported, inconclusive]),
                Observed::Failed(Outcome::Unsupported)
            );
        }
        // Lost to the machine, then made again: what was found out then is what is known.
        assert_eq!(observe([Outcome::Infra, Outcome::Skipped]), Observed::Skipped);
        assert_eq!(
            observe([Outcome::Infra, Outcome::HostLimit]),
            Observed::Inconclusive(Outcome::HostLimit)
        );
        assert_eq!(
            observe([Outcome::Skipped, Outcome::HostLimit]),
            Observed::Inconclusive(Outcome::HostLimit)
        );
    }

    #[test]
    fn of_two_sources_the_worst_stands_in_any_order() {
        // TRIALS S17: one case in two shards.
        for first in Outcome::ALL {
            for second in Outcome::ALL {
                let observed = observe_sources([(1, *first), (2, *second)]);
                assert_eq!(observed, observe_sources([(1, *second), (2, *first)]));
                assert!(!matches!(observed, Observed::Mixed(_)), "{first} {second}");
                let conclusive = [first, second].into_iter().filter(|o| o.is_conclusive());
                let worst = conclusive.max_by_key(|o| (**o != Outcome::Pass, o.severity()));
                if let Some(worst) = worst {
                    assert_eq!(observed.outcome(), Some(*worst), "{first} {second}");
                }
                // One source alone is what `observe` says.
                assert_eq!(
                    observe_sources([(7, *first), (7, *second)]),
                    observe([*first, *second])
                );
            }
        }
        let flaky_here = [(1, Outcome::Pass), (1, Outcome::Crash)];
        assert_eq!(
            observe_sources(flaky_here.into_iter().chain([(2, Outcome::Pass)])),
            Observed::Mixed(Outcome::Crash)
        );
        assert_eq!(
            observe_sources(flaky_here.into_iter().chain([(2, Outcome::Mismatch)])),
            Observed::Failed(Outcome::Crash)
        );
    }

    #[test]
    fn the_order_of_attempts_does_not_matter() {
        for first in Outcome::ALL {
            for second in Outcome::ALL {
                for third in Outcome::ALL {
                    let forwards = observe([*first, *second, *third]);
                    let backwards = observe([*third, *second, *first]);
                    assert_eq!(forwards, backwards);
                }
            }
        }
    }
}
