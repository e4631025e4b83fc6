//! What the lanes of [`narrow`](super::narrow) hold, with AVX2: the same operations in the same order.
//!
//! Written out because compilers make no vector code of so many figures in one loop.

use std::arch::x86_64::*;

use super::narrow::{Allowance, LANES, LESS, Largest, MORE, Seen};
use super::narrow_sums::Sums;

/// Adds whole groups of lanes; gives what is left.
#[target_feature(enable = "avx2")]
pub(super) fn see<'a>(
    actual: &'a [f32],
    expected: &'a [f32],
    allowance: Allowance,
    largest: Largest,
    seen: &mut Seen,
) -> (&'a [f32], &'a [f32]) {
    let (groups_a, rest_a) = actual.as_chunks::<LANES>();
    let (groups_e, rest_e) = expected.as_chunks::<LANES>();
    let sign = _mm256_set1_ps(-0.0);
    let (rtol, atol) = (_mm256_set1_ps(allowance.rtol), _mm256_set1_ps(allowance.atol));
    let (least, rel_so_far) = (_mm256_set1_ps(allowance.least), _mm256_set1_ps(largest.rel));
    let (more, less) = (_mm256_set1_ps(MORE), _mm256_set1_ps(LESS));
    let (mut over, mut not_within) = (whole(seen.over), whole(seen.not_within));
    let (mut abs, mut rel, mut excess) = (load(&seen.abs), load(&seen.rel), load(&seen.excess));
    for (a, e) in groups_a.iter().zip(groups_e) {
        let (a, e) = (load(a), load(e));
        let distance = _mm256_andnot_ps(sign, _mm256_sub_ps(a, e));
        let magnitude = _mm256_andnot_ps(sign, e);
        let allowed = _mm256_add_ps(atol, _mm256_mul_ps(rtol, magnitude));
        let within = _mm256_sub_ps(_mm256_mul_ps(allowed, less), least);
        let beyond = _mm256_add_ps(_mm256_mul_ps(allowed, more), least);
        let upper = _mm256_mul_ps(distance, more);
        // A true comparison is −1.
        over = count(over, _mm256_cmp_ps::<_CMP_GT_OQ>(distance, beyond));
        not_within = count(not_within, _mm256_cmp_ps::<_CMP_NLE_UQ>(distance, within));
        // Where one is NaN, the second is taken.
        abs = _mm256_max_ps(upper, abs);
        let above = _mm256_sub_ps(upper, _mm256_mul_ps(rel_so_far, magnitude));
        rel = _mm256_max_ps(above, rel);
        excess = _mm256_max_ps(_mm256_sub_ps(upper, within), excess);
    }
    *seen = Seen {
        over: unsigned(over),
        not_within: unsigned(not_within),
        abs: lanes(abs),
        rel: lanes(rel),
        excess: lanes(excess),
    };
    (rest_a, rest_e)
}

/// Calls with the place of each pair that may be the largest of a kind, of whole groups of lanes;
/// gives how many numbers these are.
#[target_feature(enable = "avx2")]
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
    let (more, less) = (_mm256_set1_ps(MORE), _mm256_set1_ps(LESS));
    let least = _mm256_set1_ps(allowance.least);
    let (abs, rel) = (_mm256_set1_ps(largest.abs), _mm256_set1_ps(largest.rel));
    let excess = _mm256_set1_ps(largest.excess);
    for (group, (a, e)) in groups_a.iter().zip(groups_e).enumerate() {
        let (a, e) = (load(a), load(e));
        let magnitude = _mm256_andnot_ps(sign, e);
        let upper = _mm256_mul_ps(_mm256_andnot_ps(sign, _mm256_sub_ps(a, e)), more);
        let allowed = _mm256_add_ps(atol, _mm256_mul_ps(rtol, magnitude));
        let within = _mm256_sub_ps(_mm256_mul_ps(allowed, less), least);
        let by_abs = _mm256_cmp_ps::<_CMP_GT_OQ>(upper, abs);
        let by_rel = _mm256_cmp_ps::<_CMP_GT_OQ>(upper, _mm256_mul_ps(rel, magnitude));
        let by_excess = _mm256_cmp_ps::<_CMP_GT_OQ>(_mm256_sub_ps(upper, within), excess);
        let any = _mm256_or_ps(by_abs, _mm256_or_ps(by_rel, by_excess));
        let mut mask = _mm256_movemask_ps(any);
        while mask != 0 {
            found(group * LANES + mask.trailing_zeros() as usize);
            mask &= mask - 1;
        }
    }
    groups_a.len() * LANES
}

/// Adds whole groups of lanes; gives what is left.
#[target_feature(enable = "avx2,fma")]
pub(super) fn sum<'a>(
    actual: &'a [f32],
    expected: &'a [f32],
    sums: &mut Sums,
) -> (&'a [f32], &'a [f32]) {
    let (groups_a, rest_a) = actual.as_chunks::<LANES>();
    let (groups_e, rest_e) = expected.as_chunks::<LANES>();
    let pivot = (_mm256_set1_pd(sums.pivot.0), _mm256_set1_pd(sums.pivot.1));
    let mut sum_a = halves(&sums.actual);
    let mut sum_e = halves(&sums.expected);
    let mut squares_a = halves(&sums.actual_squared);
    let mut squares_e = halves(&sums.expected_squared);
    let mut products = halves(&sums.product);
    let mut squared = halves(&sums.squared);
    for (a, e) in groups_a.iter().zip(groups_e) {
        let (a, e) = (widen(load(a)), widen(load(e)));
        for half in 0..2 {
            let (a, e) = (a[half], e[half]);
            let distance = _mm256_sub_pd(a, e);
            let (a, e) = (_mm256_sub_pd(a, pivot.0), _mm256_sub_pd(e, pivot.1));
            sum_a[half] = _mm256_add_pd(sum_a[half], a);
            sum_e[half] = _mm256_add_pd(sum_e[half], e);
            squares_a[half] = _mm256_fmadd_pd(a, a, squares_a[half]);
            squares_e[half] = _mm256_fmadd_pd(e, e, squares_e[half]);
            products[half] = _mm256_fmadd_pd(a, e, products[half]);
            squared[half] = _mm256_fmadd_pd(distance, distance, squared[half]);
        }
    }
    *sums = Sums {
        pivot: sums.pivot,
        actual: joined(sum_a),
        expected: joined(sum_e),
        actual_squared: joined(squares_a),
        expected_squared: joined(squares_e),
        product: joined(products),
        squared: joined(squared),
    };
    (rest_a, rest_e)
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(lanes: &[f32; LANES]) -> __m256 {
    let [a, b, c, d, e, f, g, h] = *lanes;
    _mm256_setr_ps(a, b, c, d, e, f, g, h)
}

#[inline]
#[target_feature(enable = "avx2")]
fn lanes(vector: __m256) -> [f32; LANES] {
    let bits = unsigned(_mm256_castps_si256(vector));
    bits.map(f32::from_bits)
}

#[inline]
#[target_feature(enable = "avx2")]
fn whole(lanes: [u32; LANES]) -> __m256i {
    let [a, b, c, d, e, f, g, h] = lanes.map(u32::cast_signed);
    _mm256_setr_epi32(a, b, c, d, e, f, g, h)
}

#[inline]
#[target_feature(enable = "avx2")]
fn unsigned(vector: __m256i) -> [u32; LANES] {
    [
        _mm256_extract_epi32::<0>(vector),
        _mm256_extract_epi32::<1>(vector),
        _mm256_extract_epi32::<2>(vector),
        _mm256_extract_epi32::<3>(vector),
        _mm256_extract_epi32::<4>(vector),
        _mm256_extract_epi32::<5>(vector),
        _mm256_extract_epi32::<6>(vector),
        _mm256_extract_epi32::<7>(vector),
    ]
    .map(i32::cast_unsigned)
}

#[inline]
#[target_feature(enable = "avx2")]
fn count(counts: __m256i, holds: __m256) -> __m256i {
    _mm256_sub_epi32(counts, _mm256_castps_si256(holds))
}

#[inline]
#[target_feature(enable = "avx2")]
fn widen(vector: __m256) -> [__m256d; 2] {
    [
        _mm256_cvtps_pd(_mm256_castps256_ps128(vector)),
        _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(vector)),
    ]
}

#[inline]
#[target_feature(enable = "avx2")]
fn halves(lanes: &[f64; LANES]) -> [__m256d; 2] {
    let [a, b, c, d, e, f, g, h] = *lanes;
    [_mm256_setr_pd(a, b, c, d), _mm256_setr_pd(e, f, g, h)]
}

#[inline]
#[target_feature(enable = "avx2")]
fn joined(halves: [__m256d; 2]) -> [f64; LANES] {
    let mut lanes = [0.0; LANES];
    for (half, lanes) in halves.into_iter().zip(lanes.as_chunks_mut::<4>().0) {
        let bits = _mm256_castpd_si256(half);
        *lanes = [
            _mm256_extract_epi64::<0>(bits),
            _mm256_extract_epi64::<1>(bits),
            _mm256_extract_epi64::<2>(bits),
            _mm256_extract_epi64::<3>(bits),
        ]
        .map(|bits| f64::from_bits(bits.cast_unsigned()));
    }
    lanes
}
