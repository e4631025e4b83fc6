//! The table: every ending, and what it must be called.

use protocol::evidence::{BothRaised, Figures, Graphs, TensorComparison};
use protocol::ingest_api::MAX_MESSAGE_BYTES;
use protocol::worker_link::{SweepObserved, ToCompare};
use protocol::{Number, Tolerance};

use super::*;
use crate::worker::breadcrumb::Crumb;

fn asked(suite: Suite, mode: Mode) -> Asked {
    Asked {
        suite,
        mode,
        device_type: "tpu".to_owned(),
        host_limited: true,
        sweep_sizes: 3,
        graph_budget: 1,
        seed: 7,
    }
}

fn observed() -> Observed {
    Observed {
        fingerprint: None,
        case: "operators/opinfo:add#0/float32.eager.forward".to_owned(),
        failure: None,
        to_compare: vec![],
        both_raised: None,
        device_used: "tpu:0".to_owned(),
        fallback_operators: vec![],
        graphs: None,
        peak_memory_bytes: None,
        stage_seconds: std::collections::BTreeMap::new(),
        sweep: vec![],
        substitutions: vec![],
        notes: vec![],
        repro: String::new(),
        poisoned: false,
        blockers: None,
        first_divergence: None,
        model_figures: None,
    }
}

fn comparison(label: &str, held: bool) -> Comparison {
    let figures = Figures {
        elements: 3,
        mismatched: u64::from(!held),
        max_abs_error: Some(Number(0.0)),
        ..Figures::default()
    };
    Comparison {
        label: label.to_owned(),
        held,
        rule: "close".to_owned(),
        tolerance_id: "t".to_owned(),
        reference: "cpu float64".to_owned(),
        tensors: vec![TensorComparison {
            path: "0".to_owned(),
            held,
            dtype: "float32".to_owned(),
            shape: vec![3],
            tolerance: Tolerance::EXACT,
            figures,
        }],
        findings: if held { vec![] } else { vec!["0: 1 of 3 elements differ".to_owned()] },
        addends: None,
        spread: None,
    }
}

fn to_compare(label: &str) -> ToCompare {
    ToCompare {
        wide: None,
        flushed_dtypes: Vec::new(),
        addends: None,
        spread: None,
        label: label.to_owned(),
        actual: String::new(),
        expected: String::new(),
        rule: "close".to_owned(),
        reference: "cpu float64".to_owned(),
        tolerance_class: "default".to_owned(),
    }
}

fn failure(kind: FailureKind) -> Failure {
    Failure {
        kind,
        stage: Stage::Execute,
        error_class: "RuntimeError".to_owned(),
        message: "first\nsecond".to_owned(),
        operator: Some("aten::add.Tensor".to_owned()),
        traceback: "Traceback".to_owned(),
        skip_reason: None,
    }
}

fn outcome_of(asked: &Asked, ending: &Ending, log: &str) -> (Outcome, Option<Stage>, String) {
    let (judged, _) = judge(asked, ending, log);
    assert_eq!(judged.stage.is_none(), judged.outcome == Outcome::Pass, "{judged:?}");
    (judged.outcome, judged.stage, judged.error_class)
}

fn seen(observed: Observed, comparisons: Vec<Result<Comparison, String>>) -> Ending {
    Ending::Observed { observed: Box::new(observed), comparisons }
}

#[test]
fn what_the_worker_reports_keeps_its_kind_and_first_line() {
    for (kind, outcome) in [
        (FailureKind::Error, Outcome::Error),
        (FailureKind::Unsupported, Outcome::Unsupported),
        (FailureKind::Mismatch, Outcome::Mismatch),
        (FailureKind::Fallback, Outcome::Fallback),
        (FailureKind::Oom, Outcome::Oom),
        (FailureKind::Skipped, Outcome::Skipped),
        (FailureKind::Infra, Outcome::Infra),
        (FailureKind::HostLimit, Outcome::HostLimit),
    ] {
        let ending = seen(Observed { failure: Some(failure(kind)), ..observed() }, vec![]);
        let (judged, evidence) = judge(&asked(Suite::Operators, Mode::Eager), &ending, "");
        assert_eq!(judged.outcome, outcome);
        assert_eq!(judged.message, "first");
        assert_eq!(judged.operator.as_deref(), Some("aten::add.Tensor"));
        assert_eq!(evidence.traceback, "Traceback");
        assert_eq!(evidence.last_operator.unwrap().source, "message");
    }
}

#[test]
fn a_pass_needs_the_right_device_and_something_compared() {
    let eager = asked(Suite::Operators, Mode::Eager);
    let held = || vec![Ok(comparison("", true))];
    let fallback = |class: &str, stage| (Outcome::Fallback, Some(stage), class.to_owned());
    let pass = (Outcome::Pass, None, String::new());

    assert_eq!(outcome_of(&eager, &seen(observed(), held()), ""), pass);
    let cases = [
        (Observed { device_used: "cpu".to_owned(), ..observed() }, "other-device"),
        (Observed { device_used: "tpu:0,cpu".to_owned(), ..observed() }, "other-device"),
        (Observed { device_used: "tpux:0".to_owned(), ..observed() }, "other-device"),
        (Observed { device_used: String::new(), ..observed() }, "device-unknown"),
        (
            Observed { fallback_operators: vec!["aten::sort".to_owned()], ..observed() },
            "fallback-operator",
        ),
    ];
    for (observed, class) in cases {
        let outcome = outcome_of(&eager, &seen(observed, held()), "");
        assert_eq!(outcome, fallback(class, Stage::Execute));
    }
    let mut number = comparison("", true);
    number.tensors[0].shape.clear();
    let of_numbers = Observed { device_used: String::new(), ..observed() };
    assert_eq!(outcome_of(&eager, &seen(of_numbers, vec![Ok(number)]), ""), pass);
    let nothing = (Outcome::Infra, Some(Stage::Compare), "nothing-compared".to_owned());
    assert_eq!(outcome_of(&eager, &seen(observed(), vec![]), ""), nothing);
    let tier2 = asked(Suite::Tier2, Mode::Eager);
    assert_eq!(outcome_of(&tier2, &seen(observed(), vec![]), ""), nothing);
    let tier1 = asked(Suite::Tier1, Mode::Eager);
    assert_eq!(outcome_of(&tier1, &seen(observed(), vec![]), ""), pass);
    let raised = BothRaised { actual: "A".to_owned(), expected: "B".to_owned() };
    let raised = Observed { both_raised: Some(raised), device_used: String::new(), ..observed() };
    assert_eq!(outcome_of(&eager, &seen(raised, vec![]), ""), pass);
}

#[test]
fn a_compiled_case_must_have_been_compiled() {
    let compile = asked(Suite::Tier1, Mode::Compile);
    for (graph_count, eager_calls, outcome, class) in [
        (1, 0, Outcome::Pass, ""),
        (0, 0, Outcome::Fallback, "no-graph"),
        (8, 5, Outcome::Fallback, "fallback-eager"),
    ] {
        let graphs = Some(Graphs { graph_count, eager_calls, ..Graphs::default() });
        let ending = seen(Observed { graphs, ..observed() }, vec![]);
        let (actual, _, actual_class) = outcome_of(&compile, &ending, "");
        assert_eq!((actual, actual_class.as_str()), (outcome, class));
    }
}

#[test]
fn comparisons_that_do_not_hold_say_how() {
    let eager = asked(Suite::Operators, Mode::Eager);
    let class_of = |comparison| outcome_of(&eager, &seen(observed(), vec![comparison]), "");
    let mismatch = |class: &str| (Outcome::Mismatch, Some(Stage::Compare), class.to_owned());
    assert_eq!(class_of(Ok(comparison("", false))), mismatch("values-differ"));
    let mut non_finite = comparison("", false);
    non_finite.tensors[0].figures.nonfinite_mismatched = 1;
    assert_eq!(class_of(Ok(non_finite)), mismatch("non-finite"));
    let mut shape = comparison("", false);
    shape.tensors[0].figures.mismatched = 0;
    assert_eq!(class_of(Ok(shape)), mismatch("structure-differs"));
    let unreadable = class_of(Err("no such file".to_owned()));
    assert_eq!(unreadable, (Outcome::Infra, Some(Stage::Compare), "not-comparable".to_owned()));
    let mut vacuous = comparison("", true);
    vacuous.tensors[0].figures.max_abs_error = None;
    let (_, evidence) = judge(&eager, &seen(observed(), vec![Ok(vacuous)]), "");
    assert!(evidence.notes[0].contains("vacuous"), "{:?}", evidence.notes);
}

#[test]
fn deaths_are_told_apart() {
    let asked = asked(Suite::Operators, Mode::Eager);
    let fatal = "W1130 x\nF1130 06:00:00 scatter.cc:154] Check failed: a == b\nmore";
    let host = "F1130 06:00:00 computation_partitioner.cc:269] Check failed";
    let signal = |signal| Exit { signal: Some(signal), exit_code: None };
    for (exit, memory_killed, log, outcome, class, message) in [
        (signal(6), false, fatal, Outcome::Crash, "SIGABRT", "scatter.cc:154] Check failed"),
        (signal(6), false, host, Outcome::HostLimit, "SIGABRT", "computation_partitioner"),
        (signal(11), false, "", Outcome::Crash, "SIGSEGV", "ended by SIGSEGV"),
        (signal(11), true, "", Outcome::Crash, "SIGSEGV", "ended by SIGSEGV"),
        (signal(9), true, "", Outcome::Oom, "SIGKILL", "lack of host memory"),
        (signal(9), false, "", Outcome::Infra, "SIGKILL", "killed from outside"),
        (
            Exit { exit_code: Some(3), signal: None },
            false,
            "",
            Outcome::Crash,
            "exit-3",
            "exited with code 3",
        ),
        (
            Exit { exit_code: Some(0), signal: None },
            false,
            "",
            Outcome::Crash,
            "exit-0",
            "exited with code 0",
        ),
        (Exit::default(), false, "", Outcome::Infra, "worker-lost", "fork server ended"),
    ] {
        let ending = Ending::Died { stage: Stage::Compile, exit, memory_killed };
        let (judged, evidence) = judge(&asked, &ending, log);
        assert_eq!((judged.outcome, judged.error_class.as_str()), (outcome, class));
        assert_eq!(judged.stage, Some(Stage::Compile));
        assert!(judged.message.contains(message), "{}", judged.message);
        assert!(!judged.message.contains("06:00:00"), "{}", judged.message);
        assert_eq!((evidence.signal, evidence.exit_code), (exit.signal, exit.exit_code));
    }
    let mut on_hardware = asked;
    on_hardware.host_limited = false;
    let died = Ending::Died { stage: Stage::Execute, exit: signal(6), memory_killed: false };
    assert_eq!(outcome_of(&on_hardware, &died, host).0, Outcome::Crash);
}

#[test]
fn timeouts_name_their_budget_and_rubbish_is_not_the_backends_fault() {
    let asked = asked(Suite::Tier1, Mode::Compile);
    let ending = Ending::TimedOut { stage: Stage::Lower, budget: Budget::Compile, limit_secs: 300 };
    let (judged, _) = judge(&asked, &ending, "");
    assert_eq!((judged.outcome, judged.stage), (Outcome::Timeout, Some(Stage::Lower)));
    assert_eq!(judged.error_class, "compile-timeout");
    assert!(judged.message.contains("300 s"), "{}", judged.message);
    let ending = Ending::Garbage { stage: Stage::Build, problem: "x".to_owned() };
    assert_eq!(outcome_of(&asked, &ending, "").0, Outcome::Infra);
}

fn size(label: &str, inside: bool, graph_count: u64, eager_calls: u64) -> SweepObserved {
    SweepObserved {
        label: label.to_owned(),
        sizes: std::collections::BTreeMap::new(),
        inside,
        graph_count,
        eager_calls,
        failure: None,
    }
}

/// Judges a sweep; sizes inside are compared and hold, but for those named in `differing`.
fn sweep(sizes: Vec<SweepObserved>, differing: &[&str]) -> (Judged, Vec<SweepPoint>) {
    sweep_of(sizes, differing, 1)
}

fn sweep_of(
    sizes: Vec<SweepObserved>,
    differing: &[&str],
    graph_budget: u64,
) -> (Judged, Vec<SweepPoint>) {
    let labels: Vec<String> = sizes.iter().filter(|s| s.inside).map(|s| s.label.clone()).collect();
    let comparisons = labels
        .iter()
        .map(|label| Ok(comparison(label, !differing.contains(&label.as_str()))))
        .collect();
    let to_compare = labels.iter().map(|label| to_compare(label)).collect();
    let observed = Observed { sweep: sizes, to_compare, ..observed() };
    let asked = Asked { graph_budget, ..asked(Suite::Dynamism, Mode::Compile) };
    let (judged, evidence) = judge(&asked, &seen(observed, comparisons), "");
    (judged, evidence.sweep)
}

#[test]
fn a_prefill_and_its_steps_may_be_two_graphs_and_no_more() {
    let lengths = |counts: [u64; 3]| {
        let labels = ["S=2", "S=3", "S=4"];
        labels.iter().zip(counts).map(|(label, count)| size(label, true, count, 0)).collect()
    };
    assert_eq!(sweep_of(lengths([1, 2, 2]), &[], 2).0, Judged::pass());
    let judged = sweep_of(lengths([1, 2, 3]), &[], 2).0;
    assert_eq!(judged.error_class, "recompiled-per-size");
    assert!(judged.message.starts_with("S=4: "), "{}", judged.message);
}

#[test]
fn one_graph_must_serve_every_size_inside() {
    let inside = |counts: [u64; 3]| {
        let labels = ["S=16", "S=2", "S=64"];
        labels.iter().zip(counts).map(|(label, count)| size(label, true, count, 0)).collect()
    };
    assert_eq!(sweep(inside([1, 1, 1]), &[]).0, Judged::pass());
    assert_eq!(sweep(inside([1, 2, 3]), &[]).0.error_class, "recompiled-per-size");
    let (judged, points) = sweep(inside([1, 2, 2]), &[]);
    assert_eq!(judged.error_class, "dynamic-not-honoured");
    assert_eq!(judged.outcome, Outcome::Mismatch);
    assert!(judged.message.starts_with("S=2: "), "{}", judged.message);
    assert_eq!(points[0].outcome, Outcome::Pass);
    assert_eq!(sweep(inside([0, 0, 0]), &[]).0.error_class, "no-graph");
    let (judged, points) = sweep(inside([1, 1, 1]), &["S=64"]);
    assert_eq!((judged.outcome, judged.stage), (Outcome::Mismatch, Some(Stage::Compare)));
    assert_eq!(points.iter().filter(|point| point.outcome == Outcome::Pass).count(), 2);
    let eager = vec![size("S=16", true, 1, 0), size("S=2", true, 1, 1), size("S=3", true, 1, 1)];
    assert_eq!(sweep(eager, &[]).0.outcome, Outcome::Fallback);
}

#[test]
fn outside_the_bounds_only_silence_is_wrong() {
    let with = |outside: SweepObserved| {
        sweep(vec![size("S=16", true, 1, 0), size("S=2", true, 1, 0), outside], &[])
    };
    let (judged, points) = with(size("S=65", false, 2, 0));
    assert_eq!(judged, Judged::pass());
    assert_eq!(points[2].boundary.as_deref(), Some("recompiled"));
    let refused =
        SweepObserved { failure: Some(failure(FailureKind::Error)), ..size("S=65", false, 1, 0) };
    let (judged, points) = with(refused);
    assert_eq!(judged, Judged::pass());
    assert_eq!(points[2].boundary.as_deref(), Some("refused"));
    let (judged, points) = with(size("S=65", false, 1, 0));
    assert_eq!(judged.error_class, "bound-not-enforced");
    assert_eq!(points[2].boundary.as_deref(), Some("accepted"));
    let eager = vec![size("S=16", true, 1, 0), size("S=65", false, 1, 1), size("S=1", false, 1, 1)];
    let (judged, points) = sweep(eager, &[]);
    assert_eq!(judged.error_class, "fallback-eager");
    assert!(points[1..].iter().all(|point| point.outcome == Outcome::Fallback), "{points:?}");
    let starved =
        SweepObserved { failure: Some(failure(FailureKind::Oom)), ..size("S=65", false, 1, 0) };
    assert_eq!(with(starved).0.outcome, Outcome::Oom);
}

#[test]
fn a_sweep_that_stopped_early_is_no_pass() {
    let (judged, _) = sweep(vec![size("S=16", true, 1, 0)], &[]);
    assert_eq!((judged.outcome, judged.error_class.as_str()), (Outcome::Infra, "sweep-incomplete"));
}

#[test]
fn a_message_is_one_line_of_at_most_its_limit() {
    assert_eq!(one_line("\n  a\0b\nc"), "a\u{fffd}b");
    let long = "é".repeat(2000);
    assert!(one_line(&long).len() <= MAX_MESSAGE_BYTES);
}

#[test]
fn a_breadcrumb_blames_only_where_the_backend_may_have_done_it() {
    let (outermost, innermost) = ("aten::linear".to_owned(), "aten::mm".to_owned());
    let crumb = Crumb { outermost, innermost, left: false };
    let blamed = [Outcome::Crash, Outcome::Timeout, Outcome::Oom, Outcome::Error];
    for outcome in Outcome::ALL {
        let mut judged = Judged::bad(*outcome, Stage::Execute, "c", "m");
        let mut evidence = Evidence::default();
        apply_crumb(&crumb, &mut judged, &mut evidence);
        let named = evidence.last_operator.is_some_and(|last| last.source == "breadcrumb");
        let wants_blame = blamed.contains(outcome);
        let wants_name = wants_blame || [Outcome::Infra, Outcome::HostLimit].contains(outcome);
        assert_eq!((named, judged.operator.is_some()), (wants_name, wants_blame), "{outcome}");
    }
    let mut judged = Judged::bad(Outcome::Error, Stage::Execute, "c", "m");
    judged.operator = Some("aten::named".to_owned());
    let mut evidence = Evidence::default();
    apply_crumb(&crumb, &mut judged, &mut evidence);
    assert_eq!(judged.operator.as_deref(), Some("aten::named"), "the error knows better");
    let mut judged = Judged::bad(Outcome::Crash, Stage::Execute, "c", "m");
    let mut evidence = Evidence::default();
    apply_crumb(&Crumb { left: true, ..crumb }, &mut judged, &mut evidence);
    assert_eq!(judged.operator, None, "what was left again may be innocent");
    assert_eq!(evidence.last_operator.unwrap().source, "entered-last");
}
