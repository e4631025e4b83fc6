//! Passes over two slices of finite numbers that lie in the first-level cache.
//!
//! Compilers do not make vector code of a floating-point sum or maximum, whose order they must keep.
//! So each figure is kept in [`LANES`] lanes, enough of them that the loop over the lanes stays a
//! loop, of which vector code is made. At the end lanes are folded, half onto half. The order is
//! fixed: the same slices give the same figures on every machine.

use protocol::Tolerance;

use super::figures::Moments;

/// What the passes find.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    /// Pairs further apart than allowed.
    pub(super) over: u64,
    /// Largest `|a − e| − allowed`; positive exactly when `over` is.
    pub(super) max_excess: f64,
    /// Largest `|a − e|`.
    pub(super) max_abs: f64,
    /// Largest `|a − e| / |e|` where `e ≠ 0`, if there is any.
    pub(super) max_rel: Option<f64>,
    /// Sum of `(a − e)²`.
    pub(super) squared: f64,
    /// Pairs of zeros of different signs.
    pub(super) zero_signs: u64,
    /// Pairs of a zero and a subnormal `e`.
    pub(super) flushed: u64,
    pub(super) moments: Moments,
}

/// Lanes of each figure.
const LANES: usize = 128;
type Lanes = [f64; LANES];

/// Whether all are finite, without stopping early.
#[inline(always)]
pub(super) fn all_finite(values: &[f64]) -> bool {
    let (groups, rest) = values.as_chunks::<8>();
    let mut lanes = [0.0f64; 8];
    for group in groups {
        for (lane, value) in lanes.iter_mut().zip(group) {
            // 0·x is NaN for every non-finite x and ±0 for all others.
            *lane += value * 0.0;
        }
    }
    lanes.iter().chain(rest).all(|value| (value * 0.0) == 0.0)
}

/// Looks at all pairs. The slices are of one length, not empty, and finite. Magnitudes below
/// `smallest_normal` are subnormal.
#[inline(always)]
pub(super) fn pass(a: &[f64], e: &[f64], tolerance: Tolerance, smallest_normal: f64) -> Pass {
    let count = a.len() as f64;
    let errors = Errors::of(a, e, tolerance);
    let (range_a, range_e) = (Range::of(a), Range::of(e));
    let (mean_a, mean_e) = (range_a.sum / count, range_e.sum / count);
    let (saa, see, sae) = centred(a, e, mean_a, mean_e);
    let (zero_signs, flushed) =
        if range_a.zeros > 0.0 { zero_pairs(a, e, smallest_normal) } else { (0, 0) };
    let any_divisor = range_e.min != 0.0 || range_e.max != 0.0;
    Pass {
        over: whole(errors.over),
        max_excess: errors.max_excess,
        max_abs: errors.max_abs,
        max_rel: any_divisor.then(|| relative(a, e, errors.max_abs)),
        squared: errors.squared,
        zero_signs,
        flushed,
        moments: Moments {
            count: a.len() as u64,
            mean_a,
            mean_e,
            saa,
            see,
            sae,
            min_a: range_a.min,
            max_a: range_a.max,
            min_e: range_e.min,
            max_e: range_e.max,
        },
    }
}

/// Figures of the differences.
#[derive(Clone, Copy)]
struct Errors {
    /// A count, as a number so that its lanes are as wide as the others.
    over: f64,
    max_excess: f64,
    max_abs: f64,
    squared: f64,
}

impl Errors {
    const NONE: Self =
        Self { over: 0.0, max_excess: f64::NEG_INFINITY, max_abs: 0.0, squared: 0.0 };

    #[inline(always)]
    fn of(a: &[f64], e: &[f64], tolerance: Tolerance) -> Self {
        let (groups_a, rest_a) = a.as_chunks::<LANES>();
        let (groups_e, rest_e) = e.as_chunks::<LANES>();
        let mut total = Self::NONE;
        if !groups_a.is_empty() {
            let mut over: Lanes = [0.0; LANES];
            let mut max_excess: Lanes = [f64::NEG_INFINITY; LANES];
            let mut max_abs: Lanes = [0.0; LANES];
            let mut squared: Lanes = [0.0; LANES];
            for (a, e) in groups_a.iter().zip(groups_e) {
                for i in 0..LANES {
                    let distance = (a[i] - e[i]).abs();
                    let excess = distance - tolerance.allowed(e[i]);
                    over[i] += if excess > 0.0 { 1.0 } else { 0.0 };
                    max_excess[i] = larger(max_excess[i], excess);
                    max_abs[i] = larger(max_abs[i], distance);
                    squared[i] += distance * distance;
                }
            }
            total = Self {
                over: fold(over, add),
                max_excess: fold(max_excess, larger),
                max_abs: fold(max_abs, larger),
                squared: fold(squared, add),
            };
        }
        for (a, e) in rest_a.iter().zip(rest_e) {
            let distance = (a - e).abs();
            let excess = distance - tolerance.allowed(*e);
            total.over += if excess > 0.0 { 1.0 } else { 0.0 };
            total.max_excess = larger(total.max_excess, excess);
            total.max_abs = larger(total.max_abs, distance);
            total.squared += distance * distance;
        }
        total
    }
}

/// Figures of one side.
#[derive(Clone, Copy)]
struct Range {
    sum: f64,
    min: f64,
    max: f64,
    /// A count.
    zeros: f64,
}

impl Range {
    const NONE: Self = Self { sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY, zeros: 0.0 };

    #[inline(always)]
    fn of(values: &[f64]) -> Self {
        let (groups, rest) = values.as_chunks::<LANES>();
        let mut total = Self::NONE;
        if !groups.is_empty() {
            let (mut sum, mut zeros): (Lanes, Lanes) = ([0.0; LANES], [0.0; LANES]);
            let (mut min, mut max) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
            for group in groups {
                for i in 0..LANES {
                    sum[i] += group[i];
                    zeros[i] += if group[i] == 0.0 { 1.0 } else { 0.0 };
                    min[i] = smaller(min[i], group[i]);
                    max[i] = larger(max[i], group[i]);
                }
            }
            total = Self {
                sum: fold(sum, add),
                min: fold(min, smaller),
                max: fold(max, larger),
                zeros: fold(zeros, add),
            };
        }
        for value in rest {
            total.sum += value;
            total.zeros += if *value == 0.0 { 1.0 } else { 0.0 };
            total.min = smaller(total.min, *value);
            total.max = larger(total.max, *value);
        }
        total
    }
}

/// Largest `|a − e| / |e|` where `e ≠ 0`.
#[inline(always)]
fn relative(a: &[f64], e: &[f64], max_abs: f64) -> f64 {
    if max_abs == 0.0 {
        return 0.0;
    }
    let (groups_a, rest_a) = a.as_chunks::<LANES>();
    let (groups_e, rest_e) = e.as_chunks::<LANES>();
    let mut total = 0.0;
    if !groups_a.is_empty() {
        let mut largest: Lanes = [0.0; LANES];
        for (a, e) in groups_a.iter().zip(groups_e) {
            for i in 0..LANES {
                largest[i] = larger(largest[i], (a[i] - e[i]).abs() / divisor(e[i]));
            }
        }
        total = fold(largest, larger);
    }
    for (a, e) in rest_a.iter().zip(rest_e) {
        total = larger(total, (a - e).abs() / divisor(*e));
    }
    total
}

/// An infinite divisor in place of zero makes the ratio 0, which is never the largest.
#[inline(always)]
fn divisor(e: f64) -> f64 {
    if e == 0.0 { f64::INFINITY } else { e.abs() }
}

/// Centred sums: a second pass over slices that are still in the cache, in exchange for correlation
/// that is right for values far from zero.
#[inline(always)]
fn centred(a: &[f64], e: &[f64], mean_a: f64, mean_e: f64) -> (f64, f64, f64) {
    let (groups_a, rest_a) = a.as_chunks::<LANES>();
    let (groups_e, rest_e) = e.as_chunks::<LANES>();
    let (mut saa, mut see, mut sae) = (0.0, 0.0, 0.0);
    if !groups_a.is_empty() {
        let (mut aa, mut ee, mut ae) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        for (a, e) in groups_a.iter().zip(groups_e) {
            for i in 0..LANES {
                let (a, e) = (a[i] - mean_a, e[i] - mean_e);
                aa[i] += a * a;
                ee[i] += e * e;
                ae[i] += a * e;
            }
        }
        (saa, see, sae) = (fold(aa, add), fold(ee, add), fold(ae, add));
    }
    for (a, e) in rest_a.iter().zip(rest_e) {
        let (a, e) = (a - mean_a, e - mean_e);
        (saa, see, sae) = (saa + a * a, see + e * e, sae + a * e);
    }
    (saa, see, sae)
}

/// Zeros of the other sign, and zeros in place of subnormal numbers. Needed only where `a` has
/// zeros.
#[inline(never)]
fn zero_pairs(a: &[f64], e: &[f64], smallest_normal: f64) -> (u64, u64) {
    let (mut signs, mut flushed) = (0, 0);
    for (a, e) in a.iter().zip(e).filter(|(a, _)| **a == 0.0) {
        // Zeros of different signs differ in the sign bit and in nothing else.
        signs += u64::from(a.to_bits() ^ e.to_bits() == 1 << 63);
        flushed += u64::from(*e != 0.0 && e.abs() < smallest_normal);
    }
    (signs, flushed)
}

/// Folds half of the lanes onto the other half until one is left.
#[inline(always)]
fn fold(mut lanes: Lanes, join: impl Fn(f64, f64) -> f64) -> f64 {
    let mut half = LANES / 2;
    while half > 0 {
        let (low, high) = lanes.split_at_mut(half);
        for (low, high) in low.iter_mut().zip(&*high) {
            *low = join(*low, *high);
        }
        half /= 2;
    }
    lanes[0]
}

#[inline(always)]
fn add(left: f64, right: f64) -> f64 {
    left + right
}

/// One instruction, unlike `f64::max`, whose treatment of NaN is not needed here.
#[inline(always)]
fn larger(left: f64, right: f64) -> f64 {
    if right > left { right } else { left }
}

#[inline(always)]
fn smaller(left: f64, right: f64) -> f64 {
    if right < left { right } else { left }
}

/// A count that was kept as a number.
#[expect(clippy::cast_possible_truncation, reason = "at most the length of a chunk")]
#[expect(clippy::cast_sign_loss, reason = "a count")]
fn whole(count: f64) -> u64 {
    count as u64
}
