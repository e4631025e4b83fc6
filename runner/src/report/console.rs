//! What a person sees of a run in work: a live line on a terminal, sparse lines in a log, and bad
//! cases as they happen. At the end, the summary of [`super::summary`], or the JSON of
//! [`super::json`].
//!
//! Talk goes to stderr; the summary is what was asked for and goes to stdout.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use protocol::Outcome;
use protocol::ingest_api::Attempt;

use super::collected::{CaseRecord, Collected, Settled};
use super::text::{Colour, duration_text, shorten};
use super::{json, summary};
use crate::args::colours;
use crate::event::{Event, RunStarted};
use crate::talk::say;

/// How often a log gets a line of progress.
const LOG_INTERVAL: Duration = Duration::from_secs(15);
/// Bad cases shown as they happen; more are in the reports.
const SHOWN_LIVE: usize = 30;

/// In which form the end of a run is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

impl Form {
    /// JSON when it is asked for.
    #[must_use]
    pub const fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// The console.
#[derive(Debug)]
pub struct Console {
    form: Form,
    progress: Option<ProgressBar>,
    colour: Colour,
    pace: Pace,
    passed: usize,
    shown: usize,
    last_line: Instant,
}

/// How fast cases get done, since the first one of this process.
#[derive(Debug, Clone, Copy)]
struct Pace {
    begun: Instant,
    already_done: usize,
    planned: usize,
}

impl Pace {
    /// `12.5 cases per s, about 2 min 3 s left`; nothing before there is something to go by.
    fn describe(&self, done: usize, elapsed: Duration) -> String {
        let fresh = done.saturating_sub(self.already_done);
        let seconds = elapsed.as_secs_f64();
        if fresh == 0 || seconds <= 0.0 {
            return String::new();
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of cases are far below 2^52")]
        let (fresh, left) = (fresh as f64, self.planned.saturating_sub(done) as f64);
        let rate = fresh / seconds;
        let left = duration_text((left / rate).ceil());
        format!(", {rate:.1} cases per s, about {left} left")
    }
}

impl Console {
    /// A console on this process's streams.
    #[must_use]
    pub fn new(form: Form) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            form,
            progress: terminal.then(ProgressBar::hidden),
            colour: Colour(colours(terminal)),
            pace: Pace { begun: Instant::now(), already_done: 0, planned: 0 },
            passed: 0,
            shown: 0,
            last_line: Instant::now(),
        }
    }

    /// A line of talk, above the live line where there is one.
    fn say(&self, text: &str) {
        match &self.progress {
            Some(progress) => progress.suspend(|| say(text)),
            None => say(text),
        }
    }

    fn begin(&mut self, started: &RunStarted) {
        let run = &started.run;
        let planned = started.planned.len();
        self.pace = Pace { begun: Instant::now(), already_done: started.already_done, planned };
        let simulated = if run.simulated { ", simulated" } else { "" };
        let kind = &run.device_kind;
        self.say(&format!(
            "run {}: {planned} cases on {} ({kind}{simulated})",
            run.run_key, run.device_profile
        ));
        if let Some(reason) = &started.device_reason {
            self.say(&format!("device: {reason}"));
        }
        if started.already_done > 0 {
            self.say(&format!("{} cases already have their result", started.already_done));
        }
        if self.progress.is_some() {
            let bar = ProgressBar::new(planned as u64);
            let style = "{bar:30} {pos}/{len} [{elapsed} < {eta}, {per_sec}] {msg}";
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            bar.set_position(started.already_done as u64);
            bar.reset_eta();
            self.progress = Some(bar);
        }
    }

    fn finished(&mut self, attempt: &Attempt, retrying: bool, collected: &Collected) {
        if !retrying {
            let case = collected.case(&attempt.case);
            self.passed += usize::from(case.settled.is_pass());
            self.show_live(&case);
        }
        let done = collected.attempted();
        if let Some(progress) = &self.progress {
            progress.set_position(done as u64);
            progress.set_message(attempt.case.subject().to_owned());
        } else if self.last_line.elapsed() >= LOG_INTERVAL {
            self.last_line = Instant::now();
            let pace = self.pace.describe(done, self.pace.begun.elapsed());
            self.say(&format!("{done}/{} cases, {} passed{pace}", self.pace.planned, self.passed));
        }
    }

    fn show_live(&mut self, case: &CaseRecord<'_>) {
        let word = match case.settled {
            Settled::Missing | Settled::Steady(Outcome::Pass | Outcome::Skipped) => return,
            Settled::Steady(outcome) => self.colour.outcome(outcome),
            Settled::Flaky(outcome) => format!("flaky {}", self.colour.outcome(outcome)),
        };
        self.shown += 1;
        if self.shown > SHOWN_LIVE {
            if self.shown == SHOWN_LIVE + 1 {
                self.say("… more are in the report");
            }
            return;
        }
        let message = case.telling().map(|attempt| shorten(&attempt.message)).unwrap_or_default();
        let why = if message.is_empty() { String::new() } else { format!(": {message}") };
        self.say(&format!("{word}  {}{why}", case.key));
    }

    /// Takes one event; `collected` has it already.
    pub(super) fn event(&mut self, event: &Event, collected: &Collected) {
        match event {
            Event::RunStarted(started) => self.begin(started),
            Event::AttemptFinished(finished) => {
                self.finished(&finished.attempt, finished.retrying, collected);
            }
            Event::CaseSlow { case, stage, seconds } => {
                self.say(&format!("slow: {case} has been in `{stage}`, {seconds} s by now"));
            }
            Event::SlotDrained { slot, reason } => {
                self.say(&format!("device slot {slot} takes no more cases: {reason}"));
            }
            Event::Finding { text } => self.say(&format!("note: {text}")),
            Event::StopRequested { by } => {
                self.say(&format!("{by}: finishing the cases in flight; again to abandon them"));
            }
            Event::CaseStarted { .. }
            | Event::WorkerStarted { .. }
            | Event::WorkerEnded { .. }
            | Event::RunEnded(_) => {}
        }
    }

    /// Ends the live line, and tells how the run came out.
    pub(super) fn end(&mut self, collected: &Collected) -> Result<(), std::io::Error> {
        if let Some(progress) = &self.progress {
            progress.finish_and_clear();
        }
        let peak = collected.ended.as_ref().and_then(|ended| ended.peak_memory);
        if let Some(peak) = peak.filter(|peak| peak.worker_bytes > 0) {
            let (own, worker) = (peak.runner_bytes >> 20, peak.worker_bytes >> 20);
            self.say(&format!("memory: at most {own} MiB here and {worker} MiB in one worker"));
        }
        let text = match self.form {
            Form::Text => {
                summary::text(collected, Colour(colours(std::io::stdout().is_terminal())))
            }
            Form::Json => json::summary_text(collected)?,
        };
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // Who reads no further has read enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_that_of_this_process_and_not_of_what_was_done_before() {
        let pace = Pace { begun: Instant::now(), already_done: 100, planned: 400 };
        let seconds = Duration::from_secs;
        assert_eq!(pace.describe(150, seconds(10)), ", 5.0 cases per s, about 50.00 s left");
        assert_eq!(pace.describe(400, seconds(60)), ", 5.0 cases per s, about 0.00 s left");
        assert_eq!(pace.describe(100, seconds(10)), "");
        assert_eq!(pace.describe(150, seconds(0)), "");
    }
}
