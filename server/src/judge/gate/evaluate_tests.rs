//! Every check, on both sides of its limit, and everything that may be absent.

use super::*;

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

const NOW: &str = "2026-11-30T12:00:00Z";

fn rule(extra: &str) -> GateFile {
    let text = format!(
        "title = \"t\"\n[[rule]]\nname = \"r\"\nsuite = \"tier1\"\ndevice = \"tpu\"\n\
         planned_min = 2\nstale_hours = 26\n{extra}"
    );
    GateFile::parse("g", "g.toml", &text).unwrap()
}

fn candidate() -> Candidate {
    Candidate {
        key: "run-1".to_owned(),
        device_profile: "tpu".to_owned(),
        device_kind: "TPU v6e".to_owned(),
        versions: [("torch".to_owned(), "2.15.0".to_owned())].into(),
        simulated: false,
        state: RunState::Sealed,
        void: false,
        started_at: at("2026-11-30T02:00:00Z"),
    }
}

fn facts(number: usize, verdict: Verdict, outcome: Option<Outcome>) -> CaseFacts {
    CaseFacts {
        case: format!("tier1/timm:m{number}/float32.eager.forward"),
        verdict,
        outcome,
        mixed: verdict == Verdict::Flaky,
        operator: None,
        message: String::new(),
        has_passed: verdict == Verdict::Regressed,
    }
}

fn input(passed: u64, cases: Vec<CaseFacts>) -> RuleInput {
    let mut tally: Tally = [(Verdict::Passed, passed)].into_iter().collect();
    for case in &cases {
        tally.add(case.verdict, 1);
    }
    RuleInput { candidate: Some(candidate()), tally, cases, pinned: Pinned::No }
}

fn ask(gate: &GateFile, input: RuleInput) -> RuleAnswer {
    ask_with(gate, input, &[])
}

fn ask_with(gate: &GateFile, input: RuleInput, waivers: &[Waiver]) -> RuleAnswer {
    let mut answer = evaluate(gate, "run-1", None, &[input], waivers, at(NOW));
    assert_eq!(answer.answer, answer.rules[0].answer);
    answer.rules.remove(0)
}

fn reason(answer: &RuleAnswer, name: CheckName) -> (Answer, Reason) {
    let check = answer.checks.iter().find(|check| check.check == name).unwrap();
    (check.answer, check.reason)
}

#[test]
fn a_full_plan_that_passed_is_open() {
    let answer = ask(
        &rule("pass_rate_min = 1.0\nnew_fail_max = 0\nflaky_max = 0\ninfra_max = 0.0"),
        input(2, vec![]),
    );
    assert_eq!(answer.answer, Answer::Open, "{answer:#?}");
    assert_eq!(answer.checks.len(), CheckName::ALL.len());
}

#[test]
fn an_absence_of_data_is_never_open() {
    let gate = rule("pass_rate_min = 0.0\nnew_fail_max = 9\nflaky_max = 9\ninfra_max = 1.0");
    let absent = |change: &dyn Fn(&mut RuleInput)| {
        let mut changed = input(2, vec![]);
        change(&mut changed);
        let answer = ask(&gate, changed);
        assert_eq!(answer.answer, Answer::Incomplete, "{answer:#?}");
        reason(&answer, CheckName::Run).1
    };
    assert_eq!(absent(&|i| i.candidate = None), Reason::NoData);
    assert_eq!(absent(&|i| i.tally = Tally::default()), Reason::NoData);
    let run = |change: &dyn Fn(&mut Candidate)| absent(&|i| change(i.candidate.as_mut().unwrap()));
    assert_eq!(run(&|r| r.state = RunState::Running), Reason::Running);
    assert_eq!(run(&|r| r.state = RunState::Created), Reason::Running);
    assert_eq!(run(&|r| r.void = true), Reason::NoData);
    assert_eq!(run(&|r| r.device_profile = "cuda".to_owned()), Reason::NoData);
    // The run itself stands, so its age is a check of its own.
    assert_eq!(run(&|r| r.started_at = at("2026-11-22T02:00:00Z")), Reason::Holds);
}

#[test]
fn a_simulated_run_counts_only_where_the_rule_names_its_device() {
    let simulated = |profile: &str| {
        let mut input = input(2, vec![]);
        let run = input.candidate.as_mut().unwrap();
        run.simulated = true;
        run.device_profile = profile.to_owned();
        input
    };
    let mut gate = rule("");
    gate.rules[0].device = None;
    let answer = ask(&gate, simulated("tpu-sim"));
    assert_eq!(reason(&answer, CheckName::Run), (Answer::Incomplete, Reason::Simulated));
    gate.rules[0].device = Some("tpu-sim".to_owned());
    assert_eq!(ask(&gate, simulated("tpu-sim")).answer, Answer::Open);
    assert_eq!(ask(&gate, simulated("faulty")).answer, Answer::Incomplete);
}

#[test]
fn each_verdict_does_to_each_check_what_it_should() {
    let gate = rule("pass_rate_min = 0.95\nnew_fail_max = 0\nflaky_max = 0\ninfra_max = 0.01");
    for verdict in Verdict::ALL {
        let outcome = match verdict {
            Verdict::Missing => None,
            Verdict::Passed | Verdict::Fixed | Verdict::UnexpectedPass => Some(Outcome::Pass),
            Verdict::Skipped => Some(Outcome::Skipped),
            Verdict::Inconclusive => Some(Outcome::Infra),
            Verdict::Failed | Verdict::Regressed | Verdict::Flaky | Verdict::Waived => {
                Some(Outcome::Error)
            }
        };
        let answer = ask(&gate, input(9, vec![facts(1, *verdict, outcome)]));
        let expected = match verdict {
            Verdict::Passed | Verdict::Fixed | Verdict::UnexpectedPass | Verdict::Skipped => {
                Answer::Open
            }
            // `waived` by a waiver that holds no longer is a failure again.
            Verdict::Failed | Verdict::Regressed | Verdict::Flaky | Verdict::Waived => {
                Answer::Closed
            }
            Verdict::Inconclusive => Answer::Incomplete,
            // Missing lowers the pass rate as well as the completeness.
            Verdict::Missing => Answer::Closed,
        };
        assert_eq!(answer.answer, expected, "{verdict}: {answer:#?}");
        let closed = |name, by: &[Verdict]| {
            let (said, _) = reason(&answer, name);
            assert_eq!(said == Answer::Open, !by.contains(verdict), "{verdict} {name}");
        };
        use Verdict::{Failed, Flaky, Inconclusive, Missing, Regressed, Waived};
        closed(CheckName::Completeness, &[Missing, Inconclusive]);
        closed(CheckName::PassRate, &[Missing, Failed, Regressed, Flaky, Waived]);
        closed(CheckName::NewFail, &[Regressed]);
        closed(CheckName::Flaky, &[Flaky]);
        closed(CheckName::Infra, &[Inconclusive]);
    }
}

#[test]
fn limits_hold_at_the_limit() {
    let bad =
        |count| (0..count).map(|n| facts(n, Verdict::Regressed, Some(Outcome::Crash))).collect();
    let gate = rule("new_fail_max = 1");
    assert_eq!(ask(&gate, input(5, bad(1))).answer, Answer::Open);
    assert_eq!(ask(&gate, input(5, bad(2))).answer, Answer::Closed);
    let gate = rule("pass_rate_min = 0.75");
    assert_eq!(ask(&gate, input(3, bad(1))).answer, Answer::Open);
    assert_eq!(ask(&gate, input(5, bad(2))).answer, Answer::Closed);
    let gate = rule("");
    let mut old = input(2, vec![]);
    old.candidate.as_mut().unwrap().started_at = at("2026-11-29T10:00:00Z");
    assert_eq!(ask(&gate, old.clone()).answer, Answer::Open, "26 hours are not more than 26");
    old.candidate.as_mut().unwrap().started_at = at("2026-11-29T09:59:59Z");
    let answer = ask(&gate, old);
    assert_eq!(reason(&answer, CheckName::Stale), (Answer::Incomplete, Reason::Stale));
    assert_eq!(ask(&gate, input(1, vec![])).answer, Answer::Incomplete, "planned_min is 2");
}

#[test]
fn a_waiver_counts_from_the_day_it_is_made_to_the_day_it_ends() {
    let failing = facts(1, Verdict::Regressed, Some(Outcome::Unsupported));
    let terms = protocol::waiver::Terms {
        case_pattern: failing.case.clone(),
        suite: None,
        model: None,
        operator: None,
        outcomes: vec![Outcome::Unsupported],
        conditions: protocol::waiver::Conditions::default(),
        expires_on: "2026-12-01".parse().unwrap(),
    };
    let mut waiver = Waiver { id: 1, terms };
    let gate = rule("new_fail_max = 0");
    let with = |waiver: &Waiver, case: &CaseFacts| {
        ask_with(&gate, input(5, vec![case.clone()]), std::slice::from_ref(waiver))
    };
    let answer = with(&waiver, &failing);
    assert_eq!(answer.answer, Answer::Open, "made after the run was judged");
    assert_eq!(answer.counts.get(&Verdict::Waived), Some(&1));
    let stored_as_waived = CaseFacts { verdict: Verdict::Waived, ..failing };
    assert_eq!(with(&waiver, &stored_as_waived).answer, Answer::Open);
    waiver.terms.expires_on = "2026-11-30".parse().unwrap();
    let answer = with(&waiver, &stored_as_waived);
    assert_eq!(answer.answer, Answer::Closed, "ended today, whatever was stored");
    assert_eq!(answer.counts.get(&Verdict::Waived), None);
}

#[test]
fn a_pinned_baseline_decides_what_is_new() {
    let mut gate = rule("new_fail_max = 0");
    gate.rules[0].baseline = Some("release-1".to_owned());
    let failing = facts(1, Verdict::Failed, Some(Outcome::Error));
    let ask_pinned = |pinned| {
        let mut input = input(5, vec![failing.clone()]);
        input.pinned = pinned;
        let answer = ask(&gate, input);
        reason(&answer, CheckName::NewFail)
    };
    let passed = HashSet::from([failing.case.clone()]);
    assert_eq!(ask_pinned(Pinned::Passed(passed)), (Answer::Closed, Reason::Above));
    assert_eq!(ask_pinned(Pinned::Passed(HashSet::new())), (Answer::Open, Reason::Holds));
    assert_eq!(ask_pinned(Pinned::Absent), (Answer::Incomplete, Reason::NoBaseline));
}

#[test]
fn a_failing_check_hides_no_other() {
    let gate = rule("pass_rate_min = 1.0\nnew_fail_max = 0\nflaky_max = 0\ninfra_max = 0.0");
    let answer = ask(
        &gate,
        input(
            1,
            vec![
                facts(1, Verdict::Regressed, Some(Outcome::Crash)),
                facts(2, Verdict::Flaky, Some(Outcome::Error)),
                facts(3, Verdict::Inconclusive, Some(Outcome::Infra)),
                facts(4, Verdict::Missing, None),
            ],
        ),
    );
    let broken: Vec<CheckName> = answer
        .checks
        .iter()
        .filter(|check| check.answer != Answer::Open)
        .map(|check| check.check)
        .collect();
    use CheckName::{Completeness, Flaky, Infra, NewFail, PassRate};
    assert_eq!(broken, [Completeness, PassRate, NewFail, Flaky, Infra]);
    assert_eq!(answer.checks[1].blocking_total, 2);
}

#[test]
fn the_same_facts_give_the_same_bytes() {
    let gate = rule("pass_rate_min = 1.0");
    let make = || {
        let input = input(1, vec![facts(1, Verdict::Failed, Some(Outcome::Error))]);
        let answer = evaluate(&gate, "run-1", None, &[input], &[], at(NOW));
        serde_json::to_string(&answer).unwrap()
    };
    assert_eq!(make(), make());
}
