//! What the gate says.

use protocol::{Verdict, words};
use serde::Serialize;

words! {
    /// May it ship?
    Answer as "answer" {
        /// Every rule holds.
        Open = "open",
        /// A rule is broken.
        Closed = "closed",
        /// No rule is broken, but something that must be known is not.
        Incomplete = "incomplete",
    }
}

impl Answer {
    /// The answer over several: broken outweighs unknown, unknown outweighs holding. Over none it
    /// is unknown.
    #[must_use]
    pub fn over(answers: impl IntoIterator<Item = Self>) -> Self {
        let mut over = None;
        for answer in answers {
            over = Some(match (over, answer) {
                (Some(Self::Closed), _) | (_, Self::Closed) => Self::Closed,
                (Some(Self::Incomplete), _) | (_, Self::Incomplete) => Self::Incomplete,
                (Some(Self::Open) | None, Self::Open) => Self::Open,
            });
        }
        over.unwrap_or(Self::Incomplete)
    }
}

words! {
    /// One condition of a rule.
    CheckName as "check" {
        /// There is a run to judge, and it is sealed.
        Run = "run",
        /// Enough of the plan was judged.
        Completeness = "completeness_min",
        /// The plan is large enough.
        Planned = "planned_min",
        /// Enough passed.
        PassRate = "pass_rate_min",
        /// Not too much fails that had passed.
        NewFail = "new_fail_max",
        /// Not too much is flaky.
        Flaky = "flaky_max",
        /// Not too much taught nothing.
        Infra = "infra_max",
        /// The run is young enough.
        Stale = "stale_hours",
    }
}

words! {
    /// Why a check answers as it does.
    Reason as "reason" {
        /// It holds.
        Holds = "holds",
        /// More than the limit.
        Above = "above",
        /// Less than the limit.
        Below = "below",
        /// There is no run to judge.
        NoData = "no-data",
        /// The run is not sealed.
        Running = "running",
        /// The run is simulated, and the rule does not name its device.
        Simulated = "simulated",
        /// The run is too old.
        Stale = "stale",
        /// The run to compare with is not stored, or not sealed.
        NoBaseline = "no-baseline",
    }
}

/// A case that keeps a check from holding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Blocking {
    /// Full text of the case key.
    pub case: String,
    /// Its verdict today.
    pub verdict: Verdict,
    /// The outcome that stands for its attempts; absent when there is none.
    pub outcome: Option<String>,
    /// First line of what went wrong.
    pub message: String,
    /// Path of its page.
    pub page: String,
}

/// What is said of one check.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct CheckAnswer {
    /// Which.
    pub check: CheckName,
    /// Whether it holds.
    pub answer: Answer,
    /// Why.
    pub reason: Reason,
    /// The same in a sentence with both numbers.
    pub text: String,
    /// The first cases that keep it from holding.
    pub blocking: Vec<Blocking>,
    /// How many there are in all.
    pub blocking_total: u64,
}

/// What is said of one rule.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct RuleAnswer {
    /// Its name.
    pub name: String,
    /// Over its checks.
    pub answer: Answer,
    /// Suite it is about.
    pub suite: protocol::Suite,
    /// Device profile it names, or that was asked for.
    pub device: Option<String>,
    /// Key of the run that was judged.
    pub run: Option<String>,
    /// Path of that run's page.
    pub page: Option<String>,
    /// Whether that run is simulated.
    pub simulated: bool,
    /// Cases per verdict, by today's waivers.
    pub counts: std::collections::BTreeMap<Verdict, u64>,
    /// Every check, in a fixed order.
    pub checks: Vec<CheckAnswer>,
}

/// What is said of a candidate. Holds no time of its own, so that the same facts give the same
/// bytes.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct GateAnswer {
    /// Name of the gate.
    pub gate: String,
    /// For people.
    pub title: String,
    /// A run key, or `latest`.
    pub candidate: String,
    /// Over the rules.
    pub answer: Answer,
    /// SHA-256 of the gate file, in hex.
    pub rules_sha256: String,
    /// Every rule, in the order of the file.
    pub rules: Vec<RuleAnswer>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_outweighs_unknown_outweighs_holding_and_nothing_is_unknown() {
        use Answer::{Closed, Incomplete, Open};
        assert_eq!(Answer::over([]), Incomplete);
        for first in Answer::ALL {
            for second in Answer::ALL {
                let expected = if *first == Closed || *second == Closed {
                    Closed
                } else if *first == Incomplete || *second == Incomplete {
                    Incomplete
                } else {
                    Open
                };
                assert_eq!(Answer::over([*first, *second]), expected);
            }
        }
    }
}
