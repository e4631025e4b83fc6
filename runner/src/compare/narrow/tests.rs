//! The narrow way beside the general one.

use half::{bf16, f16};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::compare::elements::Element;
use crate::compare::float::{Scratch, scan_with};
use crate::compare::tensors::Side;

const TYPES: [Element; 3] = [Element::Float32, Element::Bfloat16, Element::Float16];

fn bytes(element: Element, values: &[f32]) -> Vec<u8> {
    let one = |value: &f32| match Narrow::from_element(element).unwrap() {
        Narrow::Bfloat16 => bf16::from_f32(*value).to_le_bytes().to_vec(),
        Narrow::Float16 => f16::from_f32(*value).to_le_bytes().to_vec(),
        Narrow::Float32 => value.to_le_bytes().to_vec(),
    };
    values.iter().flat_map(one).collect()
}

type Told = (protocol::Figures, u64, [Option<u64>; 3]);

/// Figures, zeros in place of subnormal numbers, and percentiles: by the general way alone, and
/// with the narrow one, whose vectors change nothing.
fn both_ways(
    element: Element,
    tolerance: Tolerance,
    actual: &[f32],
    expected: &[f32],
) -> [Told; 2] {
    let (actual, expected) = (bytes(element, actual), bytes(element, expected));
    let side = |bytes| Side { element, bytes, map: None };
    let pair = Pair {
        actual: side(&actual),
        expected: side(&expected),
        complex: false,
        tolerance,
        flushes: false,
    };
    let told = |allowance, vectors| {
        let (mut summary, mut scratch) = (Summary::default(), Scratch::new());
        let range = 0..pair.numbers();
        scan_with(allowance, vectors, &pair, range, &mut summary, &mut scratch);
        let ulps = &mut scratch.ulps;
        let places = [ulps.percentile(50), ulps.percentile(99), ulps.max()];
        (summary.figures(&[pair.numbers() as u64]), summary.flushed, places)
    };
    let narrow = told(Allowance::of(&pair), Vectors::None);
    #[cfg(target_arch = "x86_64")]
    {
        let has = match Vectors::widest() {
            Vectors::Avx512 => &[Vectors::Avx2, Vectors::Avx512][..],
            Vectors::Avx2 => &[Vectors::Avx2],
            Vectors::None => &[],
        };
        for vectors in has {
            let told = told(Allowance::of(&pair), *vectors);
            assert_eq!(narrow, told, "{vectors:?}, to the last bit");
        }
    }
    [told(None, Vectors::None), narrow]
}

/// Sums are rounded in another order; correlation and cosine go on from them.
fn assert_same([general, narrow]: [Told; 2]) {
    let near = |left: Option<protocol::Number>, right: Option<protocol::Number>| match (left, right)
    {
        (Some(left), Some(right)) => {
            assert!(
                (left.0 - right.0).abs() <= 1e-9 * left.0.abs().max(1e-9),
                "{left:?} {right:?}"
            );
        }
        (left, right) => assert_eq!(left, right),
    };
    near(general.0.rmse, narrow.0.rmse);
    near(general.0.pcc, narrow.0.pcc);
    near(general.0.cosine, narrow.0.cosine);
    let rounded = |figures: protocol::Figures| protocol::Figures {
        rmse: None,
        pcc: None,
        cosine: None,
        ..figures
    };
    assert_eq!(rounded(general.0), rounded(narrow.0));
    assert_eq!((general.1, general.2), (narrow.1, narrow.2));
}

/// Mostly plain, sometimes any bits at all, sometimes one of the awkward.
fn number(random: &mut StdRng) -> f32 {
    const AWKWARD: [f32; 8] =
        [0.0, -0.0, f32::MIN_POSITIVE / 3.0, f32::MAX, -f32::MAX, 1e-30, 65504.0, 1e-7];
    match random.random_range(0..400) {
        0 => f32::from_bits(random.random()),
        1 => *AWKWARD.choose(random).unwrap(),
        _ => random.random_range(-4.0..4.0),
    }
}

#[test]
fn it_says_what_the_general_way_says() {
    let tolerances = [(1.3e-6, 1e-5), (0.0, 0.0), (0.0, 0.25), (1e-3, 0.0), (1e-40, 1e-40)];
    let mut random = StdRng::seed_from_u64(7);
    for round in 0..900 {
        let expected: Vec<f32> =
            (0..random.random_range(1..2500)).map(|_| number(&mut random)).collect();
        let noise = *[0.0f32, 1e-7, 1.3e-6, 1e-3, 0.5].choose(&mut random).unwrap();
        let noisy = |value: &f32| value * (1.0 + noise * random.random::<f32>());
        let mut actual: Vec<f32> = expected.iter().map(noisy).collect();
        let at = random.random_range(0..actual.len());
        actual[at] = number(&mut random);
        let (rtol, atol) = tolerances[round % tolerances.len()];
        let element = TYPES[round % TYPES.len()];
        assert_same(both_ways(element, Tolerance { rtol, atol }, &actual, &expected));
    }
}

/// A pair at its limit, a step within it and a step beyond.
#[test]
fn rounding_decides_nothing_at_the_limit() {
    let tolerance = Tolerance { rtol: 1e-3, atol: 1e-5 };
    for value in [1.0f32, 3.7, 1e4, 2e-3] {
        let expected = vec![value; 1100];
        let limit = f64::from(value) + tolerance.allowed(f64::from(value));
        for steps in -3..=3i32 {
            #[expect(clippy::cast_possible_truncation, reason = "the nearest is meant")]
            let near = (limit as f32).to_bits().cast_signed() + steps;
            let mut actual = expected.clone();
            actual[777] = f32::from_bits(near.cast_unsigned());
            let both = both_ways(Element::Float32, tolerance, &actual, &expected);
            let beyond = (f64::from(actual[777]) - f64::from(value)).abs()
                > tolerance.allowed(f64::from(value));
            assert_eq!(both[1].0.mismatched, u64::from(beyond), "{value} {steps}");
            assert_same(both);
        }
    }
}

/// Relative errors beyond the range of float32, the larger one in a later chunk.
#[test]
fn a_relative_error_over_the_range_of_float32_does_not_hide_a_larger_one() {
    let mut actual = vec![1.0f32; 3 * CHUNK];
    let mut expected = actual.clone();
    (actual[5], expected[5]) = (1e34, 1e-5);
    // Less far apart, so that nothing else draws the eye.
    (actual[2 * CHUNK + 7], expected[2 * CHUNK + 7]) = (1e33, 1e-10);
    let tolerance = Tolerance { rtol: 1.3e-6, atol: 1e-5 };
    let both = both_ways(Element::Float32, tolerance, &actual, &expected);
    assert!(both[1].0.max_rel_error.unwrap().0 > 1e42);
    assert_same(both);
}

/// Relative errors whose products with so small a number float32 rounds up to the next.
#[test]
fn a_larger_relative_error_of_subnormal_numbers_is_found() {
    let subnormal = |steps: u32| f32::from_bits(steps);
    for (earlier, steps) in [(5, 3), (9, 7), (40, 27), (1 << 20, 1 << 19)] {
        let mut expected = vec![1.0f32; 2 * CHUNK];
        (expected[1], expected[CHUNK + 1]) = (subnormal(earlier), subnormal(steps));
        let mut actual = expected.clone();
        (actual[1], actual[CHUNK + 1]) = (subnormal(earlier + 1), subnormal(steps + 1));
        let tolerance = Tolerance { rtol: 1.3e-6, atol: 1e-5 };
        let both = both_ways(Element::Float32, tolerance, &actual, &expected);
        assert_eq!(both[0].0.max_rel_error.unwrap().0, 1.0 / f64::from(steps));
        assert_same(both);
    }
}

/// The sums of one side are made of those of the other and of what is between them.
#[test]
fn correlation_is_right_where_sums_cancel() {
    let mut random = StdRng::seed_from_u64(11);
    let mut spread = |middle: f32, width: f32| -> Vec<f32> {
        (0..3 * CHUNK + 5).map(|_| middle + width * random.random_range(-1.0..1.0f32)).collect()
    };
    let sides = [
        spread(0.0, 0.0),
        spread(1.0, 0.0),
        spread(0.0, 1.0),
        spread(0.5, 1e-6),
        spread(1000.0, 1.0),
        spread(-1.0, 1e-3),
        spread(0.0, 1e6),
    ];
    let tolerance = Tolerance { rtol: 1.3e-6, atol: 1e-5 };
    for element in TYPES {
        for (actual, expected) in sides.iter().flat_map(|a| sides.iter().map(move |e| (a, e))) {
            assert_same(both_ways(element, tolerance, actual, expected));
        }
    }
}
