//! Sums whose order is a device's choice, such as that of `index_add`: how much room their number of
//! addends gives to low precision.
//!
//! With `n` addends of order 1 and rounding `u`, partial sums grow as `√n`, so that rounding after
//! each addition leaves an error of about `u·n/√2`, or `u·√(n/2)` of a sum of usual size. So `atol`
//! grows with `n`, and `rtol` with `√n`. In float32 and wider the table has room for such sums
//! already, and nothing grows.

use protocol::Tolerance;
use protocol::worker_link::ToCompare;

use super::elements::{DataType, Kind};

/// Bytes of a number from which on nothing grows.
const WIDE_BYTES: usize = 4;

/// The tolerance for sums of so many addends.
#[expect(clippy::cast_precision_loss, reason = "counts of addends are far below 2^53")]
pub(super) fn grown(tolerance: Tolerance, data_type: DataType, addends: Option<u64>) -> Tolerance {
    let element = data_type.element;
    let is_low = element.kind() == Kind::Float && element.size() < WIDE_BYTES;
    match addends {
        Some(count) if is_low && count > 1 => Tolerance {
            rtol: tolerance.rtol * (count as f64).sqrt(),
            atol: tolerance.atol * count as f64,
        },
        Some(_) | None => tolerance,
    }
}

/// What is worth knowing about such a comparison.
pub(super) fn notes(request: &ToCompare) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(addends) = request.addends {
        notes.push(format!(
            "note: up to {addends} numbers are added up in one place; the tolerance of low \
             precision has grown with them"
        ));
    }
    if let Some(spread) = &request.spread {
        let apart = spread.max_abs.map_or_else(
            || "not all finite".to_owned(),
            |largest| format!("at most {largest} apart"),
        );
        notes.push(format!("note: {} executions on the device are {apart}", spread.repeats));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_grows_with_the_addends_and_in_low_precision_only() {
        let tolerance = Tolerance { rtol: 1e-3, atol: 1e-4 };
        let of =
            |dtype: &str, addends| grown(tolerance, DataType::from_name(dtype).unwrap(), addends);
        assert_eq!(of("float16", None), tolerance);
        assert_eq!(of("float16", Some(1)), tolerance);
        assert_eq!(of("float16", Some(64)), Tolerance { rtol: 8e-3, atol: 6.4e-3 });
        assert_eq!(of("bfloat16", Some(4)), Tolerance { rtol: 2e-3, atol: 4e-4 });
        for wide in ["float32", "float64", "complex64", "int8"] {
            assert_eq!(of(wide, Some(64)), tolerance, "{wide}");
        }
    }
}
