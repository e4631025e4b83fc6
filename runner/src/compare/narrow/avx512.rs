//! A chunk of [`narrow`](super) with AVX-512, in one pass: each line of both sides is loaded
//! once, as it is stored, and all that is asked of it is asked while it lies in registers.
//!
//! The same operations in the same order as without vectors, with all lanes of a sum in one register.

use std::arch::x86_64::*;

use zerocopy::transmute;

use super::chunk::{Stored, prefetch};
use super::glance::TINY;
use super::sums::Sums;
use super::{Allowance, Largest, Look, SLACK, Seen};
use crate::compare::elements::Narrow;

/// Numbers in one register.
const WIDTH: usize = 16;

/// Looks at whole registers of numbers; gives how many numbers these were.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
pub(super) fn look(
    stored: Stored<'_>,
    allowance: Allowance,
    largest: Largest,
    distances: &mut [u32],
    look: &mut Look,
) -> usize {
    // The numbers, and their bits moved up to the sign of 32.
    match allowance.element {
        Narrow::Float32 => {
            pass::<{ WIDTH * 4 }, 0>(stored, allowance, largest, distances, look, |line| {
                let bits: __m512i = transmute!(*line);
                (_mm512_castsi512_ps(bits), bits)
            })
        }
        Narrow::Bfloat16 => {
            pass::<{ WIDTH * 2 }, 16>(stored, allowance, largest, distances, look, |line| {
                let bits = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(transmute!(*line)));
                (_mm512_castsi512_ps(bits), bits)
            })
        }
        Narrow::Float16 => {
            pass::<{ WIDTH * 2 }, 16>(stored, allowance, largest, distances, look, |line| {
                let halves = transmute!(*line);
                (_mm512_cvtph_ps(halves), _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves)))
            })
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
fn pass<const BYTES: usize, const SHIFT: u32>(
    stored: Stored<'_>,
    allowance: Allowance,
    largest: Largest,
    distances: &mut [u32],
    look: &mut Look,
    load: impl Fn(&[u8; BYTES]) -> (__m512, __m512i),
) -> usize {
    let sums = look.sums;
    let (lines_a, _) = stored.actual.as_chunks::<BYTES>();
    let (lines_e, _) = stored.expected.as_chunks::<BYTES>();
    let (out, _) = distances.as_chunks_mut::<WIDTH>();
    let unsigned = _mm512_set1_epi32(i32::MAX);
    let size =
        |number| _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(number), unsigned));
    let (rtol, atol) = (_mm512_set1_ps(allowance.rtol), _mm512_set1_ps(allowance.atol));
    let (slack, rel_so_far) = (_mm512_set1_ps(SLACK), _mm512_set1_ps(largest.rel));
    let (pivot, one) = (_mm512_set1_pd(sums.pivot), _mm512_set1_epi32(1));

    let mut over = 0;
    let mut near = _mm512_setzero_si512();
    let mut farthest = _mm512_setzero_si512();
    let (mut tiniest, mut smallest) = (_mm512_set1_epi32(-1), _mm512_set1_epi32(-1));
    let (mut rel, mut excess) = (_mm512_set1_ps(f32::MIN), _mm512_set1_ps(f32::MIN));
    let mut expected: __m512d = transmute!(sums.expected);
    let mut expected_squared: __m512d = transmute!(sums.expected_squared);
    let mut apart: __m512d = transmute!(sums.distance);
    let mut apart_squared: __m512d = transmute!(sums.distance_squared);
    let mut products: __m512d = transmute!(sums.product);

    for (place, ((a, e), out)) in lines_a.iter().zip(lines_e).zip(out).enumerate() {
        let line = place * BYTES..(place + 1) * BYTES;
        prefetch(stored.next.0.get(line.clone()).unwrap_or_default());
        prefetch(stored.next.1.get(line).unwrap_or_default());
        let ((a, bits_a), (e, bits_e)) = (load(a), load(e));

        let magnitude = size(e);
        let distance = size(_mm512_sub_ps(a, e));
        let allowed = _mm512_fmadd_ps(rtol, magnitude, atol);
        let beyond = _mm512_sub_ps(distance, allowed);
        over += _mm512_cmp_ps_mask::<_CMP_GT_OQ>(beyond, _mm512_setzero_ps()).count_ones();
        // Negative where it is within the slack, on either side.
        let clear = _mm512_fnmadd_ps(slack, allowed, size(beyond));
        near = _mm512_or_si512(near, _mm512_castps_si512(clear));
        // The bits of a NaN are more than those of infinity.
        farthest = _mm512_max_epu32(farthest, _mm512_castps_si512(distance));
        rel = _mm512_max_ps(_mm512_fnmadd_ps(rel_so_far, magnitude, distance), rel);
        excess = _mm512_max_ps(beyond, excess);

        // Zero wraps around.
        tiniest = _mm512_min_epu32(tiniest, _mm512_sub_epi32(_mm512_castps_si512(distance), one));
        let (size_a, size_e) =
            (_mm512_and_si512(bits_a, unsigned), _mm512_and_si512(bits_e, unsigned));
        smallest = _mm512_min_epu32(smallest, size_a);
        let other_sign = _mm512_movepi32_mask(_mm512_xor_si512(bits_a, bits_e));
        let steps = _mm512_abs_epi32(_mm512_sub_epi32(size_a, size_e));
        let steps = _mm512_mask_add_epi32(steps, other_sign, size_a, size_e);
        *out = transmute!(_mm512_srli_epi32::<SHIFT>(steps));

        for (a, e) in widened(a).into_iter().zip(widened(e)) {
            let distance = _mm512_sub_pd(a, e);
            let e = _mm512_sub_pd(e, pivot);
            expected = _mm512_add_pd(expected, e);
            expected_squared = _mm512_fmadd_pd(e, e, expected_squared);
            apart = _mm512_add_pd(apart, distance);
            apart_squared = _mm512_fmadd_pd(distance, distance, apart_squared);
            products = _mm512_fmadd_pd(e, distance, products);
        }
    }

    let farthest = f32::from_bits(_mm512_reduce_max_epu32(farthest));
    look.tiny |= _mm512_reduce_min_epu32(tiniest) < TINY;
    look.zeros |= _mm512_reduce_min_epu32(smallest) == 0;
    look.seen.join(Seen {
        over,
        is_unclear: farthest.is_nan() || _mm512_movepi32_mask(near) != 0,
        abs: farthest,
        rel: _mm512_reduce_max_ps(rel),
        excess: _mm512_reduce_max_ps(excess),
    });
    look.sums = Sums {
        pivot: sums.pivot,
        expected: transmute!(expected),
        expected_squared: transmute!(expected_squared),
        distance: transmute!(apart),
        distance_squared: transmute!(apart_squared),
        product: transmute!(products),
    };
    lines_a.len() * WIDTH
}

/// Two registers of what fits one.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn widened(numbers: __m512) -> [__m512d; 2] {
    let high = _mm512_extractf32x8_ps::<1>(numbers);
    [_mm512_cvtps_pd(_mm512_castps512_ps256(numbers)), _mm512_cvtps_pd(high)]
}
