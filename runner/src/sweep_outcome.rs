//! What a sweep over sizes shows: one outcome per size, and the first bad one decides.
//!
//! Inside the bounds one graph must serve every size, with the values of eager. Outside, the
//! program must refuse or compile anew: to accept silently is `bound-not-enforced`, even when the
//! values look right.

use protocol::evidence::SweepPoint;
use protocol::worker_link::{FailureKind, Observed, SweepObserved};
use protocol::{Comparison, Outcome, Stage};

use crate::outcome::{Asked, Judged, judge_comparison, judge_failure};

/// Error class of sizes inside the bounds that needed further graphs.
const NOT_HONOURED: &str = "dynamic-not-honoured";

/// Graphs so far.
#[derive(Default)]
struct Counters {
    graphs: u64,
    graphs_inside: u64,
    sizes_inside: u64,
}

/// Judges every size, in order.
pub(crate) fn judge(
    asked: &Asked,
    observed: &Observed,
    comparisons: &[Result<Comparison, String>],
) -> (Judged, Vec<SweepPoint>) {
    let mut counters = Counters::default();
    let mut first_bad = None;
    let mut points = Vec::with_capacity(observed.sweep.len());
    for size in &observed.sweep {
        let new_graphs = size.graph_count.saturating_sub(counters.graphs);
        let new_eager_calls = size.eager_calls;
        counters.graphs = counters.graphs.max(size.graph_count);
        let (judged, boundary) = if size.inside {
            counters.graphs_inside += new_graphs;
            counters.sizes_inside += 1;
            let comparison = observed
                .to_compare
                .iter()
                .position(|set| set.label == size.label)
                .and_then(|index| comparisons.get(index));
            let graphs = (counters.graphs_inside, asked.graph_budget);
            (judge_inside(size, graphs, new_eager_calls, comparison), None)
        } else {
            judge_outside(size, new_graphs, new_eager_calls)
        };
        points.push(SweepPoint {
            label: size.label.clone(),
            sizes: size.sizes.clone(),
            inside: size.inside,
            outcome: judged.outcome,
            graph_count: size.graph_count,
            boundary: boundary.map(str::to_owned),
            message: judged.message.clone(),
        });
        if judged.outcome != Outcome::Pass && first_bad.is_none() {
            let message = format!("{}: {}", size.label, judged.message);
            first_bad = Some(Judged { message: crate::outcome::one_line(&message), ..judged });
        }
    }
    // More graphs than one is bad; one for every size is another fault than a range split in two.
    if let Some(judged) = &mut first_bad
        && judged.error_class == NOT_HONOURED
        && counters.sizes_inside > 2
        && counters.graphs_inside >= counters.sizes_inside
    {
        "recompiled-per-size".clone_into(&mut judged.error_class);
    }
    let judged =
        first_bad.or_else(|| judge_completeness(asked, observed)).unwrap_or_else(Judged::pass);
    (judged, points)
}

fn judge_inside(
    size: &SweepObserved,
    (graphs_inside, budget): (u64, u64),
    new_eager_calls: u64,
    comparison: Option<&Result<Comparison, String>>,
) -> Judged {
    if let Some(failure) = &size.failure {
        return judge_failure(failure);
    }
    if new_eager_calls > 0 {
        let message = format!("{new_eager_calls} calls ran outside any compiled graph");
        return Judged::bad(Outcome::Fallback, Stage::Execute, "fallback-eager", message);
    }
    let not_compared = || {
        let message = "this size was executed and not compared";
        Some(Judged::bad(Outcome::Infra, Stage::Compare, "nothing-compared", message))
    };
    if let Some(judged) = comparison.map_or_else(not_compared, judge_comparison) {
        return judged;
    }
    match graphs_inside {
        0 => {
            let message = "nothing was compiled: no graph came out of the tracer";
            Judged::bad(Outcome::Fallback, Stage::Trace, "no-graph", message)
        }
        due if due <= budget => Judged::pass(),
        more => {
            let message = format!("{more} graphs were needed inside the declared bounds");
            Judged::bad(Outcome::Mismatch, Stage::Compile, NOT_HONOURED, message)
        }
    }
}

fn judge_outside(
    size: &SweepObserved,
    new_graphs: u64,
    new_eager_calls: u64,
) -> (Judged, Option<&'static str>) {
    match &size.failure {
        Some(failure) => match failure.kind {
            FailureKind::Error | FailureKind::Unsupported => (Judged::pass(), Some("refused")),
            FailureKind::Mismatch
            | FailureKind::Fallback
            | FailureKind::Oom
            | FailureKind::Skipped
            | FailureKind::Infra
            | FailureKind::HostLimit => (judge_failure(failure), None),
        },
        None if new_graphs > 0 => (Judged::pass(), Some("recompiled")),
        None if new_eager_calls > 0 => {
            let message = format!("{new_eager_calls} calls ran outside any compiled graph");
            (Judged::bad(Outcome::Fallback, Stage::Execute, "fallback-eager", message), None)
        }
        None => {
            let message = "accepted outside the declared bounds, without an error or a new graph";
            let judged =
                Judged::bad(Outcome::Mismatch, Stage::Execute, "bound-not-enforced", message);
            (judged, Some("accepted"))
        }
    }
}

fn judge_completeness(asked: &Asked, observed: &Observed) -> Option<Judged> {
    let (executed, planned) = (observed.sweep.len(), asked.sweep_sizes);
    (executed < planned || planned == 0).then(|| {
        let message = format!("{executed} of {planned} planned sizes were executed");
        Judged::bad(Outcome::Infra, Stage::Execute, "sweep-incomplete", message)
    })
}
