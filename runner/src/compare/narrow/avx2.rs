//! What the lanes of [`narrow`](super) hold, with AVX2: the same operations in the same order.
//!
//! Written out because compilers make no vector code of so many figures in one loop.

use std::arch::x86_64::*;

use zerocopy::transmute;

use super::sums::Sums;
use super::{Allowance, LANES, Lanes, Largest, Look, ROUNDED, SLACK, Seen, fold, larger};

/// Looks at whole groups of lanes, of which a glance has said whether all pairs are within; gives what
/// is left.
#[target_feature(enable = "avx2,fma")]
pub(super) fn look<'a>(
    actual: &'a [f32],
    expected: &'a [f32],
    allowance: Allowance,
    largest: Largest,
    is_within: bool,
    look: &mut Look,
) -> (&'a [f32], &'a [f32]) {
    let (groups_a, rest_a) = actual.as_chunks::<LANES>();
    let (groups_e, rest_e) = expected.as_chunks::<LANES>();
    if !is_within {
        see(groups_a, groups_e, allowance, largest, &mut look.seen);
    }
    // Nothing is asked of the sums of a chunk for the general way.
    if look.is_settled() {
        sum(groups_a, groups_e, &mut look.sums);
    }
    (rest_a, rest_e)
}

#[target_feature(enable = "avx2,fma")]
fn see(
    groups_a: &[[f32; LANES]],
    groups_e: &[[f32; LANES]],
    allowance: Allowance,
    largest: Largest,
    seen: &mut Seen,
) {
    let sign = _mm256_set1_ps(-0.0);
    let (rtol, atol) = (_mm256_set1_ps(allowance.rtol), _mm256_set1_ps(allowance.atol));
    let (slack, rel_so_far) = (_mm256_set1_ps(SLACK), _mm256_set1_ps(largest.rel));
    let (mut over, mut near) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    let mut farthest = _mm256_setzero_si256();
    let (mut rel, mut excess) = (_mm256_set1_ps(f32::MIN), _mm256_set1_ps(f32::MIN));
    for (a, e) in groups_a.iter().zip(groups_e) {
        let (a, e) = (transmute!(*a), transmute!(*e));
        let distance = _mm256_andnot_ps(sign, _mm256_sub_ps(a, e));
        let magnitude = _mm256_andnot_ps(sign, e);
        let allowed = _mm256_fmadd_ps(rtol, magnitude, atol);
        let beyond = _mm256_sub_ps(distance, allowed);
        // A true comparison is −1.
        let is_over = _mm256_cmp_ps::<_CMP_GT_OQ>(beyond, _mm256_setzero_ps());
        over = _mm256_sub_epi32(over, _mm256_castps_si256(is_over));
        let clear = _mm256_fnmadd_ps(slack, allowed, _mm256_andnot_ps(sign, beyond));
        near = _mm256_or_si256(near, _mm256_castps_si256(clear));
        // The bits of a NaN are more than those of infinity.
        farthest = _mm256_max_epu32(farthest, _mm256_castps_si256(distance));
        rel = _mm256_max_ps(_mm256_fnmadd_ps(rel_so_far, magnitude, distance), rel);
        excess = _mm256_max_ps(beyond, excess);
    }
    let over: Lanes<u32> = transmute!(over);
    let farthest = f32::from_bits(fold(transmute!(farthest), u32::max));
    let most = |lanes: Lanes<f32>| fold(lanes, larger);
    seen.join(Seen {
        over: over.iter().sum(),
        is_unclear: farthest.is_nan() || _mm256_movemask_ps(_mm256_castsi256_ps(near)) != 0,
        abs: farthest,
        rel: most(transmute!(rel)),
        excess: most(transmute!(excess)),
    });
}

/// Calls with the place of each pair that may be the largest of a kind, of whole groups of lanes;
/// gives how many numbers these are.
#[target_feature(enable = "avx2,fma")]
pub(super) fn find(
    actual: &[f32],
    expected: &[f32],
    allowance: Allowance,
    largest: Largest,
    mut found: impl FnMut(usize),
) -> usize {
    let (groups_a, _) = actual.as_chunks::<LANES>();
    let (groups_e, _) = expected.as_chunks::<LANES>();
    let sign = _mm256_set1_ps(-0.0);
    let (rtol, atol) = (_mm256_set1_ps(allowance.rtol), _mm256_set1_ps(allowance.atol));
    let (abs, rel) = (_mm256_set1_ps(largest.abs), _mm256_set1_ps(largest.rel));
    let (rounded, excess) = (_mm256_set1_ps(ROUNDED), _mm256_set1_ps(largest.excess));
    for (group, (a, e)) in groups_a.iter().zip(groups_e).enumerate() {
        let (a, e) = (transmute!(*a), transmute!(*e));
        let magnitude = _mm256_andnot_ps(sign, e);
        let distance = _mm256_andnot_ps(sign, _mm256_sub_ps(a, e));
        let beyond = _mm256_sub_ps(distance, _mm256_fmadd_ps(rtol, magnitude, atol));
        let by_abs = _mm256_cmp_ps::<_CMP_GT_OQ>(distance, abs);
        let above = _mm256_fnmadd_ps(rel, magnitude, distance);
        let by_rel = _mm256_cmp_ps::<_CMP_GT_OQ>(above, _mm256_setzero_ps());
        let at_most = _mm256_fmadd_ps(rounded, distance, beyond);
        let by_excess = _mm256_cmp_ps::<_CMP_GT_OQ>(at_most, excess);
        let any = _mm256_or_ps(by_abs, _mm256_or_ps(by_rel, by_excess));
        let mut mask = _mm256_movemask_ps(any);
        while mask != 0 {
            found(group * LANES + mask.trailing_zeros() as usize);
            mask &= mask - 1;
        }
    }
    groups_a.len() * LANES
}

#[target_feature(enable = "avx2,fma")]
fn sum(groups_a: &[[f32; LANES]], groups_e: &[[f32; LANES]], sums: &mut Sums) {
    let pivot = _mm256_set1_pd(sums.pivot);
    let mut expected: Halves = transmute!(sums.expected);
    let mut expected_squared: Halves = transmute!(sums.expected_squared);
    let mut distances: Halves = transmute!(sums.distance);
    let mut distances_squared: Halves = transmute!(sums.distance_squared);
    let mut products: Halves = transmute!(sums.product);
    for (a, e) in groups_a.iter().zip(groups_e) {
        let (a, e) = (widen(transmute!(*a)), widen(transmute!(*e)));
        for half in 0..2 {
            let (a, e) = (a[half], e[half]);
            let distance = _mm256_sub_pd(a, e);
            let e = _mm256_sub_pd(e, pivot);
            expected[half] = _mm256_add_pd(expected[half], e);
            expected_squared[half] = _mm256_fmadd_pd(e, e, expected_squared[half]);
            distances[half] = _mm256_add_pd(distances[half], distance);
            distances_squared[half] = _mm256_fmadd_pd(distance, distance, distances_squared[half]);
            products[half] = _mm256_fmadd_pd(e, distance, products[half]);
        }
    }
    *sums = Sums {
        pivot: sums.pivot,
        expected: transmute!(expected),
        expected_squared: transmute!(expected_squared),
        distance: transmute!(distances),
        distance_squared: transmute!(distances_squared),
        product: transmute!(products),
    };
}

/// All lanes of a sum.
type Halves = [__m256d; 2];

#[inline]
#[target_feature(enable = "avx2")]
fn widen(vector: __m256) -> Halves {
    [
        _mm256_cvtps_pd(_mm256_castps256_ps128(vector)),
        _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(vector)),
    ]
}
