//! A first look at a chunk of [`narrow`](super), after which most need no second.

use super::{Allowance, LESS, Largest, Look};

/// What distances less than the smallest normal number, but no zeros, are below when their bits are
/// taken for a number and one is taken away.
pub(super) const TINY: u32 = f32::MIN_POSITIVE.to_bits() - 1;

/// Notes whether there are tiny distances and zeros, and gives whether the chunk needs no second look:
/// all numbers are finite and all pairs surely within what is allowed, none of them possibly the
/// largest of a kind. Where nothing `may_be_within`, that is not looked for. Each question is answered
/// from bits, since that takes the fewest steps in vectors.
#[inline(always)]
pub(super) fn glance(
    actual: &[f32],
    expected: &[f32],
    allowance: Allowance,
    largest: Largest,
    may_be_within: bool,
    look: &mut Look,
) -> bool {
    let (mut tiniest, mut smallest) = (u32::MAX, u32::MAX);
    for (a, e) in actual.iter().zip(expected) {
        // Zero wraps around.
        tiniest = tiniest.min((a - e).abs().to_bits().wrapping_sub(1));
        smallest = smallest.min(a.to_bits() << 1);
    }
    look.tiny |= tiniest < TINY;
    look.zeros |= smallest == 0;
    may_be_within && all_within(actual, expected, allowance, largest)
}

#[inline(always)]
fn all_within(actual: &[f32], expected: &[f32], allowance: Allowance, largest: Largest) -> bool {
    const LEAST: f32 = LESS * LESS;
    let rtol = allowance.rtol * LEAST;
    let atol = allowance.atol * LEAST;
    let (rel, abs) = (largest.rel * LEAST, largest.abs * LEAST);
    let (mut signs, mut farthest) = (0u32, 0u32);
    for (a, e) in actual.iter().zip(expected) {
        let (distance, magnitude) = ((a - e).abs(), e.abs());
        let limit = smaller(smaller(atol + rtol * magnitude, rel * magnitude), abs);
        // Compilers keep the order of comparisons of floats, and make no vectors of them.
        signs |= (limit - distance).to_bits();
        // The bits of a NaN are more than those of infinity.
        farthest = farthest.max(distance.to_bits());
    }
    signs >> 31 == 0 && farthest < f32::INFINITY.to_bits()
}

#[inline(always)]
fn smaller(left: f32, right: f32) -> f32 {
    if left < right { left } else { right }
}
