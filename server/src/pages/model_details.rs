//! What the decisive attempts at a model's cases say beyond their verdicts: seconds per stage,
//! sweeps over sizes, and for those that went wrong where it began, with what shows it again.

use protocol::{Evidence, Outcome, Stage, Suite};
use sqlx::PgPool;

use super::evidence;
use super::rows::CaseRow;
use super::view;
use crate::charts::SweepChart;
use crate::db::read_cases;
use crate::db::read_runs::CaseView;
use crate::error::Result;

/// Cases whose evidence is read, those that went wrong first; each case page has its own.
const MOST_CASES: usize = 16;
/// Failures told in full.
const MOST_FAILURES: usize = 6;
/// Lines told of what is wrong with the outputs of one case.
const MOST_FINDINGS: usize = 5;
/// Sweeps drawn.
const MOST_SWEEPS: usize = 6;

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Details {
    /// Stages that any case spent time in, in their order.
    pub(super) stages: Vec<&'static str>,
    pub(super) timings: Vec<Timing>,
    pub(super) sweeps: Vec<Sweep>,
    pub(super) failures: Vec<Failure>,
}

/// Seconds of one case in each of the stages; nothing where it spent none.
#[derive(Debug)]
pub(super) struct Timing {
    pub(super) suite: Suite,
    pub(super) variant: String,
    pub(super) href: String,
    pub(super) seconds: Vec<Option<f64>>,
    pub(super) total: f64,
}

#[derive(Debug)]
pub(super) struct Sweep {
    pub(super) variant: String,
    pub(super) href: String,
    pub(super) chart: SweepChart,
}

/// A case that went wrong.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) row: CaseRow,
    /// First module, and operator in it, whose answer differs; empty where none was found.
    pub(super) divergence: String,
    /// What was wrong with the outputs, in the comparison's words.
    pub(super) findings: Vec<String>,
    pub(super) repro_command: String,
    /// Says why values do not hold; empty where none were compared.
    pub(super) explain_command: String,
    /// Python that shows it without this project; empty when the worker could write none.
    pub(super) repro: String,
}

impl Details {
    /// Reads the evidence of a model's cases, at most of [`MOST_CASES`] of them.
    pub(super) async fn read(pool: &PgPool, cases: &[CaseView]) -> Result<Self> {
        let mut attempted: Vec<&CaseView> = cases.iter().filter(|case| case.attempts > 0).collect();
        attempted.sort_by_key(|case| case.verdict.0.is_good());
        let mut read = Vec::new();
        for case in attempted.into_iter().take(MOST_CASES) {
            let attempts = read_cases::list_attempts(pool, case.run_id, &case.key).await?;
            let decisive = attempts
                .iter()
                .find(|attempt| Some(attempt.attempt) == case.decisive_attempt)
                .or_else(|| attempts.last());
            // What this server cannot read is shown as stored on the page of the case.
            let evidence =
                decisive.and_then(|attempt| serde_json::from_str(&attempt.evidence).ok());
            if let Some(evidence) = evidence {
                read.push((case, evidence));
            }
        }
        read.sort_by(|(a, _), (b, _)| (a.suite.0, &a.key).cmp(&(b.suite.0, &b.key)));
        Ok(Self::new(&read))
    }

    fn new(read: &[(&CaseView, Evidence)]) -> Self {
        let spent = |stage: &&Stage| {
            read.iter().any(|(_, evidence)| evidence.stage_seconds.contains_key(stage.as_str()))
        };
        let stages: Vec<&'static str> =
            Stage::ALL.iter().filter(spent).map(|stage| stage.as_str()).collect();
        let mut details = Self::default();
        for (case, evidence) in read {
            let row = CaseRow::new(case);
            details.timings.push(Timing {
                suite: row.suite,
                variant: row.variant.clone(),
                href: row.href.clone(),
                seconds: stages.iter().map(|s| evidence.stage_seconds.get(*s).copied()).collect(),
                total: evidence.stage_seconds.values().sum(),
            });
            if details.sweeps.len() < MOST_SWEEPS
                && let Some(chart) = SweepChart::new(&evidence.sweep, &evidence.comparisons)
            {
                let (variant, href) = (row.variant.clone(), row.href.clone());
                details.sweeps.push(Sweep { variant, href, chart });
            }
            if !case.verdict.0.is_good() && details.failures.len() < MOST_FAILURES {
                details.failures.push(Failure::new(case, row, evidence));
            }
        }
        details.stages = stages;
        details
    }
}

impl Failure {
    fn new(case: &CaseView, row: CaseRow, observed: &Evidence) -> Self {
        let key = view::shell_quote(&case.key);
        let has_values = case.outcome.is_some_and(|word| word.0 == Outcome::Mismatch);
        let divergence = observed.first_divergence.as_ref();
        let findings = observed.comparisons.iter().filter(|comparison| !comparison.held);
        Self {
            divergence: divergence.map_or(String::new(), ToString::to_string),
            findings: findings.flat_map(evidence::findings).take(MOST_FINDINGS).collect(),
            repro_command: format!("runner repro {} {key}", case.run_key),
            explain_command: if has_values {
                format!("runner explain {} {key}", case.run_key)
            } else {
                String::new()
            },
            repro: observed.repro.clone(),
            row,
        }
    }
}
