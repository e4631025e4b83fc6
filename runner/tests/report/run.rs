//! A run as its events tell it, built case by case.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use protocol::evidence::{LastOperator, LogExcerpt, TensorComparison};
use protocol::ingest_api::{Attempt, create_run, put_manifest};
use protocol::{
    CaseKey, Comparison, Evidence, Figures, Number, Outcome, SkipReason, Stage, Tolerance,
};
use runner::event::{AttemptFinished, Ending, Event, RunEnded, RunStarted};
use runner::waivers::Waivers;

/// What a model, an error or a log may hold.
pub(crate) const HOSTILE: &str =
    "<img src=x onerror=alert(1)> \u{1b}[31m</pre><script>alert('x')</script>\u{0} javascript:x";

pub(crate) struct Run {
    directory: tempfile::TempDir,
    cases: Vec<(CaseKey, Vec<Outcome>)>,
    waivers: Waivers,
}

impl Run {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            cases: Vec::new(),
            waivers: Waivers::default(),
        }
    }

    pub(crate) fn case(mut self, key: &str, outcomes: &[Outcome]) -> Self {
        self.cases.push((key.parse().unwrap(), outcomes.to_vec()));
        self
    }

    pub(crate) fn waivers(self, waivers: Waivers) -> Self {
        Self { waivers, ..self }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Names of the files in the directory of the run.
    pub(crate) fn files(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.directory()).unwrap();
        files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    pub(crate) fn events(&self, ending: Ending) -> Vec<Event> {
        let start: DateTime<Utc> = "2026-11-30T05:00:00Z".parse().unwrap();
        let mut events = vec![Event::RunStarted(Arc::new(self.started(start)))];
        for (case, outcomes) in &self.cases {
            for (number, outcome) in (1u32..).zip(outcomes) {
                events.push(Event::AttemptFinished(AttemptFinished {
                    attempt: Arc::new(attempt(case, number, *outcome, start)),
                    retrying: (number as usize) < outcomes.len(),
                }));
            }
        }
        events.push(Event::Finding { text: HOSTILE.to_owned() });
        let not_run = self.cases.iter().filter(|(_, outcomes)| outcomes.is_empty()).count() as u64;
        let finished_at = start + TimeDelta::seconds(200);
        events.push(Event::RunEnded(RunEnded { finished_at, ending, not_run, peak_memory: None }));
        events
    }

    fn started(&self, started_at: DateTime<Utc>) -> RunStarted {
        let cases: Vec<CaseKey> = self.cases.iter().map(|(case, _)| case.clone()).collect();
        let run = create_run::Request {
            protocol_version: 1,
            run_key: "20261130-050000-abcdef".parse().unwrap(),
            suites: vec![protocol::Suite::Operators, protocol::Suite::Tier1],
            device_profile: "tpu-sim".to_owned(),
            device_kind: HOSTILE.to_owned(),
            simulated: true,
            versions: [("torch".to_owned(), HOSTILE.to_owned())].into(),
            host: HOSTILE.to_owned(),
            started_at,
            labels: [(HOSTILE.to_owned(), HOSTILE.to_owned())].into(),
        };
        RunStarted {
            run,
            manifest: Arc::new(put_manifest::Request {
                hash: "0".repeat(64),
                cases: cases.clone(),
            }),
            planned: Arc::new(cases),
            already_done: 0,
            run_dir: PathBuf::from(self.directory()),
            device_reason: Some(HOSTILE.to_owned()),
            repro_command: "runner repro --run x".to_owned(),
            waivers: Arc::new(self.waivers.clone()),
        }
    }
}

fn attempt(case: &CaseKey, number: u32, outcome: Outcome, started_at: DateTime<Utc>) -> Attempt {
    let passed = outcome == Outcome::Pass;
    let mut evidence = Evidence { seed: 7, ..Evidence::default() };
    if !passed {
        evidence.notes = vec![HOSTILE.to_owned()];
        evidence.traceback = HOSTILE.to_owned();
        evidence.log =
            LogExcerpt { head: HOSTILE.to_owned(), tail: HOSTILE.to_owned(), dropped_bytes: 5 };
        evidence.repro = format!("import torch\n# {HOSTILE}\n");
    }
    if outcome == Outcome::Crash {
        evidence.signal = Some(6);
        evidence.last_operator = Some(LastOperator {
            overload: "aten::index_reduce".to_owned(),
            source: "rerun".to_owned(),
        });
    }
    if outcome == Outcome::Mismatch {
        evidence.comparisons = vec![mismatch()];
    }
    evidence.skip_reason = (outcome == Outcome::Skipped).then_some(SkipReason::DependencyMissing);
    Attempt {
        case: case.clone(),
        attempt: number,
        outcome,
        stage: (!passed).then_some(Stage::Execute),
        error_class: String::new(),
        message: if passed { String::new() } else { HOSTILE.to_owned() },
        operator: (outcome == Outcome::Unsupported).then(|| "aten::_fft_r2c".to_owned()),
        started_at,
        seconds: 0.5,
        evidence,
    }
}

fn mismatch() -> Comparison {
    Comparison {
        label: String::new(),
        held: false,
        rule: "close".to_owned(),
        tolerance_id: "2026.11+0123456789ab".to_owned(),
        reference: "cpu float64".to_owned(),
        tensors: vec![TensorComparison {
            path: "0".to_owned(),
            held: false,
            dtype: "float32".to_owned(),
            shape: vec![3],
            tolerance: Tolerance { rtol: 1.3e-6, atol: 1e-5 },
            figures: Figures {
                elements: 3,
                mismatched: 1,
                max_abs_error: Some(Number(f64::INFINITY)),
                worst_index: Some(vec![2]),
                worst_actual: Some(Number(f64::NAN)),
                worst_expected: Some(Number(1.0)),
                ..Figures::default()
            },
        }],
        findings: vec![format!("0: 1 of 3 elements differ {HOSTILE}")],
        addends: None,
        spread: None,
    }
}
