//! What earlier runs on the same device profile say of a case.
//!
//! The baseline is the *last known pass*, never just the run before: a night without the case, or
//! a second failing night, must not hide that it once passed.

use protocol::Outcome;

/// Earlier runs of one case, oldest forgotten details left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History {
    /// Never executed conclusively before.
    New,
    /// Executed, and never passed.
    NeverPassed,
    /// Passed the last time something was learnt.
    Passing,
    /// Passed once, but not the last time.
    PassedBefore,
}

impl History {
    /// From the last known pass and the last conclusive outcome, both on this device profile and
    /// before the run that is judged.
    #[must_use]
    pub const fn new(ever_passed: bool, previous: Option<Outcome>) -> Self {
        match (previous, ever_passed) {
            (None, _) => Self::New,
            (Some(Outcome::Pass), _) => Self::Passing,
            (Some(_), true) => Self::PassedBefore,
            (Some(_), false) => Self::NeverPassed,
        }
    }

    /// Whether there is a pass to fall behind.
    #[must_use]
    pub const fn has_passed(self) -> bool {
        match self {
            Self::Passing | Self::PassedBefore => true,
            Self::New | Self::NeverPassed => false,
        }
    }

    /// Whether the last thing learnt was bad.
    #[must_use]
    pub const fn was_failing(self) -> bool {
        match self {
            Self::NeverPassed | Self::PassedBefore => true,
            Self::New | Self::Passing => false,
        }
    }

    /// All of them, for tables.
    pub const ALL: [Self; 4] = [Self::New, Self::NeverPassed, Self::Passing, Self::PassedBefore];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_failing_night_still_remembers_the_pass() {
        // TRIALS S12: pass, fail, fail.
        assert_eq!(History::new(true, Some(Outcome::Crash)), History::PassedBefore);
        assert!(History::PassedBefore.has_passed());
        assert!(History::PassedBefore.was_failing());
    }

    #[test]
    fn every_cell() {
        for outcome in Outcome::ALL.iter().filter(|outcome| outcome.is_conclusive()) {
            let passing = *outcome == Outcome::Pass;
            let after_a_pass = History::new(true, Some(*outcome));
            assert_eq!(after_a_pass == History::Passing, passing);
            assert!(after_a_pass.has_passed());
            if !passing {
                assert_eq!(History::new(false, Some(*outcome)), History::NeverPassed);
            }
        }
        assert_eq!(History::new(false, None), History::New);
    }
}
