//! Integers and bool: exact, without wrap. Differences are made in 128 bits, so that `uint8` 0 and
//! 1 are 1 apart both ways, and the ends of `int64` are 2⁶⁴ − 1 apart and not −1.

use std::ops::Range;

use super::figures::{Summary, Worst};
use super::kernel::pass;
use super::tensors::Pair;

const CHUNK: usize = 1024;

/// Looks at the elements of `range`. Both sides are integers or bool.
pub(super) fn scan(pair: &Pair<'_>, range: Range<usize>, summary: &mut Summary) {
    let (mut actual, mut expected) = ([0.0; CHUNK], [0.0; CHUNK]);
    for start in range.clone().step_by(CHUNK) {
        let length = CHUNK.min(range.end - start);
        let bytes = (pair.actual.part(start, length), pair.expected.part(start, length));
        pair.actual.element.widen(bytes.0, &mut actual[..length]);
        pair.expected.element.widen(bytes.1, &mut expected[..length]);
        // Moments come from the widened numbers; everything that decides comes from the integers.
        let pass = pass(&actual[..length], &expected[..length], pair.tolerance, 0.0);
        summary.elements += length as u64;
        summary.finite += length as u64;
        summary.add_moments(&pass.moments);
        if pair.actual.element == pair.expected.element && bytes.0 == bytes.1 {
            let any = expected[..length].iter().any(|value| *value != 0.0);
            summary.note_distance(0.0, any.then_some(0.0));
            continue;
        }
        for position in 0..length {
            one(pair, start + position, summary);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure; the decision is made before")]
fn one(pair: &Pair<'_>, at: usize, summary: &mut Summary) {
    let integer = |side: &super::tensors::Side<'_>| {
        side.element.integer(side.part(at, 1)).expect("both sides are integers")
    };
    let (actual, expected) = (integer(&pair.actual), integer(&pair.expected));
    let difference = actual.abs_diff(expected);
    let distance = difference as f64;
    let magnitude = expected.unsigned_abs() as f64;
    let allowed = pair.tolerance.allowed(magnitude);
    summary.squared += distance * distance;
    summary.note_distance(distance, (expected != 0).then(|| distance / magnitude));
    if difference == 0 {
        return;
    }
    // A difference that is not zero is over an allowance of zero even if it were lost in rounding.
    let excess = if allowed == 0.0 { distance } else { distance - allowed };
    summary.mismatched += u64::from(excess > 0.0);
    let worst = Worst { index: at as u64, actual: actual as f64, expected: expected as f64 };
    summary.note_worst(distance, excess, worst);
}
