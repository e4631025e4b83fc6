//! JUnit XML, for engines that show test results: one test suite per suite, one test case per case.
//!
//! What did not pass is a `failure` when the backend answered wrongly or not at all, and an `error`
//! when the process ended or nothing was learnt. A case whose attempts differ is a failure of type
//! `flaky`, with its attempts as `flakyFailure` and `flakyError`; further attempts of a steady case
//! are `rerunFailure` and `rerunError`. A planned case without an attempt is an error of type
//! `missing`, so that a run that stopped cannot look green. A case that a waiver forgives is a
//! `skipped` of type `waived`, with its true outcome and the waiver in the message: neither a pass nor
//! a reason to stop. One that passes although a waiver expects otherwise has a property that says so.

use std::time::Duration;

use protocol::ingest_api::Attempt;
use protocol::{Outcome, Suite};
use quick_junit::{
    FlakyOrRerun, NonSuccessKind, Report, TestCase, TestCaseStatus, TestRerun, TestSuite,
};

use super::collected::{AttemptRecord, CaseRecord, Collected, Settled};
use super::file::{ReportFile, Reports};
use super::text::{excerpt, last_operator_text, log_text, plain};

/// `junit.xml` in the directory of the run.
pub(super) const FILE: ReportFile = ReportFile { name: "junit.xml", render };

/// Writes `junit.xml`.
#[must_use]
pub fn report() -> Reports {
    Reports::of(&[FILE])
}

fn render(collected: &Collected) -> Result<Vec<u8>, std::io::Error> {
    suites(collected).to_string().map(String::into_bytes).map_err(std::io::Error::other)
}

fn suites(collected: &Collected) -> Report {
    let started = collected.started.as_ref().expect("checked by the caller");
    let mut report = Report::new(format!("torchtpu-conformance {}", started.run.run_key));
    report.set_timestamp(started.run.started_at);
    for suite in Suite::ALL {
        let cases: Vec<_> = collected.cases().filter(|case| case.key.suite() == *suite).collect();
        if cases.is_empty() {
            continue;
        }
        let mut junit = TestSuite::new(suite.as_str());
        junit.set_timestamp(started.run.started_at);
        for (name, value) in properties(collected) {
            junit.add_property((name, value));
        }
        junit.set_time(cases.iter().map(|case| seconds(case.seconds())).sum());
        junit.add_test_cases(cases.iter().map(|case| test_case(collected, case)));
        report.add_test_suite(junit);
    }
    report
}

fn properties(collected: &Collected) -> Vec<(String, String)> {
    let started = collected.started.as_ref().expect("checked by the caller");
    let run = &started.run;
    let mut properties = vec![
        ("run".to_owned(), run.run_key.to_string()),
        ("device.profile".to_owned(), run.device_profile.clone()),
        ("device.kind".to_owned(), run.device_kind.clone()),
        ("device.simulated".to_owned(), run.simulated.to_string()),
        ("manifest".to_owned(), started.manifest.hash.clone()),
    ];
    let versions = run.versions.iter();
    properties.extend(versions.map(|(name, version)| (format!("version.{name}"), version.clone())));
    properties
}

fn test_case(collected: &Collected, case: &CaseRecord<'_>) -> TestCase {
    let leave = collected.leave_text(case);
    let status = match &leave {
        Some(leave) if case.is_waived() => waived(case, leave),
        Some(_) | None => status(case),
    };
    let mut junit =
        TestCase::new(format!("{}/{}", case.key.subject(), case.key.planned_variant()), status);
    if let Some(leave) = leave {
        junit.add_property(("waiver", plain(&leave).as_str()));
    }
    junit.set_classname(case.key.suite().as_str());
    junit.set_time(seconds(case.seconds()));
    if case.is_vacuous() {
        junit.add_property(("vacuous", "nothing finite was compared"));
    }
    if let Some(attempt) = case.telling() {
        let evidence = &attempt.evidence;
        if !evidence.repro.is_empty() {
            junit.set_system_out(evidence.repro.as_str());
        }
        let log = excerpt(&log_text(&evidence.log));
        if !log.is_empty() {
            junit.set_system_err(log);
        }
    }
    junit
}

/// Neither green nor red.
fn waived(case: &CaseRecord<'_>, leave: &str) -> TestCaseStatus {
    let message = case.telling().map_or("", |attempt| attempt.message.as_str());
    let mut status = TestCaseStatus::skipped();
    status.set_type("waived").set_message(format!("{}: {message} ({leave})", case.settled.word()));
    status
}

fn status(case: &CaseRecord<'_>) -> TestCaseStatus {
    let outcome = match case.settled {
        Settled::Missing => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
            status.set_type("missing").set_message("planned and not run");
            return status;
        }
        Settled::Steady(Outcome::Pass) => return TestCaseStatus::success(),
        Settled::Steady(Outcome::Skipped) => {
            let mut status = TestCaseStatus::skipped();
            if let Some(attempt) = case.telling() {
                let reason = attempt.evidence.skip_reason.map_or("skipped", |r| r.as_str());
                status.set_type(reason).set_message(attempt.message.as_str());
            }
            return status;
        }
        Settled::Steady(outcome) | Settled::Flaky(outcome) => outcome,
    };
    let flaky = matches!(case.settled, Settled::Flaky(_));
    let mut status = TestCaseStatus::non_success(kind(outcome));
    status.set_type(if flaky { "flaky" } else { outcome.as_str() });
    if let Some(attempt) = case.telling() {
        status.set_message(attempt.message.as_str());
        status.set_description(description(attempt));
    }
    if flaky {
        status.set_rerun_kind(FlakyOrRerun::Flaky);
        status.add_reruns(case.attempts.iter().filter_map(rerun));
    } else {
        status.add_reruns(case.attempts.iter().skip(1).filter_map(rerun));
    }
    status
}

fn kind(outcome: Outcome) -> NonSuccessKind {
    match outcome {
        Outcome::Mismatch | Outcome::Unsupported | Outcome::Fallback => NonSuccessKind::Failure,
        Outcome::Pass
        | Outcome::Error
        | Outcome::Crash
        | Outcome::Timeout
        | Outcome::Oom
        | Outcome::Skipped
        | Outcome::Infra
        | Outcome::HostLimit => NonSuccessKind::Error,
    }
}

/// One attempt that did not pass.
fn rerun(record: &AttemptRecord) -> Option<TestRerun> {
    let attempt = record.full.as_deref()?;
    let mut rerun = TestRerun::new(kind(attempt.outcome));
    rerun
        .set_type(attempt.outcome.as_str())
        .set_message(attempt.message.as_str())
        .set_time(seconds(attempt.seconds))
        .set_timestamp(attempt.started_at)
        .set_description(description(attempt));
    Some(rerun)
}

/// What is known of an attempt, in lines.
fn description(attempt: &Attempt) -> String {
    let evidence = &attempt.evidence;
    let mut lines = Vec::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            lines.push(format!("{name}: {value}"));
        }
    };
    line("stage", attempt.stage.map_or("", |stage| stage.as_str()));
    line("class", &attempt.error_class);
    line("operator", attempt.operator.as_deref().unwrap_or_default());
    line("last operator", &last_operator_text(evidence));
    line("reference", &evidence.reference);
    for comparison in &evidence.comparisons {
        for finding in &comparison.findings {
            line("finding", format!("{} {finding}", comparison.label).trim_start());
        }
    }
    line("traceback", &excerpt(&evidence.traceback));
    lines.join("\n")
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
