//! What has been seen of a tensor so far, how parts add up, and the figures at the end.
//!
//! A figure is `None` where it is undefined, never a flattering default: no finite pair has no
//! maximum error, no variance has no correlation.

use protocol::{Figures, Number};

/// One element that is worse than the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Worst {
    pub(super) index: u64,
    pub(super) actual: f64,
    pub(super) expected: f64,
}

/// Everything counted and added up over some elements.
#[derive(Debug, Clone, Default)]
pub(super) struct Summary {
    pub(super) elements: u64,
    pub(super) mismatched: u64,
    pub(super) nonfinite_mismatched: u64,
    /// Elements where expected is NaN and actual is not: the reference itself is in question.
    pub(super) reference_undefined: u64,
    pub(super) sign_of_zero: u64,
    /// Subnormal expected numbers in whose place there is a zero.
    pub(super) flushed: u64,
    /// Elements that are finite on both sides.
    pub(super) finite: u64,
    pub(super) max_abs: Option<f64>,
    pub(super) max_rel: Option<f64>,
    pub(super) squared: f64,
    moments: Moments,
    pub(super) worst_nonfinite: Option<Worst>,
    /// The mismatched finite pair furthest over its allowance, with by how much.
    pub(super) worst_excess: Option<(f64, Worst)>,
    /// The finite pair furthest apart, with how far.
    pub(super) worst_abs: Option<(f64, Worst)>,
}

/// Means and centred second moments of both sides, over real numbers or parts of complex ones.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    pub(super) count: u64,
    pub(super) mean_a: f64,
    pub(super) mean_e: f64,
    pub(super) saa: f64,
    pub(super) see: f64,
    pub(super) sae: f64,
    pub(super) min_a: f64,
    pub(super) max_a: f64,
    pub(super) min_e: f64,
    pub(super) max_e: f64,
}

impl Moments {
    /// Chan's formula for the moments of two parts together.
    #[expect(clippy::cast_precision_loss, reason = "counts of elements are far below 2^53")]
    fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let count = self.count + other.count;
        let part = other.count as f64 / count as f64;
        let weight = self.count as f64 * part;
        let (step_a, step_e) = (other.mean_a - self.mean_a, other.mean_e - self.mean_e);
        self.saa += other.saa + step_a * step_a * weight;
        self.see += other.see + step_e * step_e * weight;
        self.sae += other.sae + step_a * step_e * weight;
        self.mean_a += step_a * part;
        self.mean_e += step_e * part;
        self.min_a = self.min_a.min(other.min_a);
        self.max_a = self.max_a.max(other.max_a);
        self.min_e = self.min_e.min(other.min_e);
        self.max_e = self.max_e.max(other.max_e);
        self.count = count;
    }

    /// Pearson correlation. A side whose values are all the same has no variance, whatever
    /// rounding makes of its sum of squares.
    fn correlation(&self) -> Option<f64> {
        if self.count < 2 || self.min_a == self.max_a || self.min_e == self.max_e {
            return None;
        }
        ratio(self.sae, self.saa, self.see)
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of elements are far below 2^53")]
    fn cosine(&self) -> Option<f64> {
        let count = self.count as f64;
        ratio(
            self.sae + count * self.mean_a * self.mean_e,
            self.saa + count * self.mean_a * self.mean_a,
            self.see + count * self.mean_e * self.mean_e,
        )
    }
}

/// `product / √(left·right)`, where that is a number, inside −1..1.
fn ratio(product: f64, left: f64, right: f64) -> Option<f64> {
    let value = product / (left.sqrt() * right.sqrt());
    value.is_finite().then(|| value.clamp(-1.0, 1.0))
}

/// The larger of two figures that may be absent.
fn larger(left: Option<f64>, right: Option<f64>) -> Option<f64> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.max(right)),
        (left, right) => left.or(right),
    }
}

/// The worse of two, the earlier where they are equally bad.
fn worse(left: Option<(f64, Worst)>, right: Option<(f64, Worst)>) -> Option<(f64, Worst)> {
    match (left, right) {
        (Some(left), Some(right)) => Some(if right.0 > left.0 { right } else { left }),
        (left, right) => left.or(right),
    }
}

impl Summary {
    /// Adds the moments of some more numbers.
    pub(super) fn add_moments(&mut self, moments: &Moments) {
        self.moments.merge(moments);
    }

    /// Notes a pair of finite elements at this distance.
    pub(super) fn note_distance(&mut self, distance: f64, relative: Option<f64>) {
        self.max_abs = larger(self.max_abs, Some(distance));
        self.max_rel = larger(self.max_rel, relative);
    }

    /// Notes a finite pair that may be the worst.
    pub(super) fn note_worst(&mut self, distance: f64, excess: f64, worst: Worst) {
        if distance > 0.0 {
            self.worst_abs = worse(self.worst_abs, Some((distance, worst)));
        }
        if excess > 0.0 {
            self.worst_excess = worse(self.worst_excess, Some((excess, worst)));
        }
    }

    /// Adds a later part of the same tensor.
    pub(super) fn merge(&mut self, later: &Self) {
        self.elements += later.elements;
        self.mismatched += later.mismatched;
        self.nonfinite_mismatched += later.nonfinite_mismatched;
        self.reference_undefined += later.reference_undefined;
        self.sign_of_zero += later.sign_of_zero;
        self.flushed += later.flushed;
        self.finite += later.finite;
        self.max_abs = larger(self.max_abs, later.max_abs);
        self.max_rel = larger(self.max_rel, later.max_rel);
        self.squared += later.squared;
        self.moments.merge(&later.moments);
        self.worst_nonfinite = self.worst_nonfinite.or(later.worst_nonfinite);
        self.worst_excess = worse(self.worst_excess, later.worst_excess);
        self.worst_abs = worse(self.worst_abs, later.worst_abs);
    }

    /// The worst element: a wrong non-finite value before any finite one, then what is furthest
    /// over its allowance, then, where all are close, what is furthest apart.
    fn worst(&self) -> Option<Worst> {
        self.worst_nonfinite
            .or(self.worst_excess.map(|(_, worst)| worst))
            .or(self.worst_abs.map(|(_, worst)| worst))
    }

    /// The figures that need nothing but this summary.
    #[expect(clippy::cast_precision_loss, reason = "counts of elements are far below 2^53")]
    pub(super) fn figures(&self, shape: &[u64]) -> Figures {
        let number = |value: Option<f64>| value.map(Number);
        let worst = self.worst();
        Figures {
            elements: self.elements,
            mismatched: self.mismatched,
            nonfinite_mismatched: self.nonfinite_mismatched,
            sign_of_zero: self.sign_of_zero,
            max_abs_error: number(self.max_abs),
            max_rel_error: number(self.max_rel),
            rmse: (self.finite > 0).then(|| Number((self.squared / self.finite as f64).sqrt())),
            pcc: number(self.moments.correlation()),
            cosine: number(self.moments.cosine()),
            worst_index: worst.map(|worst| multi_index(worst.index, shape)),
            worst_actual: worst.map(|worst| Number(worst.actual)),
            worst_expected: worst.map(|worst| Number(worst.expected)),
            ..Figures::default()
        }
    }
}

/// Place of the element at `flat` in row-major order.
pub(super) fn multi_index(mut flat: u64, shape: &[u64]) -> Vec<u64> {
    let mut index = vec![0; shape.len()];
    for (place, length) in index.iter_mut().zip(shape).rev() {
        *place = flat % length.max(&1);
        flat /= length.max(&1);
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_place_becomes_an_index() {
        assert_eq!(multi_index(0, &[]), [0u64; 0]);
        assert_eq!(multi_index(5, &[6]), [5]);
        assert_eq!(multi_index(23, &[2, 3, 4]), [1, 2, 3]);
        assert_eq!(multi_index(4, &[2, 3, 1]), [1, 1, 0]);
    }
}
