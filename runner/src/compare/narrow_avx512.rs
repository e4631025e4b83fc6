//! The sums of [`narrow`](super::narrow) with AVX-512: the same operations in the same order, with all
//! lanes of a sum in one register.

use std::arch::x86_64::*;

use super::narrow::LANES;
use super::narrow_sums::Sums;

/// Adds whole groups of lanes; gives what is left.
#[target_feature(enable = "avx512f")]
pub(super) fn sum<'a>(
    actual: &'a [f32],
    expected: &'a [f32],
    sums: &mut Sums,
) -> (&'a [f32], &'a [f32]) {
    let (groups_a, rest_a) = actual.as_chunks::<LANES>();
    let (groups_e, rest_e) = expected.as_chunks::<LANES>();
    let pivot = (_mm512_set1_pd(sums.pivot.0), _mm512_set1_pd(sums.pivot.1));
    let (mut sum_a, mut sum_e) = (whole(&sums.actual), whole(&sums.expected));
    let mut squares_a = whole(&sums.actual_squared);
    let mut squares_e = whole(&sums.expected_squared);
    let (mut products, mut squared) = (whole(&sums.product), whole(&sums.squared));
    for (a, e) in groups_a.iter().zip(groups_e) {
        let (a, e) = (whole(&a.map(f64::from)), whole(&e.map(f64::from)));
        let distance = _mm512_sub_pd(a, e);
        let (a, e) = (_mm512_sub_pd(a, pivot.0), _mm512_sub_pd(e, pivot.1));
        sum_a = _mm512_add_pd(sum_a, a);
        sum_e = _mm512_add_pd(sum_e, e);
        squares_a = _mm512_fmadd_pd(a, a, squares_a);
        squares_e = _mm512_fmadd_pd(e, e, squares_e);
        products = _mm512_fmadd_pd(a, e, products);
        squared = _mm512_fmadd_pd(distance, distance, squared);
    }
    *sums = Sums {
        pivot: sums.pivot,
        actual: lanes(sum_a),
        expected: lanes(sum_e),
        actual_squared: lanes(squares_a),
        expected_squared: lanes(squares_e),
        product: lanes(products),
        squared: lanes(squared),
    };
    (rest_a, rest_e)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn whole(lanes: &[f64; LANES]) -> __m512d {
    let [a, b, c, d, e, f, g, h] = *lanes;
    _mm512_setr_pd(a, b, c, d, e, f, g, h)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn lanes(vector: __m512d) -> [f64; LANES] {
    let mut lanes = [0.0; LANES];
    #[expect(unsafe_code, reason = "the only way out of a vector")]
    // SAFETY: there is room for as many as a vector has, and no alignment is asked for.
    unsafe {
        _mm512_storeu_pd(lanes.as_mut_ptr(), vector);
    }
    lanes
}
