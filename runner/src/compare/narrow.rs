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
use super::figures::{Summary, Worst};
use super::float::CHUNK;
#[cfg(target_arch = "x86_64")]
use super::narrow_avx2 as avx2;
use super::narrow_chunk::{floats, prefetch, zero_pairs};
use super::narrow_glance::Glance;
use super::narrow_sums::Sums;
use super::tensors::Pair;
use super::ulps::Ulps;

/// Lanes of each figure.
pub(super) const LANES: usize = 8;
pub(super) type Lanes<T> = [T; LANES];

/// A part of a value far larger than what float32 loses in the handful of operations here.
const SLACK: f32 = 1.0 / 1_048_576.0;
pub(super) const MORE: f32 = 1.0 + SLACK;
pub(super) const LESS: f32 = 1.0 - SLACK;

/// A chunk of both sides where it must be widened, and distances in units in the last place.
#[derive(Debug)]
pub(super) struct Buffers {
    actual: [f32; CHUNK],
    expected: [f32; CHUNK],
    distances: [u32; CHUNK],
    /// Whether the chunk before was within what is allowed, and so the next may be.
    may_be_within: bool,
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self {
            actual: [0.0; CHUNK],
            expected: [0.0; CHUNK],
            distances: [0; CHUNK],
            may_be_within: true,
        }
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
    /// With fused multiplication and addition.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// With all of [`Avx2`](Self::Avx2), and sets F, DQ, VL and BW.
    #[cfg(target_arch = "x86_64")]
    Avx512,
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
    let Buffers { actual, expected, distances, may_be_within } = buffers;
    let distances = &mut distances[..length];
    let (stored_actual, stored_expected) =
        (pair.actual.part(start, length), pair.expected.part(start, length));
    let actual = floats(allowance.element, stored_actual, &mut actual[..length]);
    let expected = floats(allowance.element, stored_expected, &mut expected[..length]);
    // In four parts, since only so many lines are fetched at once.
    let next = length.min(pair.numbers() - start - length);
    let (actual_next, expected_next) =
        (pair.actual.part(start + length, next), pair.expected.part(start + length, next));
    let (first, second) = actual_next.split_at(actual_next.len() / 2);
    let (third, fourth) = expected_next.split_at(expected_next.len() / 2);
    prefetch(first);
    let largest = Largest::so_far(summary);
    let glance = Glance::at(actual, expected, allowance, largest, *may_be_within);
    if glance.tiny {
        return false;
    }
    let seen = (!glance.within).then(|| Seen::of(actual, expected, allowance, largest, vectors));
    if seen.is_some_and(|seen| !seen.is_settled()) {
        return false;
    }
    *may_be_within = seen.is_none_or(|seen| seen.over() == 0);
    prefetch(second);
    allowance.element.distances(stored_actual, stored_expected, distances);
    let sums = Sums::of(actual, expected, vectors);
    prefetch(third);
    let Some(moments) = sums.moments(length) else {
        return false;
    };
    if glance.zeros {
        let (signs, flushed) = zero_pairs(actual, expected, pair.actual.element.smallest_normal());
        summary.sign_of_zero += signs;
        summary.flushed += flushed;
    }
    summary.elements += length as u64;
    summary.finite += length as u64;
    summary.squared += fold(sums.squared, f64::add);
    summary.add_moments(&moments);
    if let Some(seen) = seen {
        summary.mismatched += u64::from(seen.over());
        if seen.may_be_largest(largest) {
            note_largest(pair, (allowance, largest), vectors, start, (actual, expected), summary);
        }
    }
    ulps.add_narrow(distances);
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
}

impl Seen {
    pub(super) const NOTHING: Self = Self {
        over: [0; LANES],
        not_within: [0; LANES],
        abs: [0.0; LANES],
        rel: [f32::NEG_INFINITY; LANES],
        excess: [f32::NEG_INFINITY; LANES],
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
            Vectors::Avx2 | Vectors::Avx512 => {
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
        Vectors::Avx2 | Vectors::Avx512 => {
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
pub(super) fn in_lanes(actual: &[f32], expected: &[f32], mut each: impl FnMut(usize, f32, f32)) {
    for (place, (a, e)) in actual.iter().zip(expected).enumerate() {
        each(place % LANES, *a, *e);
    }
}

#[inline(always)]
pub(super) fn fold<T: Copy>(lanes: Lanes<T>, join: impl Fn(T, T) -> T) -> T {
    lanes.into_iter().reduce(join).expect("there are lanes")
}

#[inline(always)]
fn larger(left: f32, right: f32) -> f32 {
    if right > left { right } else { left }
}

#[cfg(test)]
#[path = "narrow_tests.rs"]
mod tests;
