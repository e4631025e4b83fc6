//! The rules by name, and what close means for one pair of numbers.
//!
//! | rule | what is looked at |
//! |---|---|
//! | `close` | structure, shape, dtype, and every element by [`is_close`]; integers exactly |
//! | `exact` | the same with a tolerance of zero |
//! | `gpu-relative` | the same as `close`, or as near to float64 as the golden's device (`relative`) |
//! | `metadata` | structure, shape and dtype only: for outputs whose values mean nothing |
//! | `statistical` | structure, shape, dtype, and the distribution of the values (`statistical`) |

use approx::AbsDiffEq;
use protocol::Tolerance;

protocol::words! {
    /// How two output sets are compared.
    Rule as "rule" {
        /// Every element within the tolerance.
        Close = "close",
        /// Every element equal.
        Exact = "exact",
        /// Every element within the tolerance, or as near to float64 as the expected side is.
        GpuRelative = "gpu-relative",
        /// Structure, shape and dtype only.
        Metadata = "metadata",
        /// The same distribution.
        Statistical = "statistical",
    }
}

/// Whether two real numbers are close: the definition that the vector code must agree with.
///
/// In this order: equal numbers are close, which settles equal infinities and both zeros; a NaN is
/// close to a NaN; any other pair with a non-finite side is not close, however large the tolerance,
/// so that 65504 is never close to infinity; finite pairs are close when
/// `|actual − expected| ≤ atol + rtol·|expected|`.
///
/// Where there is no relative part that is exactly `approx::abs_diff_eq`, which is used. With one it
/// is *not* `approx::relative_eq`, which takes the larger side and either bound instead of the sum.
#[must_use]
pub fn is_close(actual: f64, expected: f64, tolerance: Tolerance) -> bool {
    if actual == expected || (actual.is_nan() && expected.is_nan()) {
        return true;
    }
    if !actual.is_finite() || !expected.is_finite() {
        return false;
    }
    if tolerance.rtol == 0.0 {
        return actual.abs_diff_eq(&expected, tolerance.atol);
    }
    (actual - expected).abs() <= tolerance.allowed(expected)
}

#[cfg(test)]
mod tests {
    use approx::relative_eq;

    use super::*;

    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;

    fn tolerance(rtol: f64, atol: f64) -> Tolerance {
        Tolerance { rtol, atol }
    }

    #[test]
    fn special_values_are_settled_before_any_tolerance() {
        for tolerance in [Tolerance::EXACT, tolerance(1e-3, 1e-3), tolerance(1.0, 1e300)] {
            for (actual, expected, close) in [
                (NAN, NAN, true),
                (NAN, 1.0, false),
                (1.0, NAN, false),
                (NAN, INF, false),
                (INF, INF, true),
                (-INF, -INF, true),
                (-INF, INF, false),
                (65504.0, INF, false),
                (INF, 65504.0, false),
                (0.0, -0.0, true),
                (f64::MAX, f64::MAX, true),
            ] {
                assert_eq!(is_close(actual, expected, tolerance), close, "{actual} {expected}");
            }
        }
    }

    #[test]
    fn the_border_is_inside_and_scales_with_expected() {
        let half = tolerance(0.5, 0.0);
        assert!(is_close(3.0, 2.0, half));
        assert!(!is_close(2.0, 3.0 + f64::EPSILON * 4.0, tolerance(1.0 / 3.0, 0.0)));
        assert!(!is_close(3.0f64.next_up(), 2.0, half));
        assert!(is_close(1.0, 2.0, half));
        assert!(!is_close(2.0, 1.0, half), "the scale is the expected side, not the larger");
        assert!(is_close(1.5, 1.0, tolerance(0.25, 0.25)), "the two parts add up");
    }

    #[test]
    fn the_cells_where_relative_eq_differs_are_ours() {
        // (actual, expected, rtol, atol, ours, approx's)
        for (actual, expected, rtol, atol, ours, theirs) in [
            // The sum of the two parts allows what neither allows alone.
            (1.5, 1.0, 0.25, 0.25, true, false),
            // The larger side is the actual one: approx scales by it.
            (2.0, 1.0, 0.5, 0.0, false, true),
            (-2.0, -1.0, 0.5, 0.0, false, true),
            // Expected zero: only the absolute part counts here, approx scales by the actual.
            (1e-3, 0.0, 1.0, 0.0, false, true),
            // Both NaN at one place are equal here, never there.
            (NAN, NAN, 0.5, 0.5, true, false),
            // And cells where both agree, so that the test would notice a swap.
            (1.0, 2.0, 0.5, 0.0, true, true),
            (INF, INF, 0.5, 0.5, true, true),
            (1.0, INF, 0.5, 0.5, false, false),
        ] {
            let approx = relative_eq!(actual, expected, epsilon = atol, max_relative = rtol);
            assert_eq!(approx, theirs, "approx on {actual} {expected}");
            assert_eq!(is_close(actual, expected, tolerance(rtol, atol)), ours, "ours");
        }
    }

    #[test]
    fn without_a_relative_part_the_rule_is_abs_diff_eq() {
        for (actual, expected) in [(1.0f64, 1.5), (1.0, 1.5000001), (-1.0, -1.5), (0.0, 0.5)] {
            let absolute = tolerance(0.0, 0.5);
            let by_hand = (actual - expected).abs() <= absolute.allowed(expected);
            assert_eq!(is_close(actual, expected, absolute), by_hand);
        }
    }
}
