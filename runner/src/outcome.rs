//! From what was seen of an attempt to its outcome. Pure: no I/O, no clock, table-tested.
//!
//! Two sides saw something: the worker, which reports exceptions and outputs, and the runner,
//! which compares outputs and sees processes end. Comparing itself is in [`crate::compare`];
//! sweeps over sizes are judged in [`crate::sweep_outcome`].

mod again;
mod death;
mod text;

use protocol::evidence::SweepPoint;
use protocol::worker_link::{Failure, FailureKind, Observed};
use protocol::{Comparison, Evidence, Mode, Outcome, SkipReason, Stage, Suite};

pub use again::{
    apply_crumb, is_retryable, is_worth_another, may_depend_on_order, wants_breadcrumb,
};
use death::judge_death;
use text::last_bytes;
pub use text::one_line;

use crate::sweep_outcome;
use crate::worker::fork_server::Exit;

/// How an attempt ended, as seen from outside the worker.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// The worker reported. There is one comparison per output set, or why there is none.
    Observed {
        /// The report.
        observed: Box<Observed>,
        /// In the order of `observed.to_compare`.
        comparisons: Vec<Result<Comparison, String>>,
    },
    /// The process ended in the middle of the case.
    Died {
        /// Where the case was.
        stage: Stage,
        /// How it ended.
        exit: Exit,
        /// Whether the kernel killed something for lack of memory meanwhile.
        memory_killed: bool,
    },
    /// A deadline ran out, and the process was killed.
    TimedOut {
        /// Where the case was.
        stage: Stage,
        /// Which budget ran out.
        budget: Budget,
        /// The budget in seconds.
        limit_secs: u64,
    },
    /// What came over the link is no message.
    Garbage {
        /// Where the case was.
        stage: Stage,
        /// The parser's words.
        problem: String,
    },
    /// It was not executed, by plan.
    Skipped {
        /// From the closed list.
        reason: SkipReason,
        /// In words.
        message: String,
    },
    /// There is no golden that it could be compared with, or what it gave could not be kept as one.
    NoGolden {
        /// `golden-missing`, `golden-stale`, `golden-corrupt`, `golden-not-kept`.
        class: &'static str,
        /// In words.
        message: String,
    },
}

/// The two kinds of time that a case may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// Importing, building, reference, tracing, lowering, compiling.
    Compile,
    /// Transferring, executing, comparing, leaving.
    Execute,
}

impl Budget {
    /// The budget that a stage draws on.
    #[must_use]
    pub const fn of(stage: Stage) -> Self {
        match stage {
            Stage::Import
            | Stage::Build
            | Stage::Reference
            | Stage::Trace
            | Stage::Lower
            | Stage::Compile => Self::Compile,
            Stage::Transfer | Stage::Execute | Stage::Compare | Stage::Teardown => Self::Execute,
        }
    }

    /// For messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compile => "compile",
            Self::Execute => "execute",
        }
    }
}

/// What was asked for; an outcome is judged against it.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The suite of the case.
    pub suite: Suite,
    /// The mode of the case.
    pub mode: Mode,
    /// Torch device type that outputs must be on: `tpu`, `cuda`, `cpu`.
    pub device_type: String,
    /// Whether the backend executes on the simulating host (`tpu-sim`).
    pub host_limited: bool,
    /// Sizes planned for a sweep.
    pub sweep_sizes: usize,
    /// Graphs that a dynamism case may need inside its bounds.
    pub graph_budget: u64,
    /// Seed of every generator.
    pub seed: u64,
}

/// An outcome with its why.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// What was observed.
    pub outcome: Outcome,
    /// Where it stopped; nothing on a pass.
    pub stage: Option<Stage>,
    /// Class of the error.
    pub error_class: String,
    /// One line.
    pub message: String,
    /// Overload to blame, when it is known.
    pub operator: Option<String>,
}

impl Judged {
    /// Everything asked for was seen to hold.
    #[must_use]
    pub const fn pass() -> Self {
        Self {
            outcome: Outcome::Pass,
            stage: None,
            error_class: String::new(),
            message: String::new(),
            operator: None,
        }
    }

    pub(crate) fn bad(
        outcome: Outcome,
        stage: Stage,
        class: &str,
        message: impl AsRef<str>,
    ) -> Self {
        Self {
            outcome,
            stage: Some(stage),
            error_class: class.to_owned(),
            message: one_line(message.as_ref()),
            operator: None,
        }
    }
}

/// Judges one attempt, and gathers its evidence. `log_text` is what the process wrote, used only to
/// word the message of a native crash, and to tell an abort of the simulating host.
#[must_use]
pub fn judge(asked: &Asked, ending: &Ending, log_text: &str) -> (Judged, Evidence) {
    let mut evidence = Evidence { seed: asked.seed, ..Evidence::default() };
    let judged = match ending {
        Ending::Observed { observed, comparisons } => {
            fill_evidence(&mut evidence, observed, comparisons);
            let (judged, sweep) = judge_observed(asked, observed, comparisons);
            evidence.sweep = sweep;
            judged
        }
        Ending::Died { stage, exit, memory_killed } => {
            evidence.signal = exit.signal;
            evidence.exit_code = exit.exit_code;
            judge_death(asked, *stage, *exit, *memory_killed, log_text)
        }
        Ending::TimedOut { stage, budget, limit_secs } => Judged::bad(
            Outcome::Timeout,
            *stage,
            &format!("{}-timeout", budget.as_str()),
            format!("no result within its {limit_secs} s of {} time", budget.as_str()),
        ),
        Ending::Garbage { stage, problem } => {
            Judged::bad(Outcome::Infra, *stage, "link-garbage", problem)
        }
        Ending::Skipped { reason, message } => {
            evidence.skip_reason = Some(*reason);
            Judged::bad(Outcome::Skipped, Stage::Build, reason.as_str(), message)
        }
        Ending::NoGolden { class, message } => {
            Judged::bad(Outcome::Infra, Stage::Reference, class, message)
        }
    };
    if let Some(operator) = &judged.operator {
        evidence.last_operator = Some(protocol::evidence::LastOperator {
            overload: operator.clone(),
            source: "message".to_owned(),
        });
    }
    (judged, evidence)
}

fn fill_evidence(
    evidence: &mut Evidence,
    observed: &Observed,
    comparisons: &[Result<Comparison, String>],
) {
    evidence.device_used.clone_from(&observed.device_used);
    evidence.fallback_operators.clone_from(&observed.fallback_operators);
    evidence.graphs.clone_from(&observed.graphs);
    evidence.peak_memory_bytes = observed.peak_memory_bytes;
    evidence.stage_seconds.clone_from(&observed.stage_seconds);
    evidence.both_raised.clone_from(&observed.both_raised);
    evidence.substitutions.clone_from(&observed.substitutions);
    evidence.notes.clone_from(&observed.notes);
    evidence.repro.clone_from(&observed.repro);
    evidence.model_figures = observed.model_figures.clone().unwrap_or_default();
    if let Some(failure) = &observed.failure {
        evidence.traceback = last_bytes(&failure.traceback, text::MAX_TRACEBACK_BYTES).to_owned();
        evidence.skip_reason = failure.skip_reason;
    }
    if let Some(first) = observed.to_compare.first() {
        evidence.reference.clone_from(&first.reference);
    }
    evidence.comparisons = comparisons.iter().filter_map(|c| c.as_ref().ok()).cloned().collect();
    for comparison in evidence.comparisons.iter().filter(|comparison| comparison.is_vacuous()) {
        let label = &comparison.label;
        evidence.notes.push(format!("vacuous comparison{label}: no finite pair was looked at"));
    }
}

fn judge_observed(
    asked: &Asked,
    observed: &Observed,
    comparisons: &[Result<Comparison, String>],
) -> (Judged, Vec<SweepPoint>) {
    if asked.suite == Suite::Dynamism {
        return judge_sweep(asked, observed, comparisons);
    }
    if let Some(failure) = &observed.failure {
        return (judge_failure(failure), Vec::new());
    }
    if let Some(judged) = judge_place(asked, observed, comparisons) {
        return (judged, Vec::new());
    }
    let judged = if observed.both_raised.is_some() {
        Judged::pass()
    } else {
        judge_graphs(asked, observed)
            .or_else(|| comparisons.iter().find_map(judge_comparison))
            .or_else(|| judge_nothing_compared(asked, comparisons))
            .unwrap_or_else(Judged::pass)
    };
    (judged, Vec::new())
}

/// The first bad size decides; what went wrong beside the sizes does where they are all good, or
/// where it kept some from being executed.
fn judge_sweep(
    asked: &Asked,
    observed: &Observed,
    comparisons: &[Result<Comparison, String>],
) -> (Judged, Vec<SweepPoint>) {
    let (judged, points) = sweep_outcome::judge(asked, observed, comparisons);
    if points.iter().any(|point| point.outcome != Outcome::Pass) {
        return (judged, points);
    }
    let beside = observed.failure.as_ref().map(judge_failure);
    let judged = beside.or_else(|| judge_place(asked, observed, comparisons)).unwrap_or(judged);
    (judged, points)
}

/// The outcome that a worker's word for a failure means.
#[must_use]
pub const fn outcome_of_kind(kind: FailureKind) -> Outcome {
    match kind {
        FailureKind::Error => Outcome::Error,
        FailureKind::Unsupported => Outcome::Unsupported,
        FailureKind::Mismatch => Outcome::Mismatch,
        FailureKind::Fallback => Outcome::Fallback,
        FailureKind::Oom => Outcome::Oom,
        FailureKind::Skipped => Outcome::Skipped,
        FailureKind::Infra => Outcome::Infra,
        FailureKind::HostLimit => Outcome::HostLimit,
    }
}

/// A failure in the worker's own words.
#[must_use]
pub fn judge_failure(failure: &Failure) -> Judged {
    let outcome = outcome_of_kind(failure.kind);
    let mut judged = Judged::bad(outcome, failure.stage, &failure.error_class, &failure.message);
    judged.operator.clone_from(&failure.operator);
    judged
}

/// Whether it was computed where it was asked to be.
fn judge_place(
    asked: &Asked,
    observed: &Observed,
    comparisons: &[Result<Comparison, String>],
) -> Option<Judged> {
    if let Some(first) = observed.fallback_operators.first() {
        let all = observed.fallback_operators.join(", ");
        let message = format!("computed on the CPU instead: {all}");
        let mut judged =
            Judged::bad(Outcome::Fallback, Stage::Execute, "fallback-operator", message);
        judged.operator = Some(first.clone());
        return Some(judged);
    }
    let elsewhere = |place: &&str| place.split(':').next() != Some(asked.device_type.as_str());
    let places = observed.device_used.split(',').map(str::trim).filter(|place| !place.is_empty());
    if let Some(place) = places.clone().find(elsewhere) {
        let message = format!("an output is on `{place}`, not on `{}`", asked.device_type);
        return Some(Judged::bad(Outcome::Fallback, Stage::Execute, "other-device", message));
    }
    // Numbers that are no tensors, such as those of `equal` or `item`, have no place to tell.
    let has_tensors =
        comparisons.iter().flatten().any(|c| c.tensors.iter().any(|t| !t.shape.is_empty()));
    if places.count() == 0 && has_tensors {
        let message = "the device of the outputs is not known";
        return Some(Judged::bad(Outcome::Fallback, Stage::Execute, "device-unknown", message));
    }
    None
}

/// Whether a compiled case was compiled.
fn judge_graphs(asked: &Asked, observed: &Observed) -> Option<Judged> {
    if asked.mode != Mode::Compile {
        return None;
    }
    let graphs = observed.graphs.as_ref()?;
    if graphs.eager_calls > 0 {
        let message = format!("{} calls ran outside any compiled graph", graphs.eager_calls);
        return Some(Judged::bad(Outcome::Fallback, Stage::Execute, "fallback-eager", message));
    }
    (graphs.graph_count == 0).then(|| {
        let message = "nothing was compiled: no graph came out of the tracer";
        Judged::bad(Outcome::Fallback, Stage::Trace, "no-graph", message)
    })
}

/// One output set; nothing when it held.
#[must_use]
pub fn judge_comparison(comparison: &Result<Comparison, String>) -> Option<Judged> {
    let comparison = match comparison {
        Err(problem) => {
            return Some(Judged::bad(Outcome::Infra, Stage::Compare, "not-comparable", problem));
        }
        Ok(comparison) if comparison.held => return None,
        Ok(comparison) => comparison,
    };
    let bad: Vec<_> = comparison.tensors.iter().filter(|tensor| !tensor.held).collect();
    let class = if bad.iter().any(|tensor| tensor.figures.nonfinite_mismatched > 0) {
        "non-finite"
    } else if bad.iter().any(|tensor| tensor.figures.mismatched > 0) {
        "values-differ"
    } else {
        "structure-differs"
    };
    let message = comparison.findings.first().map_or("the comparison did not hold", String::as_str);
    let label =
        if comparison.label.is_empty() { String::new() } else { format!("{}: ", comparison.label) };
    let message = format!("{label}{message}");
    Some(Judged::bad(Outcome::Mismatch, Stage::Compare, class, message))
}

/// A pass needs something that was compared, but for the crash-free suite, whose worker checks
/// structure and finiteness itself.
fn judge_nothing_compared(
    asked: &Asked,
    comparisons: &[Result<Comparison, String>],
) -> Option<Judged> {
    let needed = match asked.suite {
        Suite::Tier1 => false,
        Suite::Operators | Suite::Tier2 | Suite::Dynamism | Suite::Imported(_) => true,
    };
    (needed && comparisons.is_empty()).then(|| {
        let message = "the worker reported neither outputs nor a failure";
        Judged::bad(Outcome::Infra, Stage::Compare, "nothing-compared", message)
    })
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
