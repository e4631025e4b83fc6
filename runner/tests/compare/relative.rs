//! The rule `gpu-relative`, on files: device under test, golden, float64.

use runner::compare::{CompareError, ToleranceTable, compare_outputs};

use crate::harness::{Leaf, f32_bytes, file_bytes, has_finding, request, tensor};
use protocol::Comparison;

const LENGTH: usize = 1_000;

/// What the model gives in float64: numbers of order 1.
fn wide() -> Vec<f64> {
    (0..LENGTH).map(|at| 1.0 + (at as f64 * 0.37).sin()).collect()
}

/// The same with an error of this size, of either sign by turns.
fn off_by(error: f64) -> Vec<f64> {
    let sign = |at: usize| if at.is_multiple_of(2) { 1.0 } else { -1.0 };
    wide().iter().enumerate().map(|(at, value)| value + sign(at) * error).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "that is the point")]
fn leaf(dtype: &str, values: &[f64]) -> Leaf {
    let bytes = match dtype {
        "float64" => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        "float32" => f32_bytes(&values.iter().map(|value| *value as f32).collect::<Vec<_>>()),
        "bfloat16" => values
            .iter()
            .flat_map(|value| half::bf16::from_f64(*value).to_bits().to_le_bytes())
            .collect(),
        "float16" => values
            .iter()
            .flat_map(|value| half::f16::from_f64(*value).to_bits().to_le_bytes())
            .collect(),
        "int64" => values.iter().flat_map(|value| (*value as i64).to_le_bytes()).collect(),
        other => panic!("no bytes for {other}"),
    };
    tensor("0", dtype, &[values.len() as u64], bytes)
}

fn compare(actual: Leaf, golden: Leaf, wide: Option<Leaf>) -> Result<Comparison, CompareError> {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, leaf: Leaf| {
        let path = folder.path().join(name);
        std::fs::write(&path, file_bytes(&[leaf])).unwrap();
        path
    };
    let (actual, golden) = (write("actual", actual), write("golden", golden));
    let mut question = request(&actual, &golden, "gpu-relative");
    question.tolerance_class = "model".to_owned();
    question.wide = wide.map(|leaf| write("wide", leaf).display().to_string());
    compare_outputs(&question, &ToleranceTable::embedded())
}

fn relative(dtype: &str, actual: &[f64], golden: &[f64]) -> Comparison {
    let wide = Some(leaf("float64", &wide()));
    let comparison = compare(leaf(dtype, actual), leaf(dtype, golden), wide).unwrap();
    assert_eq!(comparison.rule, "gpu-relative");
    comparison
}

#[test]
fn as_good_as_the_golden_holds_and_worse_does_not() {
    // Errors of the device and of the golden: far beyond what is close to one another.
    for (dtype, golden, actual, held) in [
        ("float32", 2e-3, -2e-3, true),
        ("float32", 2e-3, 3.9e-3, true),
        ("float32", 2e-3, 4.1e-3, false),
        // Better than the golden, and not close to it.
        ("float32", 5e-3, 0.0, true),
        // A golden that is exact leaves what rounding costs, not a per cent.
        ("float32", 0.0, 1e-2, false),
        // A golden that is off by more than a hundredth of the outputs measures nothing.
        ("float32", 5e-2, 4e-2, false),
        ("bfloat16", 3e-2, -8e-2, true),
        ("bfloat16", 3e-2, -1e-1, false),
        ("float16", 1e-2, -2.8e-2, true),
        ("float16", 1e-2, -3.2e-2, false),
        // Nothing wider to be measured against.
        ("float64", 1e-3, -1e-3, false),
    ] {
        let comparison = relative(dtype, &off_by(actual), &off_by(golden));
        let what = format!("{dtype} {golden} {actual}: {:?}", comparison.findings);
        assert_eq!(comparison.held, held, "{what}");
        assert!(comparison.tensors[0].figures.mismatched > 0, "close already: {what}");
        assert_eq!(comparison.tensors[0].held, held, "{what}");
        if held {
            assert!(has_finding(&comparison, "note: 0: RMSE to float64"), "{what}");
        }
    }
}

#[test]
fn what_is_close_needs_no_float64_to_be_better() {
    let comparison = relative("float32", &off_by(1e-6), &off_by(0.0));
    assert!(comparison.held && comparison.findings.is_empty(), "{:?}", comparison.findings);
}

#[test]
fn one_wrong_element_does_not_hide_in_the_average() {
    let mut actual = off_by(2e-3);
    actual[500] += 2e-2;
    let comparison = relative("float32", &actual, &off_by(-2e-3));
    assert!(!comparison.held);
    assert!(has_finding(&comparison, "largest error above"), "{:?}", comparison.findings);
}

#[test]
fn a_scaled_output_of_perfect_correlation_does_not_hold() {
    let actual: Vec<f64> = wide().iter().map(|value| value * 1.01).collect();
    let comparison = relative("float32", &actual, &off_by(1e-6));
    assert!(!comparison.held);
    assert!(comparison.tensors[0].figures.pcc.unwrap().0 > 0.999_999);
}

#[test]
fn what_is_not_finite_is_never_as_good() {
    for (actual_value, golden_value) in [
        (f64::NAN, 1.0),
        (f64::INFINITY, 1.0),
        (f64::NEG_INFINITY, f64::INFINITY),
        (1.0, f64::NAN),
        // Both NaN where float64 is a number, beside an element that is not close.
        (f64::NAN, f64::NAN),
        (f64::INFINITY, f64::INFINITY),
    ] {
        let (mut actual, mut golden) = (off_by(2e-3), off_by(-2e-3));
        actual[7] = actual_value;
        golden[7] = golden_value;
        let comparison = relative("float32", &actual, &golden);
        assert!(!comparison.held, "{actual_value} {golden_value}");
    }
}

#[test]
fn shape_dtype_and_integers_are_as_strict_as_ever() {
    let short = &wide()[1..];
    assert!(!relative("float32", short, &wide()).held);
    let other =
        compare(leaf("float16", &wide()), leaf("float32", &wide()), Some(leaf("float64", &wide())));
    assert!(!other.unwrap().held);
    let other = relative("int64", &off_by(1.0), &wide());
    assert!(!other.held, "{:?}", other.findings);
}

#[test]
fn without_float64_of_the_same_shape_nothing_is_learnt() {
    let (actual, golden) = (|| leaf("float32", &off_by(2e-3)), || leaf("float32", &off_by(-2e-3)));
    let none = compare(actual(), golden(), None).unwrap_err();
    assert!(none.to_string().contains("float64"), "{none}");
    let short = compare(actual(), golden(), Some(leaf("float64", &wide()[1..]))).unwrap_err();
    assert!(short.to_string().contains("another shape"), "{short}");
    let mut named = leaf("float64", &wide());
    named.structure["path"] = "1".into();
    let missing = compare(actual(), golden(), Some(named)).unwrap_err();
    assert!(missing.to_string().contains("no leaf `0`"), "{missing}");
}

#[test]
fn the_worst_elements_are_shown_with_what_they_are_in_float64() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, leaf: Leaf| {
        let path = folder.path().join(name);
        std::fs::write(&path, file_bytes(&[leaf])).unwrap();
        path
    };
    let actual = write("actual", leaf("float32", &[1.0, 2.0, 3.5, 4.0]));
    let golden = write("golden", leaf("float32", &[1.0, 2.0, 3.0, 4.0]));
    let wide = write("wide", leaf("float64", &[1.0, 2.0, 3.000_000_1, 4.0]));
    let tolerances =
        [("0".to_owned(), protocol::Tolerance { rtol: 1e-5, atol: 1e-5 })].into_iter().collect();
    let shown = |wide: Option<&std::path::Path>| {
        let found = runner::compare::details(&actual, &golden, wide, &tolerances, 3).unwrap();
        let worst = &found[0].worst[0];
        (worst.index.clone(), worst.float64.map(|number| number.0))
    };
    assert_eq!(shown(Some(&wide)), (vec![2], Some(3.000_000_1)));
    assert_eq!(shown(None), (vec![2], None));
}
