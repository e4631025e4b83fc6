//! Chunks of which both sides are of one narrow type: float32, bfloat16 or float16.
//!
//! Most of a comparison can be done in float32 lanes, of which there are twice as many as of
//! float64, as long as rounding decides nothing. So each question is asked with some slack: what is
//! within or beyond its limit by more than [`SLACK`] is settled, and a chunk with anything between
//! goes the general way, in float64. Sums are float64 here too. The largest errors are noted exactly
//! from the few chunks that may hold one: figures and verdicts are those of the general way, but for
//! the order in which sums are rounded.

use std::cmp::Ordering;
use std::ops::Add as _;

use protocol::Tolerance;

use super::elements::Narrow;
use super::figures::{Moments, Summary, Worst};
use super::float::CHUNK;
#[cfg(target_arch = "x86_64")]
use super::narrow_avx2 as avx2;
use super::narrow_chunk::{prefetch, zero_pairs};
use super::tensors::Pair;
use super::ulps::Ulps;

/// Lanes of each figure.
pub(super) const LANES: usize = 8;
type Lanes<T> = [T; LANES];

/// A part of a value far larger than what float32 loses in the handful of operations here.
const SLACK: f32 = 1.0 / 1_048_576.0;
pub(super) const MORE: f32 = 1.0 + SLACK;
pub(super) const LESS: f32 = 1.0 - SLACK;

/// How much larger the correction of a sum of squares may be than what is left of it: ten bits are
/// lost at most.
const MOST_CANCELLED: f64 = 1024.0;

/// A chunk of both sides, and distances in units in the last place.
#[derive(Debug)]
pub(super) struct Buffers {
    actual: [f32; CHUNK],
    expected: [f32; CHUNK],
    distances: [u32; CHUNK],
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self { actual: [0.0; CHUNK], expected: [0.0; CHUNK], distances: [0; CHUNK] }
    }
}

/// The type, what is allowed in float32, and below which magnitude float32 is too coarse to say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    element: Narrow,
    pub(super) rtol: f32,
    pub(super) atol: f32,
    pub(super) least: f32,
}

/// Which of the processor's vectors may be used. What comes out is the same to the last bit.
#[derive(Debug, Clone, Copy)]
pub(super) enum Vectors {
    None,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Allowance {
    /// Nothing for pairs and tolerances that must go the general way.
    #[expect(clippy::cast_possible_truncation, reason = "the slack covers it")]
    pub(super) fn of(pair: &Pair<'_>) -> Option<Self> {
        let Tolerance { rtol, atol } = pair.tolerance;
        let fits = |value: f64| value == 0.0 || (1e-30..=1e30).contains(&value);
        let element = Narrow::from_element(pair.actual.element)?;
        let plain = pair.actual.element == pair.expected.element
            && !pair.complex
            && !pair.flushes
            && fits(rtol)
            && fits(atol);
        let least = if rtol == 0.0 { 0.0 } else { f32::MIN_POSITIVE };
        plain.then_some(Self { element, rtol: rtol as f32, atol: atol as f32, least })
    }
}

/// Looks at `length` numbers from `start` on. `false` leaves everything as it was: the chunk is one
/// for the general way.
#[inline(always)]
pub(super) fn scan(
    pair: &Pair<'_>,
    allowance: Allowance,
    vectors: Vectors,
    (start, length): (usize, usize),
    buffers: &mut Buffers,
    summary: &mut Summary,
    ulps: &mut Ulps,
) -> bool {
    fill(pair, allowance.element, start, length, buffers);
    // In four parts, since only so many lines are fetched at once.
    let next = length.min(pair.numbers() - start - length);
    let (actual_next, expected_next) =
        (pair.actual.part(start + length, next), pair.expected.part(start + length, next));
    let (first, second) = actual_next.split_at(actual_next.len() / 2);
    let (third, fourth) = expected_next.split_at(expected_next.len() / 2);
    prefetch(first);
    let (actual, expected) = (&buffers.actual[..length], &buffers.expected[..length]);
    let largest = Largest::so_far(summary);
    let seen = Seen::of(actual, expected, allowance, largest, vectors);
    if !seen.is_settled() {
        return false;
    }
    prefetch(second);
    let sums = Sums::of(actual, expected, vectors);
    prefetch(third);
    let Some(moments) = sums.moments(length) else {
        return false;
    };
    if seen.zeros != [0; LANES] {
        let (signs, flushed) = zero_pairs(actual, expected, pair.actual.element.smallest_normal());
        summary.sign_of_zero += signs;
        summary.flushed += flushed;
    }
    summary.elements += length as u64;
    summary.finite += length as u64;
    summary.mismatched += u64::from(seen.over());
    summary.squared += fold(sums.squared, f64::add);
    summary.add_moments(&moments);
    if seen.may_be_largest(largest) {
        note_largest(pair, (allowance, largest), vectors, start, (actual, expected), summary);
    }
    ulps.add_narrow(&buffers.distances[..length]);
    prefetch(fourth);
    true
}

/// The largest of each kind so far, rounded down: what is below it need not be looked at again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Largest {
    pub(super) abs: f32,
    pub(super) rel: f32,
    pub(super) excess: f32,
}

impl Largest {
    #[expect(clippy::cast_possible_truncation, reason = "rounded down by more than that")]
    fn so_far(summary: &Summary) -> Self {
        // A float64 over the range is no infinity, which nothing would be larger than.
        let down = |value: f64| (value as f32).min(f32::MAX) * LESS;
        Self {
            abs: summary.max_abs.map_or(-1.0, down),
            rel: summary.max_rel.map_or(-1.0, down),
            // Only what is over its allowance is ever the worst by excess.
            excess: summary.worst_excess.map_or(0.0, |(excess, _)| down(excess)),
        }
    }
}

/// What float32 has to say of a chunk, by lanes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    /// Pairs surely further apart than allowed.
    pub(super) over: Lanes<u32>,
    /// Pairs not surely within what is allowed, those without a distance among them.
    pub(super) not_within: Lanes<u32>,
    /// Upper bounds of the distance, of how far it is from making the largest relative one, and of
    /// the excess.
    pub(super) abs: Lanes<f32>,
    pub(super) rel: Lanes<f32>,
    pub(super) excess: Lanes<f32>,
    /// Zeros of the actual side.
    pub(super) zeros: Lanes<u32>,
}

impl Seen {
    pub(super) const NOTHING: Self = Self {
        over: [0; LANES],
        not_within: [0; LANES],
        abs: [0.0; LANES],
        rel: [f32::NEG_INFINITY; LANES],
        excess: [f32::NEG_INFINITY; LANES],
        zeros: [0; LANES],
    };

    #[inline(always)]
    fn of(
        actual: &[f32],
        expected: &[f32],
        allowance: Allowance,
        largest: Largest,
        vectors: Vectors,
    ) -> Self {
        let mut seen = Self::NOTHING;
        let (actual, expected) = match vectors {
            Vectors::None => (actual, expected),
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2 => {
                #[expect(unsafe_code, reason = "the processor has been asked")]
                // SAFETY: only who has found AVX2 says so.
                unsafe {
                    avx2::see(actual, expected, allowance, largest, &mut seen)
                }
            }
        };
        in_lanes(actual, expected, |i, a, e| seen.add(i, a, e, allowance, largest));
        seen
    }

    #[inline(always)]
    fn add(&mut self, i: usize, a: f32, e: f32, allowance: Allowance, largest: Largest) {
        let (distance, magnitude) = ((a - e).abs(), e.abs());
        let allowed = allowance.atol + allowance.rtol * magnitude;
        let within = allowed * LESS - allowance.least;
        let upper = distance * MORE;
        self.over[i] += u32::from(distance > allowed * MORE + allowance.least);
        // A NaN is not within.
        self.not_within[i] += u32::from(distance.partial_cmp(&within).is_none_or(Ordering::is_gt));
        self.abs[i] = larger(self.abs[i], upper);
        self.rel[i] = larger(self.rel[i], upper - largest.rel * magnitude);
        self.excess[i] = larger(self.excess[i], upper - within);
        self.zeros[i] += u32::from(a == 0.0);
    }

    fn over(&self) -> u32 {
        self.over.iter().sum()
    }

    /// Whether every number is finite and no pair is too near to its limit for float32.
    fn is_settled(&self) -> bool {
        fold(self.abs, larger) < f32::INFINITY && self.over() == self.not_within.iter().sum::<u32>()
    }

    fn may_be_largest(&self, largest: Largest) -> bool {
        fold(self.abs, larger) > largest.abs
            || fold(self.rel, larger) > 0.0
            || (self.over() > 0 && fold(self.excess, larger) > largest.excess)
    }
}

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
    fn of(actual: &[f32], expected: &[f32], vectors: Vectors) -> Self {
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
        self.actual_squared[i] += a * a;
        self.expected_squared[i] += e * e;
        self.product[i] += a * e;
        self.squared[i] += distance * distance;
    }

    /// Nothing where the pivot turns out too far from the mean for the squares to be right.
    #[expect(clippy::cast_precision_loss, reason = "at most the length of a chunk")]
    fn moments(&self, length: usize) -> Option<Moments> {
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

/// Widens a chunk of both sides and counts the steps between them.
#[inline(always)]
fn fill(pair: &Pair<'_>, element: Narrow, start: usize, length: usize, buffers: &mut Buffers) {
    let (actual, expected) = (pair.actual.part(start, length), pair.expected.part(start, length));
    element.widen(actual, &mut buffers.actual[..length]);
    element.widen(expected, &mut buffers.expected[..length]);
    element.distances(actual, expected, &mut buffers.distances[..length]);
}

/// Notes the largest errors exactly, as the general way does.
#[inline(never)]
fn note_largest(
    pair: &Pair<'_>,
    (allowance, largest): (Allowance, Largest),
    vectors: Vectors,
    start: usize,
    (actual, expected): (&[f32], &[f32]),
    summary: &mut Summary,
) {
    let mut note = |place: usize| {
        let (actual, expected) = (f64::from(actual[place]), f64::from(expected[place]));
        let distance = (actual - expected).abs();
        summary.note_distance(distance, (expected != 0.0).then(|| distance / expected.abs()));
        let excess = distance - pair.tolerance.allowed(expected);
        let worst = Worst { index: (start + place) as u64, actual, expected };
        summary.note_worst(distance, excess, worst);
    };
    let looked_at = match vectors {
        Vectors::None => 0,
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => {
            #[expect(unsafe_code, reason = "the processor has been asked")]
            // SAFETY: only who has found AVX2 says so.
            unsafe {
                avx2::find(actual, expected, allowance, largest, &mut note)
            }
        }
    };
    (looked_at..actual.len()).for_each(note);
}

/// Calls with the lane and both numbers of each pair.
#[inline(always)]
fn in_lanes(actual: &[f32], expected: &[f32], mut each: impl FnMut(usize, f32, f32)) {
    for (place, (a, e)) in actual.iter().zip(expected).enumerate() {
        each(place % LANES, *a, *e);
    }
}

#[inline(always)]
fn fold<T: Copy>(lanes: Lanes<T>, join: impl Fn(T, T) -> T) -> T {
    lanes.into_iter().reduce(join).expect("there are lanes")
}

#[inline(always)]
fn larger(left: f32, right: f32) -> f32 {
    if right > left { right } else { left }
}

#[cfg(test)]
#[path = "narrow_tests.rs"]
mod tests;
