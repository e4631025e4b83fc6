//! The summary that ends a run on the console.

use std::collections::BTreeMap;

use protocol::{CaseKey, Outcome, Suite};

use super::collected::{CaseRecord, Collected, Settled, rate_text};
use super::text::{Colour, divergence_text, shorten};
use crate::event::{Ending, RunStarted};

/// Lines per list; the reports have the rest.
const SHOWN: usize = 10;

/// The summary; nothing of a run that never started.
pub(super) fn text(collected: &Collected, colour: Colour) -> String {
    let Some(started) = &collected.started else { return String::new() };
    let mut lines = Lines(String::from("\n"));
    counts(collected, colour, &mut lines);
    let shared = collected.cases().filter(|case| case.executed_as().is_some()).count();
    if shared > 0 {
        lines.add(&format!(
            "           {shared} of them have the result of another model with the same graph"
        ));
    }
    let unimplemented = collected.unimplemented();
    lines.ranked("unimplemented operators (cases that need them):", &unimplemented);
    crashes(collected, &mut lines);
    lines.ranked("operators and models with the most failures:", &collected.failing());
    clusters(collected, &mut lines);
    failures(collected, started, &mut lines);
    waivers(collected, started, colour, &mut lines);
    for finding in collected.findings.iter().take(SHOWN) {
        lines.add(&format!("note: {finding}"));
    }
    ending(collected, started, &mut lines);
    let report = started.run_dir.join("report.html");
    lines.add(&format!("run     {}", started.run_dir.display()));
    lines.add(&format!("report  {}", report.display()));
    lines.0
}

struct Lines(String);

impl Lines {
    fn add(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    fn more(&mut self, count: usize) {
        if count > SHOWN {
            self.add(&format!("  … and {} more", count - SHOWN));
        }
    }

    /// A list under its heading; nothing without a line.
    fn list(&mut self, heading: &str, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        self.add("");
        self.add(heading);
        for line in lines.iter().take(SHOWN) {
            self.add(line);
        }
        self.more(lines.len());
    }

    fn ranked(&mut self, heading: &str, groups: &[(String, Vec<&CaseKey>)]) {
        let line =
            |(name, cases): &(String, Vec<&CaseKey>)| format!("  {:>4}  {name}", cases.len());
        self.list(heading, &groups.iter().map(line).collect::<Vec<_>>());
    }
}

/// `operators  40 cases: 30 pass, 8 unsupported, 1 crash, 1 flaky`.
fn counts(collected: &Collected, colour: Colour, lines: &mut Lines) {
    for suite in Suite::ALL {
        let mut steady: BTreeMap<u8, (Outcome, usize)> = BTreeMap::new();
        let (mut planned, mut flaky, mut waived, mut unexpected, mut missing) = (0, 0, 0, 0, 0);
        for case in collected.cases().filter(|case| case.key.suite() == *suite) {
            planned += 1;
            unexpected += usize::from(case.is_unexpected_pass());
            match case.settled {
                _ if case.is_waived() => waived += 1,
                Settled::Steady(outcome) => {
                    steady.entry(outcome.severity()).or_insert((outcome, 0)).1 += 1;
                }
                Settled::Flaky(_) => flaky += 1,
                Settled::Missing => missing += 1,
            }
        }
        if planned == 0 {
            continue;
        }
        let mut parts: Vec<String> = steady
            .values()
            .map(|(outcome, count)| format!("{count} {}", colour.outcome(*outcome)))
            .collect();
        for (count, word) in [(flaky, "flaky"), (waived, "waived"), (missing, "not run")] {
            if count > 0 {
                parts.push(format!("{count} {word}"));
            }
        }
        if unexpected > 0 {
            parts.push(format!("{unexpected} of the passes not expected"));
        }
        lines.add(&format!("{:<10} {planned} cases: {}", suite.as_str(), parts.join(", ")));
        if Suite::MODELS.contains(suite)
            && let Some(times) = collected.times(*suite)
        {
            lines.add(&format!("           {times}"));
        }
    }
}

fn failed_as<'a>(collected: &'a Collected, outcomes: &[Outcome]) -> Vec<CaseRecord<'a>> {
    let cases: Vec<_> = collected.cases().filter(CaseRecord::is_failure).collect();
    let of = |outcome: &Outcome| {
        let outcome = *outcome;
        cases.iter().copied().filter(move |case| {
            matches!(case.settled, Settled::Steady(o) | Settled::Flaky(o) if o == outcome)
        })
    };
    outcomes.iter().flat_map(of).collect()
}

fn crashes(collected: &Collected, lines: &mut Lines) {
    let line = |case: &CaseRecord<'_>| {
        let attempt = case.telling();
        let operator = attempt.and_then(|a| a.operator.as_deref()).unwrap_or("operator not known");
        let class = attempt.map_or("", |attempt| attempt.error_class.as_str());
        format!("  {class}  {operator}  {}", case.key)
    };
    let crashes = failed_as(collected, &[Outcome::Crash]);
    lines.list("crashes (each cost one case):", &crashes.iter().map(line).collect::<Vec<_>>());
}

/// Only what more than one case shares; the rest is in the other lists.
fn clusters(collected: &Collected, lines: &mut Lines) {
    let clusters = collected.clusters().into_iter().filter(|cluster| cluster.cases.len() > 1);
    let line = |cluster: super::grouped::Cluster<'_>| {
        let stage = cluster.stage.map(|stage| format!(" in {stage}")).unwrap_or_default();
        let class = cluster.error_class;
        let class = if class.is_empty() { String::new() } else { format!(", {class}") };
        let what = shorten(&cluster.line);
        format!("  {:>4}  {}{stage}{class}: {what}", cluster.cases.len(), cluster.outcome)
    };
    lines.list("failures that are alike:", &clusters.map(line).collect::<Vec<_>>());
}

fn failures(collected: &Collected, started: &RunStarted, lines: &mut Lines) {
    let wanted =
        [Outcome::Mismatch, Outcome::Error, Outcome::Timeout, Outcome::Oom, Outcome::Fallback];
    let failures = failed_as(collected, &wanted);
    let Some(first) = failures.first() else { return };
    let line = |case: &CaseRecord<'_>| {
        let attempt = case.telling();
        let message = attempt.map_or("", |attempt| attempt.message.as_str());
        let begins = attempt.map(|attempt| divergence_text(&attempt.evidence)).unwrap_or_default();
        let begins = match begins.as_str() {
            "" => String::new(),
            begins => format!("\n    first goes wrong in {}", shorten(begins)),
        };
        format!("  {}\n    {}{begins}", case.key, shorten(message))
    };
    lines.list("first failures:", &failures.iter().map(line).collect::<Vec<_>>());
    lines.add(&format!("  to reproduce one: {} '{}'", started.repro_command, first.key));
}

/// Every waiver of the file, those that somebody has to look at first and in words that shout.
fn waivers(collected: &Collected, started: &RunStarted, colour: Colour, lines: &mut Lines) {
    let waivers = &started.waivers;
    let standings: Vec<_> = collected.standings.iter().enumerate().collect();
    let (loud, quiet): (Vec<_>, Vec<_>) =
        standings.into_iter().partition(|(_, standing)| standing.is_loud());
    if loud.is_empty() && quiet.is_empty() {
        return;
    }
    lines.add("");
    lines.add(&format!("waivers of {}:", waivers.file));
    for (index, standing) in loud {
        let shout = colour.paint("31", "WARNING:");
        let words = standing.describe(&waivers.waivers[index]);
        lines.add(&format!("  {shout} {} {words}", waivers.describe(index)));
    }
    let rest = quiet.len();
    for (index, standing) in quiet.into_iter().take(SHOWN) {
        let words = standing.describe(&waivers.waivers[index]);
        lines.add(&format!("  {} {words}", waivers.describe(index)));
    }
    lines.more(rest);
    let unexpected: Vec<_> =
        collected.cases().filter(CaseRecord::is_unexpected_pass).map(|case| case.key).collect();
    for case in unexpected.iter().take(SHOWN) {
        lines.add(&format!("  unexpected pass: {case}"));
    }
    lines.more(unexpected.len());
}

fn ending(collected: &Collected, started: &RunStarted, lines: &mut Lines) {
    let Some(ended) = &collected.ended else { return };
    let (key, left) = (&started.run.run_key, ended.not_run);
    let goes_on = format!("{left} cases were not run; `runner resume {key}` goes on");
    match &ended.ending {
        Ending::Finished => {}
        Ending::Stopped { by } => lines.add(&format!("stopped by {by}: {goes_on}")),
        Ending::Aborted { reason } => lines.add(&format!("aborted: {reason}; {goes_on}")),
    }
    let total = collected.tally(None);
    if total.missing > 0 {
        lines.add(&format!("completeness {}", rate_text(total.completeness())));
    }
}
