//! Chunks of which both sides are of one narrow type: float32, bfloat16 or float16.
//!
//! Most of a comparison can be done in float32 lanes, of which there are twice as many as of
//! float64, as long as rounding decides nothing. So each question is asked with some slack: what is
//! within or beyond its limit by more than [`SLACK`] is settled, and a chunk with anything between
//! goes the general way, in float64. Sums are float64 here too. The largest errors are noted exactly
//! from the few chunks that may hold one: figures and verdicts are those of the general way, but for
//! the order in which sums are rounded.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod chunk;
mod glance;
mod sums;

use std::ops::Add as _;

use protocol::Tolerance;

use self::chunk::{Stored, floats, prefetch, zero_pairs};
use self::glance::glance;
use self::sums::Sums;
use super::elements::Narrow;
use super::figures::{Summary, Worst};
use super::float::CHUNK;
use super::tensors::Pair;
use super::ulps::Ulps;

/// Lanes of each figure.
const LANES: usize = 8;
type Lanes<T> = [T; LANES];

/// A part of a value far larger than what float32 loses in the handful of operations here.
const SLACK: f32 = 1.0 / 1_048_576.0;
/// Of a distance, more than is lost of what it is beyond its limit.
const ROUNDED: f32 = 3.0 * SLACK;
const LESS: f32 = 1.0 - SLACK;

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

/// The type, and what is allowed in float32.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    element: Narrow,
    rtol: f32,
    atol: f32,
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

impl Vectors {
    /// The widest that this processor has.
    pub(super) fn widest() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            let has_avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512bw");
            return if has_avx512 { Self::Avx512 } else { Self::Avx2 };
        }
        Self::None
    }
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
        plain.then_some(Self { element, rtol: rtol as f32, atol: atol as f32 })
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
    let largest = Largest::so_far(summary);
    let look = Look::at(pair, allowance, largest, vectors, (start, length), buffers);
    if !look.is_settled() {
        return false;
    }
    let Some(moments) = look.sums.moments(length) else {
        return false;
    };
    buffers.may_be_within = look.seen.over == 0;
    summary.elements += length as u64;
    summary.finite += length as u64;
    summary.mismatched += u64::from(look.seen.over);
    summary.squared += fold(look.sums.distance_squared, f64::add);
    summary.add_moments(&moments);
    let may_be_largest = look.seen.may_be_largest(largest);
    if look.zeros || may_be_largest {
        let Buffers { actual, expected, .. } = buffers;
        let stored = (pair.actual.part(start, length), pair.expected.part(start, length));
        let actual = floats(allowance.element, stored.0, &mut actual[..length]);
        let expected = floats(allowance.element, stored.1, &mut expected[..length]);
        if look.zeros {
            let smallest_normal = pair.actual.element.smallest_normal();
            let (signs, flushed) = zero_pairs(actual, expected, smallest_normal);
            summary.sign_of_zero += signs;
            summary.flushed += flushed;
        }
        if may_be_largest {
            note_largest(pair, (allowance, largest), vectors, start, (actual, expected), summary);
        }
    }
    ulps.add_narrow(&buffers.distances[..length]);
    true
}

/// All that is asked of a chunk as a whole, beside the distances in units in the last place.
#[derive(Debug)]
struct Look {
    /// Whether a pair is less than the smallest normal number apart, but apart: products of that size
    /// are too coarse for the slack.
    tiny: bool,
    /// Whether there is a zero on the actual side.
    zeros: bool,
    seen: Seen,
    sums: Sums,
}

impl Look {
    #[inline(always)]
    fn at(
        pair: &Pair<'_>,
        allowance: Allowance,
        largest: Largest,
        vectors: Vectors,
        (start, length): (usize, usize),
        buffers: &mut Buffers,
    ) -> Self {
        let Buffers { actual, expected, distances, may_be_within } = buffers;
        let sums = Sums::about(pair.expected.number(start));
        let mut look = Self { tiny: false, zeros: false, seen: Seen::NOTHING, sums };
        let done = match vectors {
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx512 => {
                let stored = Stored::of(pair, start, length);
                let distances = &mut distances[..length];
                #[expect(unsafe_code, reason = "the processor has been asked")]
                // SAFETY: only who has found AVX-512 says so.
                unsafe {
                    avx512::look(stored, allowance, largest, distances, &mut look)
                }
            }
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2 => 0,
            Vectors::None => 0,
        };
        if done == length {
            return look;
        }
        let stored = Stored::of(pair, start + done, length - done);
        let actual = floats(allowance.element, stored.actual, &mut actual[done..length]);
        let expected = floats(allowance.element, stored.expected, &mut expected[done..length]);
        // In four parts, since only so many lines are fetched at once.
        let (first, second) = stored.next.0.split_at(stored.next.0.len() / 2);
        let (third, fourth) = stored.next.1.split_at(stored.next.1.len() / 2);
        prefetch(first);
        let is_within = glance(actual, expected, allowance, largest, *may_be_within, &mut look);
        prefetch(second);
        let distances = &mut distances[done..length];
        allowance.element.distances(stored.actual, stored.expected, distances);
        prefetch(third);
        let (actual, expected) = match vectors {
            Vectors::None => (actual, expected),
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2 | Vectors::Avx512 => {
                #[expect(unsafe_code, reason = "the processor has been asked")]
                // SAFETY: only who has found AVX2 says so.
                unsafe {
                    avx2::look(actual, expected, allowance, largest, is_within, &mut look)
                }
            }
        };
        prefetch(fourth);
        // Groups of lanes are done by now, so that the first of the rest has the first lane.
        for (place, (a, e)) in actual.iter().zip(expected).enumerate() {
            if !is_within {
                look.seen.add(*a, *e, allowance, largest);
            }
            look.sums.add(place % LANES, f64::from(*a), f64::from(*e));
        }
        look
    }

    /// Whether nothing is left for the general way.
    fn is_settled(&self) -> bool {
        !self.tiny && self.seen.is_settled()
    }
}

/// The largest of each kind so far, rounded down: what is below it need not be looked at again.
#[derive(Debug, Clone, Copy)]
struct Largest {
    abs: f32,
    rel: f32,
    excess: f32,
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

/// What float32 has to say of a chunk.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Pairs further apart than allowed.
    over: u32,
    /// Whether a pair is too near to its limit for float32, or has no distance.
    is_unclear: bool,
    /// The largest distance, how far it is at most from making the largest relative one, and the
    /// largest excess.
    abs: f32,
    rel: f32,
    excess: f32,
}

impl Seen {
    const NOTHING: Self = Self {
        over: 0,
        is_unclear: false,
        abs: 0.0,
        rel: f32::NEG_INFINITY,
        excess: f32::NEG_INFINITY,
    };

    #[inline(always)]
    fn add(&mut self, a: f32, e: f32, allowance: Allowance, largest: Largest) {
        let (distance, magnitude) = ((a - e).abs(), e.abs());
        let allowed = allowance.rtol.mul_add(magnitude, allowance.atol);
        let beyond = distance - allowed;
        // Negative where it is within the slack, on either side.
        let clear = (-SLACK).mul_add(allowed, beyond.abs());
        self.join(Self {
            over: u32::from(beyond > 0.0),
            is_unclear: distance.is_nan() || clear.is_sign_negative(),
            abs: distance,
            rel: (-largest.rel).mul_add(magnitude, distance),
            excess: beyond,
        });
    }

    #[inline(always)]
    fn join(&mut self, other: Self) {
        self.over += other.over;
        self.is_unclear |= other.is_unclear;
        self.abs = larger(self.abs, other.abs);
        self.rel = larger(self.rel, other.rel);
        self.excess = larger(self.excess, other.excess);
    }

    /// Whether every number is finite and no pair is too near to its limit for float32.
    fn is_settled(&self) -> bool {
        self.abs < f32::INFINITY && !self.is_unclear
    }

    fn may_be_largest(&self, largest: Largest) -> bool {
        // What is beyond its limit is further apart than the limit, and as inexact as that.
        let excess = ROUNDED.mul_add(self.abs, self.excess);
        self.abs > largest.abs || self.rel > 0.0 || (self.over > 0 && excess > largest.excess)
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

#[inline(always)]
fn fold<T: Copy>(lanes: Lanes<T>, join: impl Fn(T, T) -> T) -> T {
    lanes.into_iter().reduce(join).expect("there are lanes")
}

#[inline(always)]
fn larger(left: f32, right: f32) -> f32 {
    if right > left { right } else { left }
}

#[cfg(test)]
mod tests;
