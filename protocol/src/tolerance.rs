//! The closeness rule, in words and numbers. `runner/src/compare/` applies it.

use serde::{Deserialize, Serialize};

/// Two numbers are close when `|actual − expected| ≤ atol + rtol·|expected|`, infinities being
/// compared by equality first and a NaN being close only to a NaN at the same place.
///
/// This is the rule of `numpy.isclose` and `torch.testing.assert_close`. It is *not* the rule of
/// `approx::relative_eq`, which passes on its `epsilon` **or** on its `max_relative` of the larger
/// side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    /// Relative part, scaled by `|expected|`.
    pub rtol: f64,
    /// Absolute part.
    pub atol: f64,
}

impl Tolerance {
    /// Equality.
    pub const EXACT: Self = Self { rtol: 0.0, atol: 0.0 };

    /// The largest `|actual − expected|` that is still close to `expected`.
    ///
    /// Product and sum are rounded separately, as numpy and torch do, so that the border is the
    /// same as theirs to the last bit.
    #[must_use]
    pub fn allowed(self, expected: f64) -> f64 {
        self.atol + self.rtol * expected.abs()
    }
}
