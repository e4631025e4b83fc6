//! The order of the checks, the leaves that are no tensors, and the figures of single cases.

use protocol::{Number, Tolerance};
use serde_json::json;

use crate::harness::*;

fn scalar(path: &str, kind: &str, value: serde_json::Value) -> Leaf {
    plain(json!({"path": path, "kind": "scalar", "dtype": kind, "value": value}))
}

#[test]
fn structure_comes_before_everything_and_what_is_shared_is_still_compared() {
    let one = tensor("a", "float32", &[1], f32_bytes(&[1.0]));
    let other = tensor("a", "float32", &[1], f32_bytes(&[3.0]));
    let extra = tensor("b", "float32", &[1], f32_bytes(&[1.0]));
    let comparison = compare_leaves(&[one.clone(), extra], &[other], "close");
    assert!(!comparison.held);
    assert_eq!(comparison.findings[0], "structure: 2 leaves where 1 were expected");
    assert!(comparison.findings[1].starts_with("a: 1 of 1 elements differ"));
    let none = plain(json!({"path": "a", "kind": "none"}));
    let comparison = compare_leaves(std::slice::from_ref(&none), &[one], "close");
    assert_eq!(comparison.findings, ["a: none where tensor was expected"]);
    assert!(compare_leaves(std::slice::from_ref(&none), std::slice::from_ref(&none), "close").held);
}

#[test]
fn a_wrong_dtype_fails_with_right_values_and_keeps_its_figures() {
    let comparison = close(float16(&[1.0, 2.0]), float32(&[1.0, 2.0]));
    assert!(!comparison.held);
    assert_eq!(comparison.findings, ["0: dtype `float16` where `float32` was expected"]);
    assert_eq!(only(&comparison).figures.max_abs_error, Some(Number(0.0)));
    assert_eq!(only(&comparison).dtype, "float16");
}

#[test]
fn other_strides_are_a_note() {
    let with = |stride: [i64; 2]| {
        let mut leaf = tensor("0", "float32", &[2, 2], f32_bytes(&[1.0; 4]));
        leaf.structure["stride"] = json!(stride);
        leaf
    };
    let comparison = close(with([1, 2]), with([2, 1]));
    assert!(comparison.held);
    assert_eq!(comparison.findings, ["0: note: stride [1, 2] where [2, 1] was expected"]);
}

#[test]
fn scalars_compare_by_type_and_value() {
    let holds = |actual: Leaf, expected: Leaf| compare_leaves(&[actual], &[expected], "close").held;
    for (kind, value, other, held) in [
        ("int", json!(3), json!(3), true),
        ("int", json!(3), json!(4), false),
        ("int", json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992_i64), false),
        ("bool", json!(true), json!(false), false),
        ("float", json!(1.0), json!(1.000_001), true),
        ("float", json!(1.0), json!(1.1), false),
        ("float", json!("nan"), json!("nan"), true),
        ("float", json!("inf"), json!("inf"), true),
        ("float", json!("inf"), json!("-inf"), false),
        ("float", json!("nan"), json!(1.0), false),
        ("complex", json!([1.0, 2.0]), json!([1.0, 2.000_001]), true),
        ("complex", json!([1.0, 2.0]), json!([1.0, 2.1]), false),
        ("str", json!("a"), json!("a"), true),
        ("str", json!("a"), json!("b"), false),
    ] {
        let result = holds(scalar("0", kind, value.clone()), scalar("0", kind, other.clone()));
        assert_eq!(result, held, "{kind} {value} {other}");
    }
    assert!(!holds(scalar("0", "int", json!(1)), scalar("0", "float", json!(1.0))));
}

#[test]
fn the_rule_metadata_looks_at_no_value() {
    let comparison = compare_leaves(&[float32(&[1.0])], &[float32(&[f32::NAN])], "metadata");
    assert!(comparison.held && !comparison.is_vacuous());
    assert_eq!(only(&comparison).figures.elements, 0);
    let shapes = compare_leaves(&[float32(&[1.0])], &[float32(&[1.0, 1.0])], "metadata");
    assert!(!shapes.held);
}

#[test]
fn the_rule_exact_allows_nothing() {
    let next = 1.0f32.next_up();
    let exact = |a: &[f32], e: &[f32]| compare_leaves(&[float32(a)], &[float32(e)], "exact");
    assert!(!exact(&[next], &[1.0]).held);
    assert!(close(float32(&[next]), float32(&[1.0])).held);
    assert!(exact(&[1.0, f32::NAN, f32::INFINITY], &[1.0, f32::NAN, f32::INFINITY]).held);
    assert_eq!(only(&exact(&[1.0], &[1.0])).tolerance, Tolerance::EXACT);
}

#[test]
fn zeros_of_the_other_sign_are_counted_and_no_mismatch() {
    let comparison = close(float32(&[0.0, -0.0, 0.0]), float32(&[-0.0, 0.0, 0.0]));
    assert!(comparison.held);
    assert_eq!(only(&comparison).figures.sign_of_zero, 2);
    assert_eq!(only(&comparison).figures.ulp_max, Some(Number(0.0)));
    assert_eq!(comparison.findings, ["0: note: 2 zeros of the other sign"]);
}

#[test]
fn a_wide_reference_is_compared_unrounded_and_counted_in_the_devices_steps() {
    let comparison = close(float32(&[1.0]), wide_reference("float32", &[1.0 + 1e-9]));
    assert!(comparison.held);
    let figures = &only(&comparison).figures;
    assert_eq!(figures.ulp_max, Some(Number(0.0)), "1 + 1e-9 is 1 in float32");
    assert!((figures.max_abs_error.unwrap().0 - 1e-9).abs() < 1e-15);
    let comparison = close(float32(&[1.0f32.next_up()]), wide_reference("float32", &[1.0]));
    assert_eq!(only(&comparison).figures.ulp_max, Some(Number(1.0)));
}

#[test]
fn complex_numbers_are_close_by_modulus_and_counted_by_parts() {
    let complex =
        |parts: &[f32]| tensor("0", "complex64", &[parts.len() as u64 / 2], f32_bytes(parts));
    // A small imaginary part carries the rounding of a large real one.
    assert!(close(complex(&[1e6, 0.5]), complex(&[1e6, 0.0])).held);
    assert!(!close(complex(&[1e6, 5.0]), complex(&[1e6, 0.0])).held);
    let comparison = close(complex(&[0.0, 1.0, 2.0, 3.0]), complex(&[0.0, 1.0, 2.0, 4.0]));
    let figures = &only(&comparison).figures;
    assert_eq!((figures.elements, figures.mismatched), (2, 1));
    assert_eq!(figures.worst_index, Some(vec![1]));
    assert_eq!(figures.worst_actual, Some(Number(3.0)));
    assert_eq!(figures.max_rel_error, Some(Number(1.0 / 20f64.sqrt())));
}

#[test]
fn logits_agree_where_the_largest_is_at_the_same_place() {
    let logits = |values: &[f32]| {
        vec![tensor("logits", "float32", &[values.len() as u64 / 3, 3], f32_bytes(values))]
    };
    let expected = logits(&[1.0, 2.0, 3.0, 3.0, 2.0, 1.0, 5.0, 5.0, 0.0, 0.0, f32::NAN, 1.0]);
    let actual = logits(&[1.0, 2.0, 9.0, 3.0, 9.0, 1.0, 5.0, 5.0, 0.0, 0.0, f32::NAN, 1.0]);
    let comparison = compare_leaves(&actual, &expected, "close");
    assert_eq!(only(&comparison).figures.top1_agreement, Some(Number(0.75)));
    assert_eq!(only(&close(float32(&[1.0]), float32(&[1.0]))).figures.top1_agreement, None);
}

#[test]
fn large_tensors_have_the_figures_of_small_ones() {
    // Over several blocks and threads, with the worst element and a NaN in known places.
    const COUNT: usize = 1 << 21;
    let expected: Vec<f32> = (0..COUNT).map(|i| (i % 1000) as f32 - 499.5).collect();
    let mut actual = expected.clone();
    actual[COUNT - 3] += 100.0;
    actual[12_345] += 7.0;
    let shape = [2, COUNT as u64 / 2];
    let leaf = |values: &[f32]| tensor("0", "float32", &shape, f32_bytes(values));
    let comparison = close(leaf(&actual), leaf(&expected));
    let figures = &only(&comparison).figures;
    assert_eq!((figures.elements, figures.mismatched), (COUNT as u64, 2));
    assert_eq!(figures.worst_index, Some(vec![1, COUNT as u64 / 2 - 3]));
    assert_eq!(figures.max_abs_error, Some(Number(100.0)));
    assert_eq!(figures.ulp_p50, Some(Number(0.0)));
    let rmse = ((100.0f64 * 100.0 + 49.0) / COUNT as f64).sqrt();
    assert!((figures.rmse.unwrap().0 / rmse - 1.0).abs() < 1e-12);
    actual[777] = f32::NAN;
    let comparison = close(leaf(&actual), leaf(&expected));
    assert_eq!(only(&comparison).figures.worst_index, Some(vec![0, 777]));
}
