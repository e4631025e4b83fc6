//! What the written reports need of a run, gathered from its events: the cases in plan order with
//! their attempts, and counts by suite.
//!
//! A passed attempt is kept as a few numbers; its evidence is in the journal.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use protocol::ingest_api::Attempt;
use protocol::{CaseKey, Outcome, Suite};

use crate::event::{CaseResult, Event, RunEnded, RunStarted};

/// A run as far as it has been told.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) started: Option<Arc<RunStarted>>,
    pub(super) ended: Option<RunEnded>,
    /// What belongs to the run and not to a case, in order.
    pub(super) findings: Vec<String>,
    attempts: HashMap<CaseKey, Vec<AttemptRecord>>,
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
}

impl<'a> CaseRecord<'a> {
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
    /// By [`Settled::word`].
    pub(super) counts: BTreeMap<&'static str, u64>,
    pub(super) skipped: u64,
    pub(super) inconclusive: u64,
    pub(super) missing: u64,
    pub(super) passed: u64,
}

impl Tally {
    fn add(&mut self, settled: Settled) {
        self.planned += 1;
        *self.counts.entry(settled.word()).or_default() += 1;
        match settled {
            Settled::Missing => self.missing += 1,
            Settled::Steady(Outcome::Pass) => self.passed += 1,
            Settled::Steady(Outcome::Skipped) => self.skipped += 1,
            Settled::Steady(outcome) if !outcome.is_conclusive() => self.inconclusive += 1,
            Settled::Steady(_) | Settled::Flaky(_) => {}
        }
    }

    /// Passed, out of planned without skipped and inconclusive. A missing case stays in.
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
            Event::Finding { text } => self.findings.push(text.clone()),
            Event::RunEnded(ended) => self.ended = Some(ended.clone()),
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
            None => records.push(record),
        }
    }

    /// The cases of this process, in plan order.
    pub(super) fn cases(&self) -> impl Iterator<Item = CaseRecord<'_>> {
        let planned = self.started.as_ref().map(|started| started.planned.as_slice());
        planned.unwrap_or_default().iter().map(|key| {
            let attempts = self.attempts.get(key).map(Vec::as_slice).unwrap_or_default();
            let settled = Settled::of(attempts.iter().map(|attempt| attempt.outcome));
            CaseRecord { key, settled, attempts }
        })
    }

    /// Counts of one suite, or of all.
    pub(super) fn tally(&self, suite: Option<Suite>) -> Tally {
        let mut tally = Tally::default();
        for case in self.cases() {
            if suite.is_none_or(|suite| case.key.suite() == suite) {
                tally.add(case.settled);
            }
        }
        tally
    }

    /// Operators that the backend does not implement, with the cases that need them, the most
    /// needed first.
    pub(super) fn unimplemented(&self) -> Vec<(String, Vec<&CaseKey>)> {
        let mut operators: BTreeMap<String, Vec<&CaseKey>> = BTreeMap::new();
        for case in self.cases() {
            if case.settled != Settled::Steady(Outcome::Unsupported) {
                continue;
            }
            let operator = case.telling().and_then(|attempt| attempt.operator.clone());
            operators
                .entry(operator.unwrap_or_else(|| "not named".to_owned()))
                .or_default()
                .push(case.key);
        }
        let mut ranked: Vec<_> = operators.into_iter().collect();
        ranked.sort_by(|one, two| two.1.len().cmp(&one.1.len()).then_with(|| one.0.cmp(&two.0)));
        ranked
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
        for settled in [
            Settled::Steady(Outcome::Pass),
            Settled::Steady(Outcome::Mismatch),
            Settled::Flaky(Outcome::Crash),
            Settled::Missing,
            Settled::Steady(Outcome::Skipped),
            Settled::Steady(Outcome::Infra),
            Settled::Steady(Outcome::HostLimit),
        ] {
            tally.add(settled);
        }
        assert_eq!(tally.pass_rate(), (1, 4));
        assert_eq!(tally.completeness(), (4, 7));
        assert_eq!(rate_text(tally.pass_rate()), "25.00 % (1 of 4)");
        assert_eq!(rate_text((2, 3)), "66.66 % (2 of 3)");
        assert_eq!(rate_text((0, 0)), "none (0 of 0)");
    }
}
