//! Our answers against torch's and numpy's, on the fixtures that `fixtures/generate.py` writes.
//!
//! Element for element `close` must agree with `torch.isclose` on operands widened to `float64`.
//! Torch in the narrow dtype itself rounds the difference and the allowance to that dtype, so there
//! the two may differ, but only where those are nearer to each other than the dtype can tell.
//! Complex numbers with a non-finite part are the one documented difference. To torch all those with
//! a NaN part are equal; here the other part must agree too. Beside an infinite part torch wants the
//! other part equal; here it must be close.

use std::collections::BTreeSet;
use std::path::PathBuf;

use protocol::{Comparison, Figures, Number};
use runner::compare::{ToleranceTable, compare_outputs};
use safetensors::SafeTensors;
use serde_json::Value;

use crate::harness::*;

fn fixture(name: &str) -> PathBuf {
    // A larger set can be made elsewhere with the same script.
    let directory = option_env!("COMPARE_FIXTURES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/compare/fixtures"),
        PathBuf::from,
    );
    directory.join(name)
}

fn records() -> serde_json::Map<String, Value> {
    serde_json::from_slice(&std::fs::read(fixture("torch.json")).unwrap()).unwrap()
}

fn whole(flushed: &[&str]) -> Comparison {
    let mut request =
        request(&fixture("actual.safetensors"), &fixture("expected.safetensors"), "close");
    request.flushed_dtypes = flushed.iter().map(|dtype| (*dtype).to_owned()).collect();
    compare_outputs(&request, &ToleranceTable::embedded()).unwrap()
}

fn figures<'a>(comparison: &'a Comparison, path: &str) -> &'a Figures {
    &comparison.tensors.iter().find(|tensor| tensor.path == path).unwrap().figures
}

/// Which elements are not close, by comparing each as a tensor of its own.
fn not_close(dtype: &str) -> BTreeSet<u64> {
    let bytes = ["actual.safetensors", "expected.safetensors"]
        .map(|name| std::fs::read(fixture(name)).unwrap());
    let [actual, expected] = bytes.each_ref().map(|bytes| {
        SafeTensors::deserialize(bytes).unwrap().tensor(dtype).unwrap().data().to_vec()
    });
    let pairs = 1 + usize::from(dtype.starts_with("complex"));
    let size = pairs * tensor_size(dtype);
    let side = |bytes: &[u8], from: usize| -> Vec<Leaf> {
        bytes
            .chunks(size)
            .enumerate()
            .skip(from)
            .take(1000)
            .map(|(at, bytes)| tensor(&at.to_string(), dtype, &[], bytes.to_vec()))
            .collect()
    };
    let mut wrong = BTreeSet::new();
    for from in (0..actual.len() / size).step_by(1000) {
        // torch knows no device that loses subnormal numbers: here all are declared to.
        let comparison =
            compare_asked(&side(&actual, from), &side(&expected, from), "close", |request| {
                request.flushed_dtypes = FLUSHED.map(str::to_owned).to_vec();
            });
        let tensors = comparison.tensors.iter().filter(|tensor| !tensor.held);
        wrong.extend(tensors.map(|tensor| tensor.path.parse::<u64>().unwrap()));
    }
    wrong
}

const FLUSHED: [&str; 3] = ["float64", "float32", "bfloat16"];

fn tensor_size(dtype: &str) -> usize {
    match dtype {
        "float64" | "int64" | "uint64" | "complex128" => 8,
        "float32" | "int32" | "uint32" | "complex64" => 4,
        "bfloat16" | "float16" | "int16" | "uint16" => 2,
        _ => 1,
    }
}

fn set(record: &Value, key: &str) -> Option<BTreeSet<u64>> {
    Some(record.get(key)?.as_array()?.iter().map(|at| at.as_u64().unwrap()).collect())
}

/// Elements of which some part is not finite, on both sides.
fn partly_nonfinite(dtype: &str) -> BTreeSet<u64> {
    let sides = ["actual.safetensors", "expected.safetensors"].map(|name| {
        let bytes = std::fs::read(fixture(name)).unwrap();
        let data = SafeTensors::deserialize(&bytes).unwrap().tensor(dtype).unwrap().data().to_vec();
        let parts: Vec<bool> = match dtype {
            "complex128" => {
                data.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b).is_finite()).collect()
            }
            _ => data.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b).is_finite()).collect(),
        };
        parts.chunks(2).map(|finite| !(finite[0] && finite[1])).collect::<Vec<_>>()
    });
    let both = sides[0].iter().zip(&sides[1]).enumerate();
    both.filter(|(_, (a, e))| **a && **e).map(|(at, _)| at as u64).collect()
}

#[test]
fn close_agrees_with_torch_element_for_element() {
    let (whole, mut compared) = (whole(&FLUSHED), 0);
    for (dtype, record) in records() {
        let Some(torch) = set(&record, "not_close") else { continue };
        let ours = not_close(&dtype);
        let documented =
            if dtype.starts_with("complex") { partly_nonfinite(&dtype) } else { BTreeSet::new() };
        let differ: Vec<_> =
            ours.symmetric_difference(&torch).filter(|at| !documented.contains(at)).collect();
        assert!(differ.is_empty(), "{dtype}: elements {differ:?}");
        assert!(!torch.is_empty(), "{dtype}: nothing on the far side of the border");
        assert_eq!(figures(&whole, &dtype).mismatched, ours.len() as u64, "{dtype}");
        if let Some(native) = set(&record, "not_close_native") {
            let border = set(&record, "border").unwrap();
            let unexplained: Vec<_> = ours
                .symmetric_difference(&native)
                .filter(|at| !border.contains(at) && !documented.contains(at))
                .collect();
            assert!(unexplained.is_empty(), "{dtype} in itself: elements {unexplained:?}");
        }
        compared += 1;
    }
    assert_eq!(compared, 17, "dtypes");
}

fn number(value: &Value) -> f64 {
    serde_json::from_value::<Number>(value.clone()).unwrap().0
}

fn agrees(ours: Option<Number>, theirs: &Value, relative: f64, what: &str) {
    let (ours, theirs) = (ours.unwrap().0, number(theirs));
    let agree = ours == theirs || (ours - theirs).abs() <= relative * theirs.abs();
    assert!(agree, "{what}: {ours} here, {theirs} there");
}

#[test]
fn figures_agree_with_numpy() {
    let whole = whole(&[]);
    for (dtype, record) in records() {
        let figures = figures(&whole, &dtype);
        for (key, ours, relative) in [
            ("max_abs_error", figures.max_abs_error, 1e-15),
            ("max_rel_error", figures.max_rel_error, 1e-15),
            ("rmse", figures.rmse, 1e-12),
            ("pcc", figures.pcc, 1e-12),
            ("cosine", figures.cosine, 1e-12),
        ] {
            if let Some(theirs) = record.get(key) {
                agrees(ours, theirs, relative, &format!("{dtype} {key}"));
            }
        }
        if let Some(ulp) = record.get("ulp") {
            // More than 1024 distances are counted to eleven significant bits.
            let kept = |distance: &Value| {
                let distance = distance.as_u64().unwrap();
                let bits = if figures.elements > 1024 { 64 - distance.leading_zeros() } else { 0 };
                let cut = bits.saturating_sub(11);
                Value::from(distance >> cut << cut)
            };
            agrees(figures.ulp_p50, &kept(&ulp[0]), 0.0, &format!("{dtype} ulp p50"));
            agrees(figures.ulp_p99, &kept(&ulp[1]), 0.0, &format!("{dtype} ulp p99"));
            agrees(figures.ulp_max, &ulp[2], 0.0, &format!("{dtype} ulp max"));
        }
    }
}
