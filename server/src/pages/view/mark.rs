//! Words with a sign: what a verdict, an outcome or an answer looks like.

use protocol::{Outcome, Verdict};

/// A word with a shape and a tone. The word is always there; shape and colour only help the eye.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// What is said.
    pub word: &'static str,
    /// Shape of its sign in `style.css`.
    pub shape: &'static str,
    /// Colour of its sign: `good`, `bad`, `warn`, `note`, `quiet`, `absent`, or `neutral`.
    pub tone: &'static str,
}

impl Mark {
    /// Of a verdict.
    #[must_use]
    pub const fn of_verdict(verdict: Verdict) -> Self {
        let (shape, tone) = match verdict {
            Verdict::Passed => ("tick", "good"),
            Verdict::Fixed => ("up", "good"),
            Verdict::Failed => ("cross", "bad"),
            Verdict::Regressed => ("down", "bad"),
            Verdict::Flaky => ("half", "warn"),
            Verdict::Waived => ("flag", "note"),
            Verdict::UnexpectedPass => ("star", "note"),
            Verdict::Skipped => ("dash", "quiet"),
            Verdict::Inconclusive => ("ring", "quiet"),
            Verdict::Missing => ("gap", "absent"),
        };
        Self { word: verdict.as_str(), shape, tone }
    }

    /// Of an outcome.
    #[must_use]
    pub const fn of_outcome(outcome: Outcome) -> Self {
        let (shape, tone) = match outcome {
            Outcome::Pass => ("tick", "good"),
            Outcome::Mismatch | Outcome::Error => ("cross", "bad"),
            Outcome::Crash | Outcome::Timeout | Outcome::Oom => ("burst", "bad"),
            Outcome::Unsupported => ("square", "warn"),
            Outcome::Fallback => ("diamond", "warn"),
            Outcome::Skipped => ("dash", "quiet"),
            Outcome::Infra | Outcome::HostLimit => ("ring", "quiet"),
        };
        Self { word: outcome.as_str(), shape, tone }
    }

    /// Of a case's outcome, which is `missing` when no attempt has arrived.
    #[must_use]
    pub fn of_case(outcome: Option<Outcome>) -> Self {
        outcome.map_or(Self::of_verdict(Verdict::Missing), Self::of_outcome)
    }

    /// Of a gate's answer or a rule's.
    #[must_use]
    pub fn of_answer(answer: &str) -> Self {
        match answer {
            "open" => Self { word: "open", shape: "tick", tone: "good" },
            "closed" => Self { word: "closed", shape: "cross", tone: "bad" },
            "incomplete" => Self { word: "incomplete", shape: "gap", tone: "absent" },
            _ => Self { word: "unknown", shape: "gap", tone: "absent" },
        }
    }

    /// Of a run's state.
    #[must_use]
    pub fn of_run(state: &str, completeness: Option<&str>) -> Self {
        match (state, completeness) {
            // Being complete is about the evidence, not about what it says.
            ("sealed", Some("complete")) => {
                Self { word: "complete", shape: "tick", tone: "neutral" }
            }
            ("sealed", Some("void")) => Self { word: "void", shape: "dash", tone: "quiet" },
            ("sealed", _) => Self { word: "incomplete", shape: "gap", tone: "absent" },
            ("created", _) => Self { word: "created", shape: "ring", tone: "note" },
            (_, _) => Self { word: "running", shape: "half", tone: "note" },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_good_verdict_is_shown_in_the_good_tone() {
        for verdict in Verdict::ALL {
            assert_eq!(Mark::of_verdict(*verdict).tone == "good", verdict.is_good(), "{verdict}");
        }
        for outcome in Outcome::ALL {
            let good = *outcome == Outcome::Pass;
            assert_eq!(Mark::of_outcome(*outcome).tone == "good", good, "{outcome}");
        }
    }
}
