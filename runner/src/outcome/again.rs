//! What is worth executing again, and what a breadcrumb adds to what is known.

use protocol::ingest_api::Attempt;
use protocol::{Evidence, Outcome};

use super::Judged;
use crate::worker::breadcrumb::Crumb;

/// What the error classes of [`Ending::NoGolden`] begin with.
const NO_GOLDEN: &str = "golden-";
/// Error class of a worker that makes other weights or inputs than the golden was recorded with.
const STALE_GOLDEN: &str = "StaleGoldenError";

/// Whether another attempt of the case, in a fresh process, can tell more.
#[must_use]
pub fn is_worth_another(attempt: &Attempt) -> bool {
    // A golden does not appear by trying again.
    let lacks_golden =
        attempt.error_class.starts_with(NO_GOLDEN) || attempt.error_class == STALE_GOLDEN;
    is_retryable(attempt.outcome) && !lacks_golden
}

/// Whether an outcome may be another one in a fresh process.
#[must_use]
pub const fn is_retryable(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Mismatch
        | Outcome::Error
        | Outcome::Fallback
        | Outcome::Crash
        | Outcome::Timeout
        | Outcome::Oom
        | Outcome::Infra => true,
        Outcome::Pass | Outcome::Unsupported | Outcome::Skipped | Outcome::HostLimit => false,
    }
}

/// Whether a case that ended so may have done it for what was executed before it. Memory and time
/// run out by degrees, which no single case is to blame for.
#[must_use]
pub const fn may_depend_on_order(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Mismatch | Outcome::Error | Outcome::Fallback | Outcome::Crash => true,
        Outcome::Pass
        | Outcome::Unsupported
        | Outcome::Timeout
        | Outcome::Oom
        | Outcome::Skipped
        | Outcome::Infra
        | Outcome::HostLimit => false,
    }
}

/// Whether an execution one operator at a time may name the operator to blame.
#[must_use]
pub const fn wants_breadcrumb(judged: &Judged) -> bool {
    match judged.outcome {
        Outcome::Crash | Outcome::Timeout | Outcome::Error => judged.operator.is_none(),
        Outcome::Pass
        | Outcome::Mismatch
        | Outcome::Unsupported
        | Outcome::Fallback
        | Outcome::Oom
        | Outcome::Skipped
        | Outcome::Infra
        | Outcome::HostLimit => false,
    }
}

/// Names the operator that a worker was inside of when it ended, or that an exception left through.
/// An error that names one knows better; what a killed worker was at is not to blame for it.
pub fn apply_crumb(crumb: &Crumb, judged: &mut Judged, evidence: &mut Evidence) {
    let (named, blamed) = match judged.outcome {
        Outcome::Crash | Outcome::Timeout | Outcome::Oom | Outcome::Error => (true, true),
        Outcome::Infra | Outcome::HostLimit => (true, false),
        Outcome::Pass
        | Outcome::Mismatch
        | Outcome::Unsupported
        | Outcome::Fallback
        | Outcome::Skipped => (false, false),
    };
    if !named || evidence.last_operator.is_some() {
        return;
    }
    if blamed && !crumb.left && judged.operator.is_none() {
        judged.operator = Some(crumb.outermost.clone());
    }
    if crumb.innermost != crumb.outermost {
        let (outermost, innermost) = (&crumb.outermost, &crumb.innermost);
        evidence.notes.push(format!("inside of `{outermost}` it had got to `{innermost}`"));
    }
    evidence.last_operator = Some(protocol::evidence::LastOperator {
        overload: crumb.outermost.clone(),
        source: if crumb.left { "entered-last" } else { "breadcrumb" }.to_owned(),
    });
}
