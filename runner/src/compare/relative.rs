//! `gpu-relative`: as near to float64 as the device of the golden.
//!
//! Two correct devices differ by the order in which they add, and by how they multiply. Whose result
//! is better is told by one that both approximate: the same model in float64. With `a` the device
//! under test, `g` the golden and `w` the float64 outputs, values that are not close still hold when
//!
//! - `rmse(a, w) ≤ factor · max(rmse(g, w), unit/2 · rms(w))`, and
//! - `max|a − w| ≤ max_factor · max(max|g − w|, unit · max|w|)`, and
//! - the golden is fit to be a measure: `rmse(g, w) ≤ fit · rms(w)`, and
//! - all three are finite at the same places, with the same signs of infinity.
//!
//! The second terms are what rounding to the dtype alone may cost: without them a golden that
//! happens to be exact would demand the impossible. The cap on the largest error is what an average
//! hides: one wrong row in a thousand. Pure but for reading the tensors.

use protocol::Tolerance;
use serde::Deserialize;

use super::float::Scratch;
use super::tensors::{Pair, Side};

/// How far from float64 is as good as the golden; of one dtype.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Of the golden's root mean square error.
    pub factor: f64,
    /// Of the golden's largest error.
    pub max_factor: f64,
    /// Spacing of neighbouring numbers of the dtype, relative.
    pub unit: f64,
    /// Most root mean square error of a golden, as a part of the scale of the outputs.
    pub fit: f64,
    /// Why these.
    pub reason: String,
}

impl Limits {
    /// What is wrong with them.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let sane = |value: f64| value.is_finite() && value > 0.0;
        if ![self.factor, self.max_factor, self.unit, self.fit].into_iter().all(sane) {
            return Err("every limit is a number above 0");
        }
        if self.factor < 1.0 || self.max_factor < 1.0 {
            return Err("a factor below 1 refuses the golden itself");
        }
        if self.reason.trim().is_empty() {
            return Err("it has no reason");
        }
        Ok(())
    }
}

/// Both sides measured against float64.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Root mean square error of the device under test.
    pub actual_rmse: f64,
    /// The same of the golden.
    pub golden_rmse: f64,
    /// Largest error of the device under test.
    pub actual_max: f64,
    /// The same of the golden.
    pub golden_max: f64,
    /// Root mean square of the float64 outputs.
    pub scale: f64,
    /// The largest of their magnitudes.
    pub largest: f64,
    /// Elements that are finite on one side only, or infinite with another sign, of any two of the
    /// three.
    pub nonfinite_mismatched: u64,
}

impl Measured {
    /// The figures in words.
    #[must_use]
    pub fn describe(&self) -> String {
        format!(
            "RMSE to float64 {:.3e}, the golden's {:.3e}; largest error {:.3e}, the golden's {:.3e}",
            self.actual_rmse, self.golden_rmse, self.actual_max, self.golden_max
        )
    }
}

/// Why values are not as good as the golden.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum RelativeFailure {
    /// Not finite at the same places.
    #[error("not as good as the golden: {0} elements are finite on one side only")]
    NonFinite(u64),
    /// The golden itself is too far from float64 for anything to be measured by it.
    #[error("the golden is unfit as a measure: it is off by more than {0:.3e} itself")]
    UnfitGolden(f64),
    /// The average error.
    #[error("not as good as the golden: RMSE above {0:.3e}")]
    Average(f64),
    /// The largest error.
    #[error("not as good as the golden: largest error above {0:.3e}")]
    Largest(f64),
}

/// Whether the device under test is as near to float64 as the golden. A figure that is no number
/// never passes.
///
/// # Errors
///
/// The first limit that does not hold.
pub fn judge(measured: &Measured, limits: &Limits) -> Result<(), RelativeFailure> {
    if measured.nonfinite_mismatched > 0 {
        return Err(RelativeFailure::NonFinite(measured.nonfinite_mismatched));
    }
    // False where either is no number.
    let within = |value: f64, limit: f64| value <= limit;
    let fit = limits.fit * measured.scale;
    if !within(measured.golden_rmse, fit) {
        return Err(RelativeFailure::UnfitGolden(fit));
    }
    let rounding = limits.unit / 2.0 * measured.scale;
    let average = limits.factor * measured.golden_rmse.max(rounding);
    if !within(measured.actual_rmse, average) {
        return Err(RelativeFailure::Average(average));
    }
    let rounding = limits.unit * measured.largest;
    let largest = limits.max_factor * measured.golden_max.max(rounding);
    if !within(measured.actual_max, largest) {
        return Err(RelativeFailure::Largest(largest));
    }
    Ok(())
}

/// Measures both sides of a pair against the float64 outputs of the same shape.
pub(super) fn measure(
    pair: &Pair<'_>,
    wide: Side<'_>,
    shape: &[u64],
    scratch: &mut Scratch,
) -> Measured {
    let tolerance = Tolerance::EXACT;
    let mut figures = |actual| {
        let pair =
            Pair { actual, expected: wide, complex: pair.complex, tolerance, flushes: false };
        pair.compare(shape, scratch).figures
    };
    let between = figures(pair.actual);
    let golden = figures(pair.expected);
    let number = |value: Option<protocol::Number>| value.map_or(f64::NAN, |number| number.0);
    let (scale, largest) = scale_of(wide);
    Measured {
        actual_rmse: number(between.rmse),
        golden_rmse: number(golden.rmse),
        actual_max: number(between.max_abs_error),
        golden_max: number(golden.max_abs_error),
        scale,
        largest,
        nonfinite_mismatched: between.nonfinite_mismatched + golden.nonfinite_mismatched,
    }
}

/// Root mean square and largest magnitude of the finite numbers; NaN where there are none.
#[expect(clippy::cast_precision_loss, reason = "counts of elements are far below 2^53")]
fn scale_of(side: Side<'_>) -> (f64, f64) {
    let numbers = side.bytes.len() / side.element.size();
    let mut buffer = [0.0; 1024];
    let (mut squared, mut largest, mut finite) = (0.0, 0.0f64, 0u64);
    for start in (0..numbers).step_by(buffer.len()) {
        let part = &mut buffer[..numbers.min(start + 1024) - start];
        side.element.widen(side.part(start, part.len()), part);
        for number in part.iter().filter(|number| number.is_finite()) {
            squared += number * number;
            largest = largest.max(number.abs());
            finite += 1;
        }
    }
    if finite == 0 { (f64::NAN, f64::NAN) } else { ((squared / finite as f64).sqrt(), largest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        let reason = "a test".to_owned();
        Limits { factor: 2.0, max_factor: 4.0, unit: 1e-3, fit: 0.1, reason }
    }

    fn measured(actual_rmse: f64, golden_rmse: f64) -> Measured {
        Measured {
            actual_rmse,
            golden_rmse,
            actual_max: actual_rmse,
            golden_max: golden_rmse,
            scale: 1.0,
            largest: 1.0,
            nonfinite_mismatched: 0,
        }
    }

    #[test]
    fn every_limit_counts_and_its_border_is_inside() {
        use RelativeFailure::{Average, Largest, NonFinite, UnfitGolden};
        let of = |change: fn(&mut Measured)| {
            let mut measured = measured(0.02, 0.01);
            change(&mut measured);
            judge(&measured, &limits())
        };
        assert_eq!(of(|_| ()), Ok(()));
        assert_eq!(of(|m| m.actual_rmse = 0.0201), Err(Average(0.02)));
        assert_eq!(of(|m| m.actual_max = 0.04), Ok(()));
        assert_eq!(of(|m| m.actual_max = 0.0401), Err(Largest(0.04)));
        assert_eq!(of(|m| m.nonfinite_mismatched = 1), Err(NonFinite(1)));
        assert_eq!(of(|m| m.golden_rmse = 0.11), Err(UnfitGolden(0.1)));
        assert_eq!(of(|m| m.golden_rmse = 0.1), Ok(()));
    }

    #[test]
    fn a_better_device_passes_and_an_exact_golden_allows_rounding() {
        assert_eq!(judge(&measured(0.0, 0.01), &limits()), Ok(()));
        // factor · unit/2 · scale, with a golden that is exact.
        assert_eq!(judge(&measured(1e-3, 0.0), &limits()), Ok(()));
        assert!(judge(&measured(1.01e-3, 0.0), &limits()).is_err());
        assert!(
            judge(&Measured { scale: 0.0, largest: 0.0, ..measured(1e-9, 0.0) }, &limits())
                .is_err()
        );
    }

    #[test]
    fn what_is_no_number_never_passes() {
        for spoil in [
            |m: &mut Measured| m.actual_rmse = f64::NAN,
            |m: &mut Measured| m.golden_rmse = f64::NAN,
            |m: &mut Measured| m.actual_max = f64::NAN,
            |m: &mut Measured| m.scale = f64::NAN,
            |m: &mut Measured| m.actual_rmse = f64::INFINITY,
            |m: &mut Measured| m.golden_rmse = f64::INFINITY,
        ] {
            let mut measured = measured(0.01, 0.01);
            spoil(&mut measured);
            assert!(judge(&measured, &limits()).is_err(), "{measured:?}");
        }
    }

    #[test]
    fn limits_that_refuse_the_golden_or_say_no_reason_are_none() {
        let bad = |change: fn(&mut Limits)| {
            let mut limits = limits();
            change(&mut limits);
            limits.check().is_err()
        };
        assert!(limits().check().is_ok());
        assert!(bad(|l| l.factor = 0.5) && bad(|l| l.max_factor = f64::INFINITY));
        assert!(bad(|l| l.unit = 0.0) && bad(|l| l.fit = f64::NAN) && bad(|l| l.reason.clear()));
    }
}
