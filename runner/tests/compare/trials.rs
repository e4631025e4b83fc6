//! Every symptom of TRIALS that is the comparator's, by its number: what people met in tools like
//! this one, as an input and the right answer.

use protocol::Number;
use protocol::evidence::Spread;

use crate::harness::*;

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;

/// N01: NaN at the same place agrees, NaN for a number does not, and all NaN is no plain pass.
#[test]
fn n01_nan_agrees_only_with_nan_at_the_same_place() {
    let both = close(float32(&[NAN, 1.0]), float32(&[NAN, 1.0]));
    assert!(both.held && !both.is_vacuous());
    let one = close(float32(&[NAN, 1.0]), float32(&[2.0, 1.0]));
    assert!(!one.held);
    assert_eq!(only(&one).figures.nonfinite_mismatched, 1);
    assert_eq!(only(&one).figures.worst_actual, Some(Number(f64::NAN)));
    let all = close(float32(&[NAN, NAN]), float32(&[NAN, NAN]));
    assert!(all.held && all.is_vacuous());
    assert_eq!(all.findings, ["0: vacuous: nothing finite was compared"]);
    let moved = close(float32(&[1.0, NAN]), float32(&[NAN, 1.0]));
    assert_eq!(only(&moved).figures.mismatched, 2);
    let all_wrong = close(float32(&[NAN, NAN]), float32(&[1.0, 2.0]));
    assert!(!all_wrong.held && !all_wrong.is_vacuous());
}

/// N02: a NaN in the expected values excuses its own place and no other.
#[test]
fn n02_a_nan_in_the_reference_excuses_its_place_only() {
    let comparison = close(float32(&[NAN, 999.0]), float32(&[NAN, 1.0]));
    assert!(!comparison.held);
    assert_eq!(only(&comparison).figures.mismatched, 1);
    assert_eq!(only(&comparison).figures.worst_index, Some(vec![1]));
}

/// N03: correlation with a constant is undefined, and is neither 1 nor a reason to pass.
#[test]
fn n03_correlation_of_a_constant_is_undefined() {
    let random: Vec<f32> = (0u16..100).map(|i| f32::from(i * 37 % 101) / 101.0).collect();
    for value in [1.0, 0.1, 1e-30] {
        let comparison = close(float32(&random), float32(&[value; 100]));
        assert!(!comparison.held);
        assert_eq!(only(&comparison).figures.pcc, None, "constant {value}");
    }
    let single = close(float32(&[2.0]), float32(&[1.0]));
    assert!(!single.held);
    assert_eq!(only(&single).figures.pcc, None);
    let equal = close(float32(&[1.0; 100]), float32(&[1.0; 100]));
    assert!(equal.held);
    assert_eq!(only(&equal).figures.pcc, None, "undefined for equal constants too");
}

/// N04: perfect correlation with values a million times too large, or with infinities.
#[test]
fn n04_similarity_passes_nothing() {
    let scaled = close(float32(&[1e3, 2e3, 3e3]), float32(&[1e-3, 2e-3, 3e-3]));
    assert!(!scaled.held);
    assert!(only(&scaled).figures.pcc.unwrap().0 > 0.999);
    assert!(only(&scaled).figures.cosine.unwrap().0 > 0.999);
    let infinite = close(float32(&[INF; 3]), float32(&[1e-3, 2e-3, 3e-3]));
    assert!(!infinite.held);
    assert_eq!(only(&infinite).figures.nonfinite_mismatched, 3);
    assert_eq!(only(&infinite).figures.pcc, None);
}

/// N06: the rule, the table and the reference are part of every result.
#[test]
fn n06_a_result_names_its_rule_table_and_reference() {
    for rule in ["close", "exact", "metadata", "statistical"] {
        let comparison = compare_leaves(&[float32(&[1.0])], &[float32(&[1.0])], rule);
        assert_eq!(comparison.rule, rule);
        assert_eq!(comparison.tolerance_id, runner::compare::ToleranceTable::embedded().id());
        assert_eq!(comparison.reference, "cpu float32");
    }
    let error =
        compare_bytes(&file_bytes(&[float32(&[1.0])]), &file_bytes(&[float32(&[1.0])]), "cosine");
    assert!(error.unwrap_err().to_string().contains("unknown rule `cosine`"));
}

/// N09: expected is inf + nan·j where the device has a finite part: named, and not a pass.
#[test]
fn n09_an_undefined_reference_is_named() {
    let complex = |real, imaginary| tensor("0", "complex64", &[1], f32_bytes(&[real, imaginary]));
    let comparison = close(complex(INF, 0.5), complex(INF, NAN));
    assert!(!comparison.held);
    assert!(has_finding(&comparison, "reference-undefined"), "{:?}", comparison.findings);
    assert_eq!(only(&comparison).figures.mismatched, 1);
    assert!(close(complex(INF, NAN), complex(INF, NAN)).held);
    assert!(!close(complex(-INF, NAN), complex(INF, NAN)).held);
    assert!(close(complex(INF, 0.5), complex(INF, 0.5)).held);
    assert!(!close(complex(INF, 0.6), complex(INF, 0.5)).held, "the finite part counts too");
}

/// N11: differences of integers neither wrap nor overflow.
#[test]
fn n11_integers_do_not_wrap() {
    let byte = |value: u8| tensor("0", "uint8", &[1], vec![value]);
    for (actual, expected) in [(0, 1), (1, 0)] {
        let comparison = close(byte(actual), byte(expected));
        assert!(!comparison.held);
        assert_eq!(only(&comparison).figures.max_abs_error, Some(Number(1.0)));
    }
    let long = |value: i64| tensor("0", "int64", &[1], value.to_le_bytes().to_vec());
    let ends = close(long(i64::MAX), long(i64::MIN));
    assert!(!ends.held);
    assert_eq!(only(&ends).figures.max_abs_error, Some(Number(2f64.powi(64))));
    let near = close(long(i64::MAX), long(i64::MAX - 1));
    assert!(!near.held, "not lost in a conversion to float64");
    assert_eq!(only(&near).figures.max_abs_error, Some(Number(1.0)));
    assert_eq!(only(&near).figures.rmse, Some(Number(1.0)));
    let flag = |value: u8| tensor("0", "bool", &[1], vec![value]);
    assert!(!close(flag(0), flag(1)).held);
    assert!(close(flag(1), flag(1)).held);
}

/// N12: float8 has steps, a NaN, and no infinity in one of its forms.
#[test]
fn n12_float8_is_compared_in_its_own_steps() {
    let e4m3 = |codes: &[u8]| tensor("0", "float8_e4m3fn", &[codes.len() as u64], codes.to_vec());
    let far = close(e4m3(&[0x1d, 0x38]), e4m3(&[0x00, 0x38]));
    assert!(!far.held);
    assert_eq!(only(&far).figures.ulp_max, Some(Number(29.0)));
    assert_eq!(only(&far).figures.max_abs_error, Some(Number(0.101_562_5)));
    let next = close(e4m3(&[0x39]), e4m3(&[0x38]));
    assert!(next.held, "one step is within the tolerance of float8");
    assert_eq!(only(&next).figures.ulp_max, Some(Number(1.0)));
    assert!(close(e4m3(&[0x7f, 0x38]), e4m3(&[0xff, 0x38])).held, "NaN at the same place");
    assert!(!close(e4m3(&[0x7e, 0x38]), e4m3(&[0x7f, 0x38])).held, "448 is not NaN");
    let e5m2 = |code| tensor("0", "float8_e5m2", &[1], vec![code]);
    assert!(!close(e5m2(0x7b), e5m2(0x7c)).held, "57344 is not infinity");
    assert!(close(e5m2(0x7c), e5m2(0x7c)).held);
}

/// N13: a saturated half is not infinity, whatever `rtol · inf` is.
#[test]
fn n13_saturated_overflow_is_a_mismatch() {
    assert!(!close(float16(&[65504.0]), float16(&[INF])).held);
    assert!(!close(float16(&[INF]), float16(&[-INF])).held);
    assert!(close(float16(&[INF, 1.0]), float16(&[INF, 1.0])).held);
    // With a wider reference the overflow is that of the device's type.
    assert!(close(float16(&[INF]), wide_reference("float16", &[70_000.0])).held);
    assert!(!close(float16(&[65504.0]), wide_reference("float16", &[70_000.0])).held);
    assert!(close(float16(&[65504.0]), wide_reference("float16", &[65_510.0])).held);
    assert!(!close(float16(&[-INF]), wide_reference("float16", &[70_000.0])).held);
}

/// N15: a device that loses subnormal numbers must say so, though every `atol` would hide it.
#[test]
fn n15_flushed_subnormals_pass_where_they_are_declared() {
    let compare = |actual: &Leaf, expected: &Leaf, rule: &str, declared: &[&str]| {
        let declared = declared.iter().map(|dtype| (*dtype).to_owned()).collect();
        let sides = (std::slice::from_ref(actual), std::slice::from_ref(expected));
        compare_asked(sides.0, sides.1, rule, |request| request.flushed_dtypes = declared)
    };
    let (zero, tiny) = (float32(&[0.0, 1.0]), float32(&[1e-40, 1.0]));
    for rule in ["close", "exact"] {
        for declared in [&[][..], &["bfloat16"]] {
            let lost = compare(&zero, &tiny, rule, declared);
            assert!(!lost.held, "{rule}: atol must not hide it");
            assert!(has_finding(
                &lost,
                "1 subnormal numbers came out as zero, and the device does"
            ));
            assert_eq!(only(&lost).figures.mismatched, 1);
        }
        let declared = compare(&zero, &tiny, rule, &["float32"]);
        assert!(declared.held, "{rule}");
        assert!(has_finding(&declared, "came out as zero, as the device declares"));
        // A declaration excuses zeros in place of subnormal numbers, and nothing else.
        let other = compare(&float32(&[0.0]), &float32(&[2e-38]), "exact", &["float32"]);
        assert!(!other.held, "{rule}: the smallest normal number is not subnormal");
        let kept = compare(&tiny, &tiny, rule, &["float32"]);
        assert!(kept.held && kept.findings.is_empty(), "{:?}", kept.findings);
        let wrong = compare(&float32(&[1.0]), &float32(&[1e-40]), rule, &["float32"]);
        assert!(!wrong.held);
    }
    let parts = |values: &[f32]| tensor("0", "complex64", &[1], f32_bytes(values));
    let complex = compare(&parts(&[0.0, 1.0]), &parts(&[1e-40, 1.0]), "close", &[]);
    assert!(!complex.held);
    let complex = compare(&parts(&[0.0, 1.0]), &parts(&[1e-40, 1.0]), "close", &["float32"]);
    assert!(complex.held);
    // In half precision rounding alone gives such zeros, so the tolerance decides.
    let half = compare(&float16(&[0.0]), &float16(&[3e-6]), "close", &[]);
    assert!(half.held && has_finding(&half, "1 subnormal numbers came out as zero"));
}

/// N18: room grows with the number of addends in low precision, and 5 % is still wrong.
#[test]
fn n18_the_tolerance_of_a_sum_grows_with_its_addends() {
    let compare = |actual: f32, expected: f32, addends: Option<u64>| {
        compare_asked(&[float16(&[actual])], &[float16(&[expected])], "close", |request| {
            request.tolerance_class = "reduction".to_owned();
            request.addends = addends;
            request.spread = Some(Spread { repeats: 10, max_abs: Some(Number(0.03125)) });
        })
    };
    assert!(!compare(8.09, 8.0, None).held, "more than two roundings off");
    let grown = compare(8.09, 8.0, Some(65));
    assert!(grown.held, "{:?}", grown.findings);
    assert!(only(&grown).tolerance.rtol > 8.0 * 2e-3, "what was used is stored");
    assert_eq!(grown.addends, Some(65));
    assert_eq!(grown.spread.unwrap().repeats, 10);
    assert!(has_finding(&grown, "up to 65 numbers are added up in one place"));
    assert!(has_finding(&grown, "10 executions on the device are at most 0.03125 apart"));
    assert!(!compare(8.0 * 1.05, 8.0, Some(65)).held, "5 %");
}

/// N19: dropout is compared as a distribution, and three fakes of it fail.
#[test]
fn n19_the_fakes_of_dropout_fail() {
    let dropout = |seed: u32, kept: f32, of: u32| -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16
        };
        (0..1000).map(|_| if next() % 100 < of { 0.0 } else { kept }).collect()
    };
    let expected = float32(&dropout(1, 2.0, 50));
    let held = |actual: &[f32]| {
        compare_leaves(&[float32(actual)], std::slice::from_ref(&expected), "statistical").held
    };
    assert!(held(&dropout(2, 2.0, 50)), "another seed");
    assert!(!held(&[1.0; 1000]), "identity");
    assert!(!held(&[0.0; 1000]), "all zero");
    assert!(!held(&dropout(3, 1.0, 50)), "scale 1 instead of 2");
    assert!(!held(&dropout(4, 2.0, 30)), "another rate");
}

/// N25: empty outputs pass on equal shape and dtype only, and say that there was nothing.
#[test]
fn n25_empty_outputs_need_the_same_shape() {
    let empty = |shape: &[u64]| tensor("0", "float32", shape, Vec::new());
    let same = close(empty(&[0, 3]), empty(&[0, 3]));
    assert!(same.held && !same.is_vacuous());
    assert_eq!(same.findings, ["0: no elements"]);
    assert_eq!(only(&same).figures.max_abs_error, None);
    assert_eq!(only(&same).figures.ulp_max, None);
    assert!(!close(empty(&[0, 3]), empty(&[3, 0])).held);
    let other = tensor("0", "float64", &[0, 3], Vec::new());
    assert!(!close(empty(&[0, 3]), other).held);
}

/// "Found while checking": shapes never broadcast, and a result of NaN is no agreement.
#[test]
fn shapes_do_not_broadcast() {
    let comparison = close(float32(&[1.0; 3]), float32(&[1.0]));
    assert_eq!(comparison.findings, ["0: shape [3] where [1] was expected"]);
    assert!(!comparison.held);
}
