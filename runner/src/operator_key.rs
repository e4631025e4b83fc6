//! The keys of operator cases, and the cases that keys name.

use protocol::worker_link::OperatorCase;
use protocol::{CaseKey, Direction, Mode, Suite, Variant};

use crate::Error;
use crate::plan::key;

/// What an operator subject begins with: an entry of the operator database, unless the entry says
/// itself what it is, as modules do.
const ENTRY: &str = "opinfo:";
const MODULE: &str = "module:";
/// Before the number of inputs that must be refused.
const ERROR_INPUT: &str = "error";

/// `opinfo:entry#number`, `opinfo:entry#error0`, `module:nn.Conv2d#0`.
fn operator_subject(case: &OperatorCase) -> String {
    let source = if case.entry.starts_with(MODULE) { "" } else { ENTRY };
    let error = if case.error_input { ERROR_INPUT } else { "" };
    format!("{source}{}#{error}{}", case.entry, case.sample)
}

/// How far the case goes.
pub(crate) fn direction_of(case: &OperatorCase) -> Direction {
    if case.train { Direction::Train } else { Direction::Forward }
}

/// The key of an operator case in a mode.
pub(crate) fn operator_key(case: &OperatorCase, mode: Mode) -> Result<CaseKey, Error> {
    let variant = Variant {
        dtype: case.dtype,
        mode,
        direction: direction_of(case),
        layout: Some(case.layout.clone()).filter(|layout| !layout.is_empty()),
    };
    key(Suite::Operators, &operator_subject(case), &variant)
}

/// The operator case that a key names; the inverse of planning it.
#[must_use]
pub fn operator_case(key: &CaseKey) -> Option<OperatorCase> {
    if key.suite() != Suite::Operators {
        return None;
    }
    let (subject, sample) = key.subject().rsplit_once('#')?;
    let entry = match subject.strip_prefix(ENTRY) {
        Some(entry) => entry,
        None if subject.starts_with(MODULE) => subject,
        None => return None,
    };
    let (sample, error_input) =
        sample.strip_prefix(ERROR_INPUT).map_or((sample, false), |number| (number, true));
    let variant = key.planned_variant();
    Some(OperatorCase {
        entry: entry.to_owned(),
        dtype: variant.dtype,
        sample: sample.parse().ok()?,
        train: variant.direction == Direction::Train,
        layout: variant.layout.unwrap_or_default(),
        error_input,
    })
}
