//! Writes output files and compares them, so that a test reads as two tensors and an answer.

use std::path::PathBuf;

use protocol::Comparison;
use protocol::evidence::TensorComparison;
use protocol::worker_link::ToCompare;
use runner::compare::{CompareError, ToleranceTable, compare_outputs};
use serde_json::{Value, json};

pub(crate) use crate::input::request;

/// One leaf with the bytes that are stored for it.
#[derive(Debug, Clone)]
pub(crate) struct Leaf {
    pub(crate) structure: Value,
    pub(crate) stored: Option<(&'static str, Vec<u64>, Vec<u8>)>,
}

/// safetensors' name of what is stored for PyTorch's dtype.
pub(crate) fn stored_name(dtype: &str) -> &'static str {
    match dtype {
        "float64" | "complex128" => "F64",
        "float32" | "complex64" => "F32",
        "float16" | "complex32" => "F16",
        "bfloat16" => "BF16",
        "float8_e4m3fn" => "F8_E4M3",
        "float8_e5m2" => "F8_E5M2",
        "int64" => "I64",
        "int32" => "I32",
        "int16" => "I16",
        "int8" => "I8",
        "uint8" => "U8",
        "uint16" => "U16",
        "uint32" => "U32",
        "uint64" => "U64",
        "bool" => "BOOL",
        other => panic!("no stored name for {other}"),
    }
}

/// A tensor of this dtype and shape from its bytes.
pub(crate) fn tensor(path: &str, dtype: &str, shape: &[u64], bytes: Vec<u8>) -> Leaf {
    let mut stored_shape = shape.to_vec();
    if dtype.starts_with("complex") {
        stored_shape.push(2);
    }
    let structure = json!({"path": path, "kind": "tensor", "dtype": dtype, "shape": shape,
        "stride": null, "value": null});
    Leaf { structure, stored: Some((stored_name(dtype), stored_shape, bytes)) }
}

/// A vector of `float32`.
pub(crate) fn float32(values: &[f32]) -> Leaf {
    tensor("0", "float32", &[values.len() as u64], f32_bytes(values))
}

/// An expected `float32` leaf whose reference is stored as `float64`.
pub(crate) fn wide_reference(dtype: &str, values: &[f64]) -> Leaf {
    let mut leaf = tensor("0", dtype, &[values.len() as u64], Vec::new());
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    leaf.stored = Some(("F64", vec![values.len() as u64], bytes));
    leaf
}

/// A vector of `float16`.
pub(crate) fn float16(values: &[f32]) -> Leaf {
    let bytes = values.iter().flat_map(|v| half::f16::from_f32(*v).to_bits().to_le_bytes());
    tensor("0", "float16", &[values.len() as u64], bytes.collect())
}

pub(crate) fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A leaf that stores nothing.
pub(crate) fn plain(structure: Value) -> Leaf {
    Leaf { structure, stored: None }
}

/// Bytes of a safetensors file with these leaves.
pub(crate) fn file_bytes(leaves: &[Leaf]) -> Vec<u8> {
    let structure: Vec<&Value> = leaves.iter().map(|leaf| &leaf.structure).collect();
    let structure = serde_json::to_string(&structure).unwrap();
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".to_owned(), json!({ "structure": structure }));
    let mut data = Vec::new();
    for leaf in leaves {
        if let Some((dtype, shape, bytes)) = &leaf.stored {
            let path = leaf.structure["path"].as_str().unwrap().to_owned();
            let offsets = [data.len(), data.len() + bytes.len()];
            data.extend_from_slice(bytes);
            header.insert(path, json!({"dtype": dtype, "shape": shape, "data_offsets": offsets}));
        }
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(&data);
    file
}

/// Writes bytes as the two sides and compares them.
pub(crate) fn compare_bytes(
    actual: &[u8],
    expected: &[u8],
    rule: &str,
) -> Result<Comparison, CompareError> {
    ask(actual, expected, rule, |_| {})
}

/// Compares two sets of leaves by a question that is changed first.
pub(crate) fn compare_asked(
    actual: &[Leaf],
    expected: &[Leaf],
    rule: &str,
    change: impl FnOnce(&mut ToCompare),
) -> Comparison {
    ask(&file_bytes(actual), &file_bytes(expected), rule, change).unwrap()
}

fn ask(
    actual: &[u8],
    expected: &[u8],
    rule: &str,
    change: impl FnOnce(&mut ToCompare),
) -> Result<Comparison, CompareError> {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| -> PathBuf {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let (actual, expected) = (write("actual", actual), write("expected", expected));
    let mut request = request(&actual, &expected, rule);
    change(&mut request);
    compare_outputs(&request, &ToleranceTable::embedded())
}

/// Compares two sets of leaves.
pub(crate) fn compare_leaves(actual: &[Leaf], expected: &[Leaf], rule: &str) -> Comparison {
    compare_bytes(&file_bytes(actual), &file_bytes(expected), rule).unwrap()
}

/// Compares two outputs of one leaf by the rule `close`.
pub(crate) fn close(actual: Leaf, expected: Leaf) -> Comparison {
    compare_leaves(&[actual], &[expected], "close")
}

/// The only tensor of a comparison.
pub(crate) fn only(comparison: &Comparison) -> &TensorComparison {
    assert_eq!(comparison.tensors.len(), 1);
    &comparison.tensors[0]
}

/// Whether a finding contains a text.
pub(crate) fn has_finding(comparison: &Comparison, text: &str) -> bool {
    comparison.findings.iter().any(|finding| finding.contains(text))
}
