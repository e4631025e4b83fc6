//! Sums of a chunk of [`narrow`](super::narrow), of which correlation and the like are made.

use std::ops::Add as _;

use super::figures::Moments;
use super::narrow::{LANES, Lanes, Vectors, fold, in_lanes};
#[cfg(target_arch = "x86_64")]
use super::narrow_avx2 as avx2;
#[cfg(target_arch = "x86_64")]
use super::narrow_avx512 as avx512;

/// How much larger the correction of a sum of squares may be than what is left of it: ten bits are
/// lost at most.
const MOST_CANCELLED: f64 = 1024.0;

/// Sums in float64, by lanes, of distances from a pivot near the mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sums {
    pub(super) pivot: (f64, f64),
    pub(super) actual: Lanes<f64>,
    pub(super) expected: Lanes<f64>,
    pub(super) actual_squared: Lanes<f64>,
    pub(super) expected_squared: Lanes<f64>,
    pub(super) product: Lanes<f64>,
    pub(super) squared: Lanes<f64>,
}

impl Sums {
    #[inline(always)]
    pub(super) fn of(actual: &[f32], expected: &[f32], vectors: Vectors) -> Self {
        let mut sums = Self {
            pivot: (f64::from(actual[0]), f64::from(expected[0])),
            actual: [0.0; LANES],
            expected: [0.0; LANES],
            actual_squared: [0.0; LANES],
            expected_squared: [0.0; LANES],
            product: [0.0; LANES],
            squared: [0.0; LANES],
        };
        let (actual, expected) = match vectors {
            Vectors::None => (actual, expected),
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2 => {
                #[expect(unsafe_code, reason = "the processor has been asked")]
                // SAFETY: only who has found AVX2 says so.
                unsafe {
                    avx2::sum(actual, expected, &mut sums)
                }
            }
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx512 => {
                #[expect(unsafe_code, reason = "the processor has been asked")]
                // SAFETY: only who has found AVX-512 says so.
                unsafe {
                    avx512::sum(actual, expected, &mut sums)
                }
            }
        };
        in_lanes(actual, expected, |i, a, e| sums.add(i, f64::from(a), f64::from(e)));
        sums
    }

    #[inline(always)]
    fn add(&mut self, i: usize, a: f64, e: f64) {
        let distance = a - e;
        let (a, e) = (a - self.pivot.0, e - self.pivot.1);
        self.actual[i] += a;
        self.expected[i] += e;
        self.actual_squared[i] = a.mul_add(a, self.actual_squared[i]);
        self.expected_squared[i] = e.mul_add(e, self.expected_squared[i]);
        self.product[i] = a.mul_add(e, self.product[i]);
        self.squared[i] = distance.mul_add(distance, self.squared[i]);
    }

    /// Nothing where the pivot turns out too far from the mean for the squares to be right.
    #[expect(clippy::cast_precision_loss, reason = "at most the length of a chunk")]
    pub(super) fn moments(&self, length: usize) -> Option<Moments> {
        let count = length as f64;
        let side = |pivot: f64, sums: Lanes<f64>, squares: Lanes<f64>| {
            let (sum, squares) = (fold(sums, f64::add), fold(squares, f64::add));
            let correction = sum * sum / count;
            let left = squares - correction;
            (correction <= MOST_CANCELLED * left).then_some(Centred {
                sum,
                mean: pivot + sum / count,
                squares: left,
                // All are the pivot exactly when nothing is added up.
                range: if squares == 0.0 { (pivot, pivot) } else { UNKNOWN_RANGE },
            })
        };
        let a = side(self.pivot.0, self.actual, self.actual_squared)?;
        let e = side(self.pivot.1, self.expected, self.expected_squared)?;
        Some(Moments {
            count: length as u64,
            mean_a: a.mean,
            mean_e: e.mean,
            saa: a.squares,
            see: e.squares,
            sae: fold(self.product, f64::add) - a.sum * e.sum / count,
            min_a: a.range.0,
            max_a: a.range.1,
            min_e: e.range.0,
            max_e: e.range.1,
        })
    }
}

/// One side's sums, centred.
struct Centred {
    sum: f64,
    mean: f64,
    squares: f64,
    range: (f64, f64),
}

/// Of a range it is only ever asked whether all numbers are the same.
const UNKNOWN_RANGE: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
