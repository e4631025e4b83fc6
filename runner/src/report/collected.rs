//! What the reports need of a run, gathered from its events: the cases in plan order with their
//! attempts and waivers, and counts by suite.
//!
//! A passed attempt is kept as a few numbers; its evidence is in the journal.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use protocol::ingest_api::Attempt;
use protocol::waiver::{Leave, Subject, find_leave};
use protocol::{CaseKey, Outcome, Suite, Verdict};

use super::times::Times;
use crate::event::{CaseResult, Event, RunEnded, RunStarted};
use crate::waivers::{Standing, standing};

/// A run as far as it has been told.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) started: Option<Arc<RunStarted>>,
    pub(super) ended: Option<RunEnded>,
    /// What belongs to the run and not to a case, in order.
    pub(super) findings: Vec<String>,
    attempts: HashMap<CaseKey, Vec<AttemptRecord>>,
    /// Seconds of the executions, by suite.
    times: BTreeMap<Suite, Times>,
    /// Cases that a waiver speaks of, and its place in the file; known when the run is over.
    leaves: HashMap<CaseKey, (Leave, usize)>,
    /// Where each waiver of the file stands; known when the run is over.
    pub(super) standings: Vec<Standing>,
}

/// One attempt.
#[derive(Debug, Clone)]
pub(super) struct AttemptRecord {
    pub(super) outcome: Outcome,
    pub(super) seconds: f64,
    /// Whether it passed without a single finite number having been compared.
    pub(super) vacuous: bool,
    /// The case whose execution it is, when it is that of another.
    pub(super) executed_as: Option<CaseKey>,
    /// The whole of it, for everything but a pass.
    pub(super) full: Option<Arc<Attempt>>,
}

/// What the attempts of one case amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// No attempt.
    Missing,
    /// All conclusive attempts passed, or none did: then the worst outcome.
    Steady(Outcome),
    /// Some passed and some did not: the worst outcome.
    Flaky(Outcome),
}

impl Settled {
    fn of(outcomes: impl IntoIterator<Item = Outcome>) -> Self {
        match CaseResult::of(outcomes) {
            None => Self::Missing,
            Some(CaseResult::Steady(outcome)) => Self::Steady(outcome),
            Some(CaseResult::Flaky(outcome)) => Self::Flaky(outcome),
        }
    }

    /// The word for it: an outcome, `flaky` or `missing`.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Steady(outcome) => outcome.as_str(),
            Self::Flaky(_) => "flaky",
        }
    }

    /// Whether it may be shown green.
    pub(super) fn is_pass(self) -> bool {
        self == Self::Steady(Outcome::Pass)
    }
}

/// One planned case with what came of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct CaseRecord<'a> {
    pub(super) key: &'a CaseKey,
    pub(super) settled: Settled,
    pub(super) attempts: &'a [AttemptRecord],
    /// The waiver that speaks of it, by its place in the file.
    pub(super) leave: Option<(Leave, usize)>,
}

impl<'a> CaseRecord<'a> {
    /// The word for it: `waived` or `unexpected pass`, else that of what was observed.
    pub(super) fn word(&self) -> &'static str {
        if self.is_waived() {
            Verdict::Waived.as_str()
        } else if self.is_unexpected_pass() {
            Verdict::UnexpectedPass.as_str()
        } else {
            self.settled.word()
        }
    }

    /// Whether it did not pass, and a waiver forgives that.
    pub(super) fn is_waived(&self) -> bool {
        self.leave.is_some() && !self.settled.is_pass()
    }

    /// Whether it passed although a waiver expects it to fail.
    pub(super) fn is_unexpected_pass(&self) -> bool {
        self.leave.is_some() && self.settled.is_pass()
    }

    /// Whether it did not pass, and nobody forgives that; a skipped one is not held against a run.
    pub(super) fn is_failure(&self) -> bool {
        match self.settled {
            Settled::Steady(Outcome::Pass | Outcome::Skipped) => false,
            Settled::Steady(_) | Settled::Flaky(_) | Settled::Missing => !self.is_waived(),
        }
    }

    /// The attempt to show: of the worst outcome, the first one.
    pub(super) fn telling(&self) -> Option<&'a Attempt> {
        let (Settled::Steady(outcome) | Settled::Flaky(outcome)) = self.settled else {
            return None;
        };
        let found = self.attempts.iter().find(|attempt| attempt.outcome == outcome);
        found.and_then(|attempt| attempt.full.as_deref())
    }

    /// Wall seconds over all attempts.
    pub(super) fn seconds(&self) -> f64 {
        self.attempts.iter().map(|attempt| attempt.seconds).sum()
    }

    /// The case that was executed in its place.
    pub(super) fn executed_as(&self) -> Option<&'a CaseKey> {
        self.attempts.iter().find_map(|attempt| attempt.executed_as.as_ref())
    }

    /// Whether it passed without anything finite compared.
    pub(super) fn is_vacuous(&self) -> bool {
        self.settled.is_pass() && self.attempts.iter().any(|attempt| attempt.vacuous)
    }
}

/// Counts of cases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) planned: u64,
    /// By [`CaseRecord::word`].
    pub(super) counts: BTreeMap<&'static str, u64>,
    pub(super) skipped: u64,
    pub(super) inconclusive: u64,
    pub(super) missing: u64,
    pub(super) passed: u64,
    /// Neither passed nor skipped nor waived; missing ones too.
    pub(super) failures: u64,
}

impl Tally {
    fn add(&mut self, case: &CaseRecord<'_>) {
        let settled = case.settled;
        self.planned += 1;
        self.failures += u64::from(case.is_failure());
        *self.counts.entry(case.word()).or_default() += 1;
        match settled {
            Settled::Missing => self.missing += 1,
            Settled::Steady(Outcome::Pass) => self.passed += 1,
            Settled::Steady(Outcome::Skipped) => self.skipped += 1,
            Settled::Steady(outcome) if !outcome.is_conclusive() => self.inconclusive += 1,
            Settled::Steady(_) | Settled::Flaky(_) => {}
        }
    }

    /// Passed, out of planned without skipped and inconclusive. A missing case stays in, and so does
    /// a waived one, which is no pass.
    pub(super) fn pass_rate(&self) -> (u64, u64) {
        (self.passed, self.planned - self.skipped - self.inconclusive)
    }

    /// Judged, out of planned.
    pub(super) fn completeness(&self) -> (u64, u64) {
        (self.planned - self.missing - self.inconclusive, self.planned)
    }
}

impl Collected {
    /// Takes one event.
    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::RunStarted(started) => self.started = Some(Arc::clone(started)),
            Event::AttemptFinished(finished) => self.add(&finished.attempt),
            Event::SlotDrained { slot, reason } => {
                self.findings.push(format!("device slot {slot} takes no more cases: {reason}"));
            }
            // A run that was resumed may have found it twice.
            Event::Finding { text } if self.findings.contains(text) => {}
            Event::Finding { text } => self.findings.push(text.clone()),
            Event::RunEnded(ended) => {
                self.ended = Some(ended.clone());
                self.judge();
            }
            Event::CaseStarted { .. }
            | Event::CaseSlow { .. }
            | Event::WorkerStarted { .. }
            | Event::WorkerEnded { .. }
            | Event::StopRequested { .. } => {}
        }
    }

    fn add(&mut self, attempt: &Arc<Attempt>) {
        let record = AttemptRecord {
            outcome: attempt.outcome,
            seconds: attempt.seconds,
            vacuous: attempt.evidence.comparisons.iter().any(protocol::Comparison::is_vacuous),
            executed_as: attempt.evidence.executed_as.clone(),
            full: (attempt.outcome != Outcome::Pass).then(|| Arc::clone(attempt)),
        };
        let records = self.attempts.entry(attempt.case.clone()).or_default();
        // A replayed attempt replaces itself.
        let at = usize::try_from(attempt.attempt).unwrap_or(usize::MAX).saturating_sub(1);
        match records.get_mut(at) {
            Some(known) => *known = record,
            None => {
                records.push(record);
                self.times.entry(attempt.case.suite()).or_default().add(attempt);
            }
        }
    }

    /// How long the executions of a suite took.
    pub(super) fn times(&self, suite: Suite) -> Option<String> {
        self.times.get(&suite).and_then(Times::describe)
    }

    /// How many cases have an attempt.
    pub(super) fn attempted(&self) -> usize {
        self.attempts.len()
    }

    /// One case with what came of it so far.
    pub(super) fn case<'a>(&'a self, key: &'a CaseKey) -> CaseRecord<'a> {
        let attempts = self.attempts.get(key).map(Vec::as_slice).unwrap_or_default();
        let settled = Settled::of(attempts.iter().map(|attempt| attempt.outcome));
        CaseRecord { key, settled, attempts, leave: self.leaves.get(key).copied() }
    }

    /// Asks the waivers about every case, as of the day the run ended.
    fn judge(&mut self) {
        let (Some(started), Some(ended)) = (self.started.clone(), &self.ended) else { return };
        let waivers = &started.waivers;
        if waivers.waivers.is_empty() {
            return;
        }
        let (run, today) = (&started.run, ended.finished_at.date_naive());
        let mut given: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        let mut leaves = HashMap::new();
        for case in self.cases() {
            let outcome = match case.settled {
                Settled::Steady(outcome) | Settled::Flaky(outcome) => outcome,
                Settled::Missing => continue,
            };
            let subject = Subject {
                case: case.key.as_str(),
                device_profile: &run.device_profile,
                device_kind: &run.device_kind,
                versions: &run.versions,
                operator: case.telling().and_then(|attempt| attempt.operator.as_deref()),
            };
            let terms = waivers.waivers.iter().map(|waiver| &waiver.terms).enumerate();
            if let Some((leave, index)) = find_leave(terms, subject, outcome, today) {
                let (waived, passed) = given.entry(index).or_default();
                *if outcome == Outcome::Pass { passed } else { waived } += 1;
                leaves.insert(case.key.clone(), (leave, index));
            }
        }
        self.standings = standing(waivers, run, &started.manifest.cases, &given, today);
        self.leaves = leaves;
    }

    /// What a waiver says of a case, for people: `waived by waivers.toml:3 (…) until …: reason`.
    pub(super) fn leave_text(&self, case: &CaseRecord<'_>) -> Option<String> {
        let (_, index) = case.leave?;
        let waivers = &self.started.as_ref()?.waivers;
        let waiver = waivers.waivers.get(index)?;
        let name = waivers.describe(index);
        Some(if case.is_waived() {
            format!("waived by {name} until {}: {}", waiver.terms.expires_on, waiver.reason)
        } else {
            format!("passed although {name} expects it to fail: remove the waiver")
        })
    }

    /// The cases of this process, in plan order.
    pub(super) fn cases(&self) -> impl Iterator<Item = CaseRecord<'_>> {
        let planned = self.started.as_ref().map(|started| started.planned.as_slice());
        planned.unwrap_or_default().iter().map(|key| self.case(key))
    }

    /// Counts of one suite, or of all.
    pub(super) fn tally(&self, suite: Option<Suite>) -> Tally {
        let mut tally = Tally::default();
        for case in self.cases() {
            if suite.is_none_or(|suite| case.key.suite() == suite) {
                tally.add(&case);
            }
        }
        tally
    }
}

/// `97.10 % (638 of 657)`, rounded down so that 100 % means all of them; `none (0 of 0)`.
pub(super) fn rate_text((part, whole): (u64, u64)) -> String {
    if whole == 0 {
        return "none (0 of 0)".to_owned();
    }
    let hundredths = u128::from(part) * 10_000 / u128::from(whole);
    format!("{}.{:02} % ({part} of {whole})", hundredths / 100, hundredths % 100)
}

/// Writes a whole file or none of it: a report that is being read is never half there.
pub(super) fn write_whole(path: &std::path::Path, bytes: &[u8]) -> Result<(), std::io::Error> {
    let name = |error: std::io::Error| {
        std::io::Error::new(error.kind(), format!("cannot write `{}`: {error}", path.display()))
    };
    let beside = path.with_extension("part");
    std::fs::write(&beside, bytes).map_err(name)?;
    std::fs::rename(&beside, path).map_err(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_count_what_is_missing_and_leave_out_what_taught_nothing() {
        let mut tally = Tally::default();
        let key: CaseKey = "operators/opinfo:add#0/float32.eager.forward".parse().unwrap();
        for settled in [
            Settled::Steady(Outcome::Pass),
            Settled::Steady(Outcome::Mismatch),
            Settled::Flaky(Outcome::Crash),
            Settled::Missing,
            Settled::Steady(Outcome::Skipped),
            Settled::Steady(Outcome::Infra),
            Settled::Steady(Outcome::HostLimit),
        ] {
            tally.add(&CaseRecord { key: &key, settled, attempts: &[], leave: None });
        }
        assert_eq!(tally.failures, 5);
        assert_eq!(tally.pass_rate(), (1, 4));
        assert_eq!(tally.completeness(), (4, 7));
        assert_eq!(rate_text(tally.pass_rate()), "25.00 % (1 of 4)");
        assert_eq!(rate_text((2, 3)), "66.66 % (2 of 3)");
        assert_eq!(rate_text((0, 0)), "none (0 of 0)");
    }
}
