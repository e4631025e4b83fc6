//! From a rule and the facts of its candidate run to an answer.

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, NaiveDate, Utc};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use protocol::waiver::Subject;
use protocol::{Outcome, Verdict};

use super::answer::{Answer, Blocking, CheckAnswer, CheckName, GateAnswer, Reason, RuleAnswer};
use super::file::{GateFile, Rule};
use crate::judge::baseline::History;
use crate::judge::completeness::{RunState, Tally};
use crate::judge::rates::{self, Rate};
use crate::judge::verdict::{Observed, judge};
use crate::judge::waiver::{Waiver, find_leave};

/// Most blocking cases listed with one check; the total is always given.
const MAX_BLOCKING: usize = 50;

/// The candidate that stands for each suite's newest run.
pub const LATEST: &str = "latest";

/// A run that a rule is asked about.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Its key.
    pub key: String,
    /// Its device profile.
    pub device_profile: String,
    /// Model of its device.
    pub device_kind: String,
    /// Its version tuple.
    pub versions: BTreeMap<String, String>,
    /// Whether its results are simulated.
    pub simulated: bool,
    /// How far it has come.
    pub state: RunState,
    /// Whether it was withdrawn.
    pub void: bool,
    /// When it began.
    pub started_at: DateTime<Utc>,
}

/// A case that is not plainly good, as stored.
#[derive(Debug, Clone)]
pub struct CaseFacts {
    /// Full text of the case key.
    pub case: String,
    /// As judged when its last result arrived.
    pub verdict: Verdict,
    /// The outcome that stands for its attempts.
    pub outcome: Option<Outcome>,
    /// Whether some attempts passed and some did not.
    pub mixed: bool,
    /// Overload to blame.
    pub operator: Option<String>,
    /// First line.
    pub message: String,
    /// Whether it has passed before, on this device profile.
    pub has_passed: bool,
}

/// The run that a rule pins as its baseline.
#[derive(Debug, Clone)]
pub enum Pinned {
    /// The rule pins none.
    No,
    /// It is not stored, not sealed, or withdrawn.
    Absent,
    /// Which of the candidate's cases passed in it.
    Passed(HashSet<String>),
}

/// Everything known about one rule's question.
#[derive(Debug, Clone)]
pub struct RuleInput {
    /// The run; none when there is none.
    pub candidate: Option<Candidate>,
    /// Cases per verdict, of the rule's suite, as stored.
    pub tally: Tally,
    /// Every case that is neither passed nor skipped.
    pub cases: Vec<CaseFacts>,
    /// The pinned baseline.
    pub pinned: Pinned,
}

/// The verdict by the waivers that hold today, which may differ from those of the night the case
/// was executed: a waiver ends on its date, whatever was stored.
#[must_use]
pub fn rejudge(
    facts: &CaseFacts,
    run: &Candidate,
    waivers: &[Waiver],
    today: NaiveDate,
) -> Verdict {
    let observed = match facts.outcome {
        Some(outcome) if outcome.is_conclusive() && outcome != Outcome::Pass => {
            if facts.mixed {
                Observed::Mixed(outcome)
            } else {
                Observed::Failed(outcome)
            }
        }
        Some(_) | None => return facts.verdict,
    };
    let subject = Subject {
        case: &facts.case,
        device_profile: &run.device_profile,
        device_kind: &run.device_kind,
        versions: &run.versions,
        operator: facts.operator.as_deref(),
    };
    let (leave, _) = find_leave(waivers, subject, observed, today);
    let history = if facts.has_passed { History::PassedBefore } else { History::New };
    judge(observed, history, leave)
}

/// The whole answer. `inputs` are in the order of the rules.
#[must_use]
pub fn evaluate(
    gate: &GateFile,
    candidate: &str,
    device: Option<&str>,
    inputs: &[RuleInput],
    waivers: &[Waiver],
    now: DateTime<Utc>,
) -> GateAnswer {
    let rules: Vec<RuleAnswer> = gate
        .rules
        .iter()
        .zip(inputs)
        .map(|(rule, input)| evaluate_rule(rule, candidate, device, input, waivers, now))
        .collect();
    GateAnswer {
        gate: gate.name.clone(),
        title: gate.title.clone(),
        candidate: candidate.to_owned(),
        answer: Answer::over(rules.iter().map(|rule| rule.answer)),
        rules_sha256: hex::encode(gate.sha256),
        rules,
    }
}

fn evaluate_rule(
    rule: &Rule,
    asked_for: &str,
    device: Option<&str>,
    input: &RuleInput,
    waivers: &[Waiver],
    now: DateTime<Utc>,
) -> RuleAnswer {
    let mut tally = input.tally.clone();
    let mut judged: Vec<(&CaseFacts, Verdict)> = Vec::with_capacity(input.cases.len());
    for facts in &input.cases {
        // Without a run there are no cases either.
        let verdict = input
            .candidate
            .as_ref()
            .map_or(facts.verdict, |run| rejudge(facts, run, waivers, now.date_naive()));
        tally.move_case(facts.verdict, verdict);
        judged.push((facts, verdict));
    }
    let facts = Facts { rule, asked_for, input, tally: &tally, judged: &judged, now };
    let mut checks = vec![facts.check_run()];
    // Without a run that counts there is nothing to check, and every figure would mislead.
    if checks[0].answer == Answer::Open {
        checks.push(facts.check_completeness());
        checks.push(facts.check_planned());
        checks.extend(rule.pass_rate_min.map(|limit| facts.check_pass_rate(limit)));
        checks.extend(rule.new_fail_max.map(|limit| facts.check_new_fail(limit)));
        checks.extend(rule.flaky_max.map(|limit| facts.check_flaky(limit)));
        checks.extend(rule.infra_max.map(|limit| facts.check_infra(limit)));
        checks.push(facts.check_stale());
    }
    RuleAnswer {
        name: rule.name.clone(),
        answer: Answer::over(checks.iter().map(|check| check.answer)),
        suite: rule.suite,
        device: rule.device.clone().or_else(|| device.map(str::to_owned)),
        run: input.candidate.as_ref().map(|candidate| candidate.key.clone()),
        page: input.candidate.as_ref().map(|candidate| format!("/runs/{}", candidate.key)),
        simulated: input.candidate.as_ref().is_some_and(|candidate| candidate.simulated),
        counts: tally.counts(),
        checks,
    }
}

/// What the checks of one rule look at.
struct Facts<'a> {
    rule: &'a Rule,
    asked_for: &'a str,
    input: &'a RuleInput,
    tally: &'a Tally,
    judged: &'a [(&'a CaseFacts, Verdict)],
    now: DateTime<Utc>,
}

impl Facts<'_> {
    fn check_run(&self) -> CheckAnswer {
        let suite = self.rule.suite;
        let unknown = |reason, text| answer(CheckName::Run, Answer::Incomplete, reason, text);
        let Some(run) = &self.input.candidate else {
            let device = self.rule.device.as_deref().unwrap_or("a device that is not simulated");
            let text = if self.asked_for == LATEST {
                format!("there is no run of suite `{suite}` on {device}")
            } else {
                format!("run `{}` is not stored", self.asked_for)
            };
            return unknown(Reason::NoData, text);
        };
        let named = self.rule.device.as_deref() == Some(run.device_profile.as_str());
        if self.rule.device.is_some() && !named {
            let text = format!(
                "run `{}` is on `{}`, which the rule is not about",
                run.key, run.device_profile
            );
            return unknown(Reason::NoData, text);
        }
        if run.simulated && !named {
            let text = format!(
                "run `{}` is simulated, and the rule does not name `{}`",
                run.key, run.device_profile
            );
            return unknown(Reason::Simulated, text);
        }
        if run.void {
            return unknown(Reason::NoData, format!("run `{}` was withdrawn", run.key));
        }
        if run.state != RunState::Sealed {
            let text = format!("run `{}` is {}, not sealed", run.key, run.state);
            return unknown(Reason::Running, text);
        }
        if self.tally.planned() == 0 {
            let text = format!("run `{}` planned no case of suite `{suite}`", run.key);
            return unknown(Reason::NoData, text);
        }
        answer(CheckName::Run, Answer::Open, Reason::Holds, format!("run `{}` is sealed", run.key))
    }

    fn check_completeness(&self) -> CheckAnswer {
        let rate = rates::completeness(self.tally);
        let limit = self.rule.completeness_min;
        let holds = at_least(rate, limit);
        let text = format!("judged {rate} of the plan; needed {}", percent(limit));
        let check = if holds {
            answer(CheckName::Completeness, Answer::Open, Reason::Holds, text)
        } else {
            answer(CheckName::Completeness, Answer::Incomplete, Reason::Below, text)
        };
        self.blocked_by(check, |verdict| !verdict.is_judged())
    }

    fn check_planned(&self) -> CheckAnswer {
        let (planned, limit) = (self.tally.planned(), self.rule.planned_min);
        let text = format!("planned {planned} cases; needed {limit}");
        if planned >= limit {
            answer(CheckName::Planned, Answer::Open, Reason::Holds, text)
        } else {
            answer(CheckName::Planned, Answer::Incomplete, Reason::Below, text)
        }
    }

    fn check_pass_rate(&self, limit: f64) -> CheckAnswer {
        let rate = rates::pass_rate(self.tally);
        let text = format!("pass rate {rate}; needed {}", percent(limit));
        let check = if rate.whole == 0 {
            answer(CheckName::PassRate, Answer::Incomplete, Reason::NoData, text)
        } else if at_least(rate, limit) {
            answer(CheckName::PassRate, Answer::Open, Reason::Holds, text)
        } else {
            answer(CheckName::PassRate, Answer::Closed, Reason::Below, text)
        };
        self.blocked_by(check, |verdict| is_bad(verdict) || verdict == Verdict::Missing)
    }

    fn check_new_fail(&self, limit: u64) -> CheckAnswer {
        let failing = |verdict| matches!(verdict, Verdict::Failed | Verdict::Regressed);
        let blocking: Vec<&(&CaseFacts, Verdict)> = match &self.input.pinned {
            Pinned::Absent => {
                let key = self.rule.baseline.as_deref().unwrap_or_default();
                let text = format!("the baseline run `{key}` is not stored and sealed");
                return answer(CheckName::NewFail, Answer::Incomplete, Reason::NoBaseline, text);
            }
            Pinned::No => self.judged.iter().filter(|(_, v)| *v == Verdict::Regressed).collect(),
            Pinned::Passed(cases) => self
                .judged
                .iter()
                .filter(|(facts, verdict)| failing(*verdict) && cases.contains(&facts.case))
                .collect(),
        };
        let count = blocking.len() as u64;
        let against = self
            .rule
            .baseline
            .as_ref()
            .map_or_else(|| "before".to_owned(), |key| format!("in run `{key}`"));
        let text = format!("{count} cases fail that passed {against}; at most {limit}");
        let mut check = limited(CheckName::NewFail, count > limit, Answer::Closed, text);
        if count > limit {
            check.blocking = blocking.iter().take(MAX_BLOCKING).map(|b| self.show(b)).collect();
            check.blocking_total = count;
        }
        check
    }

    fn check_flaky(&self, limit: u64) -> CheckAnswer {
        let count = self.tally.count(Verdict::Flaky);
        let text = format!("{count} cases are flaky; at most {limit}");
        let check = limited(CheckName::Flaky, count > limit, Answer::Closed, text);
        self.blocked_by(check, |verdict| verdict == Verdict::Flaky)
    }

    fn check_infra(&self, limit: f64) -> CheckAnswer {
        let rate = rates::inconclusive(self.tally);
        let above = rate.value().is_none_or(|value| value > limit);
        let text = format!("nothing was learnt of {rate}; at most {}", percent(limit));
        let check = limited(CheckName::Infra, above, Answer::Incomplete, text);
        self.blocked_by(check, |verdict| verdict == Verdict::Inconclusive)
    }

    fn check_stale(&self) -> CheckAnswer {
        let limit = self.rule.stale_hours;
        let age = self.input.candidate.as_ref().map(|run| self.now - run.started_at);
        let hours = age.map_or(0, |age| age.num_hours());
        let text = format!("the run began {hours} hours ago; at most {limit}");
        let limit = chrono::Duration::hours(i64::try_from(limit).unwrap_or(i64::MAX / 3_600_000));
        if age.is_some_and(|age| age <= limit) {
            answer(CheckName::Stale, Answer::Open, Reason::Holds, text)
        } else {
            answer(CheckName::Stale, Answer::Incomplete, Reason::Stale, text)
        }
    }

    /// Lists the cases that keep a check from holding, when it does not hold.
    fn blocked_by(&self, mut check: CheckAnswer, wanted: impl Fn(Verdict) -> bool) -> CheckAnswer {
        if check.answer != Answer::Open {
            let blocking = || self.judged.iter().filter(|(_, verdict)| wanted(*verdict));
            check.blocking = blocking().take(MAX_BLOCKING).map(|b| self.show(b)).collect();
            check.blocking_total = blocking().count() as u64;
        }
        check
    }

    fn show(&self, (facts, verdict): &(&CaseFacts, Verdict)) -> Blocking {
        let run = self.input.candidate.as_ref().map_or("", |run| run.key.as_str());
        let case = utf8_percent_encode(&facts.case, NON_ALPHANUMERIC);
        Blocking {
            case: facts.case.clone(),
            verdict: *verdict,
            outcome: facts.outcome.map(|outcome| outcome.as_str().to_owned()),
            message: facts.message.clone(),
            page: format!("/runs/{run}/cases/{case}"),
        }
    }
}

/// Did not pass, waived or not: a waiver lets a failure through `new_fail_max`, and does not make
/// it a pass.
const fn is_bad(verdict: Verdict) -> bool {
    match verdict {
        Verdict::Failed | Verdict::Regressed | Verdict::Flaky | Verdict::Waived => true,
        Verdict::Passed
        | Verdict::Fixed
        | Verdict::UnexpectedPass
        | Verdict::Skipped
        | Verdict::Inconclusive
        | Verdict::Missing => false,
    }
}

fn answer(check: CheckName, answer: Answer, reason: Reason, text: String) -> CheckAnswer {
    CheckAnswer { check, answer, reason, text, blocking: Vec::new(), blocking_total: 0 }
}

fn limited(check: CheckName, above: bool, broken: Answer, text: String) -> CheckAnswer {
    if above {
        answer(check, broken, Reason::Above, text)
    } else {
        answer(check, Answer::Open, Reason::Holds, text)
    }
}

/// Without dividing, so that a limit written as the quotient of two counts is met by them.
#[expect(clippy::cast_precision_loss, reason = "counts of cases are far below 2^52")]
fn at_least(rate: Rate, limit: f64) -> bool {
    rate.whole > 0 && rate.part as f64 >= limit * rate.whole as f64 - 1e-9
}

fn percent(part: f64) -> String {
    format!("{:.2} %", part * 100.0)
}

#[cfg(test)]
#[path = "evaluate_tests.rs"]
mod tests;
