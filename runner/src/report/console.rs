//! What a person sees: a live line on a terminal, sparse lines in a log, and the summary.
//!
//! Talk goes to stderr; the summary is what was asked for and goes to stdout.

use std::collections::{BTreeMap, HashMap};
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use protocol::ingest_api::Attempt;
use protocol::{CaseKey, Outcome, Suite};

use super::Consumer;
use crate::args::colours;
use crate::event::{CaseResult, Ending, Event, RunEnded, RunStarted};
use crate::talk::say;

/// How often a log gets a line of progress.
const LOG_INTERVAL: Duration = Duration::from_secs(15);
/// Bad cases shown as they happen; more are in the reports.
const SHOWN_LIVE: usize = 30;
/// Lines per list of the summary.
const SHOWN_IN_SUMMARY: usize = 10;

/// The console.
#[derive(Debug)]
pub struct Console {
    progress: Option<ProgressBar>,
    colour: Colour,
    started: Option<std::sync::Arc<RunStarted>>,
    results: HashMap<CaseKey, CaseResult>,
    bad: BTreeMap<CaseKey, Bad>,
    /// Cases with the result of another one's execution.
    shared: usize,
    shown: usize,
    last_line: Instant,
    ended: Option<RunEnded>,
    findings: Vec<String>,
}

/// What the summary says of a case that did not pass.
#[derive(Debug)]
struct Bad {
    error_class: String,
    message: String,
    operator: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct Colour(bool);

impl Colour {
    fn paint(self, code: &str, text: &str) -> String {
        if self.0 { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn outcome(self, outcome: Outcome) -> String {
        let code = match outcome {
            Outcome::Pass => "32",
            Outcome::Mismatch
            | Outcome::Error
            | Outcome::Crash
            | Outcome::Timeout
            | Outcome::Oom => "31",
            Outcome::Unsupported | Outcome::Fallback => "33",
            Outcome::Skipped | Outcome::Infra | Outcome::HostLimit => "36",
        };
        self.paint(code, outcome.as_str())
    }
}

impl Default for Console {
    fn default() -> Self {
        Self::new()
    }
}

impl Console {
    /// A console on this process's streams.
    #[must_use]
    pub fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            progress: terminal.then(ProgressBar::hidden),
            colour: Colour(colours(terminal)),
            started: None,
            results: HashMap::new(),
            bad: BTreeMap::new(),
            shared: 0,
            shown: 0,
            last_line: Instant::now(),
            ended: None,
            findings: Vec::new(),
        }
    }

    /// A line of talk, above the live line where there is one.
    fn say(&self, text: &str) {
        match &self.progress {
            Some(progress) => progress.suspend(|| say(text)),
            None => say(text),
        }
    }

    fn begin(&mut self, started: &std::sync::Arc<RunStarted>) {
        self.started = Some(std::sync::Arc::clone(started));
        let run = &started.run;
        let simulated = if run.simulated { ", simulated" } else { "" };
        let kind = &run.device_kind;
        self.say(&format!(
            "run {}: {} cases on {} ({kind}{simulated})",
            run.run_key,
            started.planned.len(),
            run.device_profile
        ));
        if let Some(reason) = &started.device_reason {
            self.say(&format!("device: {reason}"));
        }
        if started.already_done > 0 {
            self.say(&format!("{} cases already have their result", started.already_done));
        }
        if self.progress.is_some() {
            let bar = ProgressBar::new(started.planned.len() as u64);
            let style = "{bar:30} {pos}/{len} [{elapsed} < {eta}, {per_sec}] {msg}";
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            self.progress = Some(bar);
        }
    }

    fn finished(&mut self, attempt: &Attempt, retrying: bool) {
        let result = self
            .results
            .get(&attempt.case)
            .map_or(CaseResult::Steady(attempt.outcome), |before| before.and(attempt.outcome));
        let first = self.results.insert(attempt.case.clone(), result).is_none();
        if first && attempt.evidence.executed_as.is_some() {
            self.shared += 1;
        }
        if attempt.outcome != Outcome::Pass {
            let bad = Bad {
                error_class: attempt.error_class.clone(),
                message: attempt.message.clone(),
                operator: attempt.operator.clone(),
            };
            self.bad.entry(attempt.case.clone()).or_insert(bad);
        }
        if !retrying {
            self.show_live(attempt, result);
        }
        self.progress_line(attempt);
    }

    fn show_live(&mut self, attempt: &Attempt, result: CaseResult) {
        if result.is_pass() || attempt.outcome == Outcome::Skipped {
            return;
        }
        self.shown += 1;
        if self.shown > SHOWN_LIVE {
            if self.shown == SHOWN_LIVE + 1 {
                self.say("… more are in the report");
            }
            return;
        }
        let word = match result {
            CaseResult::Steady(outcome) => self.colour.outcome(outcome),
            CaseResult::Flaky(outcome) => format!("flaky {}", self.colour.outcome(outcome)),
        };
        let bad = self.bad.get(&attempt.case);
        let why = bad.map(|bad| format!(": {}", shorten(&bad.message))).unwrap_or_default();
        self.say(&format!("{word}  {}{why}", attempt.case));
    }

    fn progress_line(&mut self, attempt: &Attempt) {
        let done = self.results.len();
        if let Some(progress) = &self.progress {
            progress.set_position(done as u64);
            progress.set_message(attempt.case.subject().to_owned());
        } else if self.last_line.elapsed() >= LOG_INTERVAL {
            self.last_line = Instant::now();
            let planned = self.started.as_ref().map_or(0, |started| started.planned.len());
            let passed = self.results.values().filter(|result| result.is_pass()).count();
            self.say(&format!("{done}/{planned} cases, {passed} passed"));
        }
    }

    /// The summary as text.
    fn summary(&self) -> String {
        let Some(started) = &self.started else { return String::new() };
        let mut text = String::new();
        let mut line = |words: &str| {
            text.push_str(words);
            text.push('\n');
        };
        line("");
        for suite in Suite::ALL {
            if let Some(counts) = self.counts(*suite, &started.planned) {
                line(&counts);
            }
        }
        if self.shared > 0 {
            line(&format!(
                "           {} of them have the result of another model with the same graph",
                self.shared
            ));
        }
        self.list_operators(&mut line);
        self.list_crashes(&mut line);
        self.list_failures(started, &mut line);
        for finding in self.findings.iter().take(SHOWN_IN_SUMMARY) {
            line(&format!("note: {finding}"));
        }
        if let Some(ended) = &self.ended {
            let key = &started.run.run_key;
            match &ended.ending {
                Ending::Finished => {}
                Ending::Stopped { by } => line(&format!(
                    "stopped by {by}: {} cases were not run; `runner resume {key}` goes on",
                    ended.not_run
                )),
                Ending::Aborted { reason } => line(&format!(
                    "aborted: {reason}; {} cases were not run; `runner resume {key}` goes on",
                    ended.not_run
                )),
            }
        }
        let report = started.run_dir.join("report.html");
        line(&format!("run     {}", started.run_dir.display()));
        line(&format!("report  {}", report.display()));
        text
    }

    /// `operators  40 cases: 30 pass, 8 unsupported, 1 crash, 1 flaky`.
    fn counts(&self, suite: Suite, planned: &[CaseKey]) -> Option<String> {
        let cases: Vec<_> = planned.iter().filter(|case| case.suite() == suite).collect();
        if cases.is_empty() {
            return None;
        }
        let mut steady: BTreeMap<u8, (Outcome, usize)> = BTreeMap::new();
        let (mut flaky, mut missing) = (0, 0);
        for case in &cases {
            match self.results.get(*case) {
                Some(CaseResult::Steady(outcome)) => {
                    steady.entry(outcome.severity()).or_insert((*outcome, 0)).1 += 1;
                }
                Some(CaseResult::Flaky(_)) => flaky += 1,
                None => missing += 1,
            }
        }
        let mut parts: Vec<String> = steady
            .values()
            .map(|(outcome, count)| format!("{count} {}", self.colour.outcome(*outcome)))
            .collect();
        if flaky > 0 {
            parts.push(format!("{flaky} flaky"));
        }
        if missing > 0 {
            parts.push(format!("{missing} not run"));
        }
        Some(format!("{:<10} {} cases: {}", suite.as_str(), cases.len(), parts.join(", ")))
    }

    fn steady(&self, outcome: Outcome) -> impl Iterator<Item = (&CaseKey, &Bad)> {
        self.bad.iter().filter(move |(case, _)| {
            matches!(self.results.get(*case), Some(CaseResult::Steady(o) | CaseResult::Flaky(o))
                if *o == outcome)
        })
    }

    fn list_operators(&self, line: &mut impl FnMut(&str)) {
        let mut operators: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, bad) in self.steady(Outcome::Unsupported) {
            let name = bad.operator.as_deref().unwrap_or("(operator not named)");
            *operators.entry(name).or_default() += 1;
        }
        if operators.is_empty() {
            return;
        }
        let mut ranked: Vec<_> = operators.into_iter().collect();
        ranked.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        line("");
        line("unimplemented operators (cases that need them):");
        for (name, count) in ranked.iter().take(SHOWN_IN_SUMMARY) {
            line(&format!("  {count:>4}  {name}"));
        }
        if ranked.len() > SHOWN_IN_SUMMARY {
            line(&format!("  … and {} more", ranked.len() - SHOWN_IN_SUMMARY));
        }
    }

    fn list_crashes(&self, line: &mut impl FnMut(&str)) {
        let crashes: Vec<_> = self.steady(Outcome::Crash).collect();
        if crashes.is_empty() {
            return;
        }
        line("");
        line("crashes (each cost one case):");
        for (case, bad) in crashes.iter().take(SHOWN_IN_SUMMARY) {
            let operator = bad.operator.as_deref().unwrap_or("operator not known");
            line(&format!("  {}  {operator}  {case}", bad.error_class));
        }
        if crashes.len() > SHOWN_IN_SUMMARY {
            line(&format!("  … and {} more", crashes.len() - SHOWN_IN_SUMMARY));
        }
    }

    fn list_failures(&self, started: &RunStarted, line: &mut impl FnMut(&str)) {
        let wanted = [Outcome::Mismatch, Outcome::Error, Outcome::Timeout, Outcome::Fallback];
        let failures: Vec<_> = wanted.iter().flat_map(|outcome| self.steady(*outcome)).collect();
        if failures.is_empty() {
            return;
        }
        line("");
        line("first failures:");
        for (case, bad) in failures.iter().take(SHOWN_IN_SUMMARY) {
            line(&format!("  {case}"));
            line(&format!("    {}", shorten(&bad.message)));
        }
        if failures.len() > SHOWN_IN_SUMMARY {
            line(&format!("  … and {} more", failures.len() - SHOWN_IN_SUMMARY));
        }
        if let Some((case, _)) = failures.first() {
            line(&format!("  to reproduce one: {} '{case}'", started.repro_command));
        }
    }
}

/// Enough of a message for one line.
fn shorten(text: &str) -> String {
    const LONGEST: usize = 140;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST).collect::<String>() + "…"
}

impl Consumer for Console {
    fn event(&mut self, event: &Event) {
        match event {
            Event::RunStarted(started) => self.begin(started),
            Event::AttemptFinished(finished) => {
                self.finished(&finished.attempt, finished.retrying);
            }
            Event::CaseSlow { case, stage, seconds } => {
                self.say(&format!("slow: {case} has been in `{stage}`, {seconds} s by now"));
            }
            Event::SlotDrained { slot, reason } => {
                self.say(&format!("device slot {slot} takes no more cases: {reason}"));
            }
            Event::Finding { text } => {
                self.say(&format!("note: {text}"));
                self.findings.push(text.clone());
            }
            Event::StopRequested { by } => {
                self.say(&format!("{by}: finishing the cases in flight; again to abandon them"));
            }
            Event::RunEnded(ended) => self.ended = Some(ended.clone()),
            Event::CaseStarted { .. } | Event::WorkerStarted { .. } | Event::WorkerEnded { .. } => {
            }
        }
    }

    fn finish(&mut self) -> Result<(), std::io::Error> {
        if let Some(progress) = &self.progress {
            progress.finish_and_clear();
        }
        self.colour = Colour(colours(std::io::stdout().is_terminal()));
        let mut out = std::io::stdout().lock();
        match out.write_all(self.summary().as_bytes()).and_then(|()| out.flush()) {
            // Who reads no further has read enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }
}
