//! Sums of a chunk of [`narrow`](super), of which correlation and the like are made.

use std::ops::Add as _;

use super::{LANES, Lanes, fold};
use crate::compare::figures::Moments;

/// How much larger the correction of a sum of squares may be than what is left of it: ten bits are
/// lost at most.
const MOST_CANCELLED: f64 = 1024.0;

/// Sums in float64, by lanes: of expected numbers, from a pivot near their mean, and of how far the
/// actual ones are from them, of which those of the actual ones are made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sums {
    pub(super) pivot: f64,
    pub(super) expected: Lanes<f64>,
    pub(super) expected_squared: Lanes<f64>,
    pub(super) distance: Lanes<f64>,
    pub(super) distance_squared: Lanes<f64>,
    pub(super) product: Lanes<f64>,
}

impl Sums {
    /// No sums yet.
    #[inline(always)]
    pub(super) fn about(pivot: f64) -> Self {
        Self {
            pivot,
            expected: [0.0; LANES],
            expected_squared: [0.0; LANES],
            distance: [0.0; LANES],
            distance_squared: [0.0; LANES],
            product: [0.0; LANES],
        }
    }

    #[inline(always)]
    pub(super) fn add(&mut self, i: usize, a: f64, e: f64) {
        let (distance, e) = (a - e, e - self.pivot);
        self.expected[i] += e;
        self.expected_squared[i] = e.mul_add(e, self.expected_squared[i]);
        self.distance[i] += distance;
        self.distance_squared[i] = distance.mul_add(distance, self.distance_squared[i]);
        self.product[i] = e.mul_add(distance, self.product[i]);
    }

    /// Nothing where squares cancel: the pivot turns out too far from the mean, or one side is nearly
    /// the same number throughout, or a long way from the other.
    #[expect(clippy::cast_precision_loss, reason = "at most the length of a chunk")]
    pub(super) fn moments(&self, length: usize) -> Option<Moments> {
        let count = length as f64;
        let total = |lanes: Lanes<f64>| fold(lanes, f64::add);
        let (expected, distance) = (total(self.expected), total(self.distance));
        let (squares, distances) = (total(self.expected_squared), total(self.distance_squared));
        let see = squares - expected * expected / count;
        let between = total(self.product) - expected * distance / count;
        let saa = see + 2.0 * between + (distances - distance * distance / count);
        let are_right =
            squares <= MOST_CANCELLED * see && squares + distances <= MOST_CANCELLED * saa;
        let mean_e = self.pivot + expected / count;
        // All are the pivot exactly when nothing is added up.
        let (same_e, same_a) = (squares == 0.0, squares + distances == 0.0);
        let range = |same: bool| if same { (self.pivot, self.pivot) } else { UNKNOWN_RANGE };
        are_right.then(|| Moments {
            count: length as u64,
            mean_a: mean_e + distance / count,
            mean_e,
            saa,
            see,
            sae: see + between,
            min_a: range(same_a).0,
            max_a: range(same_a).1,
            min_e: range(same_e).0,
            max_e: range(same_e).1,
        })
    }
}

/// Of a range it is only ever asked whether all numbers are the same.
const UNKNOWN_RANGE: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
