//! One leaf of an output tree, as the worker describes it, and what two leaves must have in common
//! before any value is looked at.

use protocol::Number;
use serde::Deserialize;

use super::elements::DataType;

/// What a leaf is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum LeafKind {
    /// A tensor, stored under the leaf's path.
    Tensor,
    /// A number, bool or text, in `value`.
    Scalar,
    /// Python's `None`.
    None,
    /// Anything else, described by `value`.
    Other,
}

impl LeafKind {
    fn word(self) -> &'static str {
        match self {
            Self::Tensor => "tensor",
            Self::Scalar => "scalar",
            Self::None => "none",
            Self::Other => "other",
        }
    }
}

/// One leaf.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Leaf {
    /// Place in the tree: `0`, `logits`, `past_key_values.0.key`.
    pub(super) path: String,
    /// What it is.
    pub(super) kind: LeafKind,
    /// PyTorch's name of the element type, or Python's of the scalar's type.
    #[serde(default)]
    pub(super) dtype: Option<String>,
    /// Shape of a tensor, without the pair dimension of stored complex numbers.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub(super) shape: Vec<u64>,
    /// Strides of a tensor, in elements.
    #[serde(default)]
    pub(super) stride: Option<Vec<i64>>,
    /// Value of a scalar.
    #[serde(default)]
    pub(super) value: serde_json::Value,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Leaf {
    /// Whether elements are stored for it.
    pub(super) fn is_tensor(&self) -> bool {
        self.kind == LeafKind::Tensor
    }

    /// Whether a float or complex scalar has the numbers that it must have.
    pub(super) fn has_its_numbers(&self) -> bool {
        let is_number = |value: &serde_json::Value| scalar_number(value).is_some();
        match (self.kind, self.dtype.as_deref()) {
            (LeafKind::Scalar, Some("float")) => is_number(&self.value),
            (LeafKind::Scalar, Some("complex")) => {
                self.value.as_array().is_some_and(|it| it.len() == 2 && it.iter().all(is_number))
            }
            _ => true,
        }
    }

    /// Its element type, where that is known to the comparator.
    pub(super) fn data_type(&self) -> Option<DataType> {
        self.dtype.as_deref().and_then(DataType::from_name)
    }

    /// Elements of a tensor.
    pub(super) fn elements(&self) -> u64 {
        if self.shape.contains(&0) { 0 } else { self.shape.iter().product() }
    }
}

/// What is wrong with the trees themselves; empty when leaves pair up one to one.
pub(super) fn structure_problems(actual: &[Leaf], expected: &[Leaf]) -> Vec<String> {
    let mut problems = Vec::new();
    if actual.len() != expected.len() {
        problems.push(format!(
            "structure: {} leaves where {} were expected",
            actual.len(),
            expected.len()
        ));
    }
    for (actual, expected) in actual.iter().zip(expected) {
        if actual.path != expected.path {
            problems.push(format!(
                "structure: leaf `{}` where `{}` was expected",
                actual.path, expected.path
            ));
            // Everything after the first difference is shifted and would only repeat it.
            break;
        }
        if actual.kind != expected.kind {
            problems.push(format!(
                "{}: {} where {} was expected",
                actual.path,
                actual.kind.word(),
                expected.kind.word()
            ));
        }
    }
    problems
}

/// What is wrong with the shape or the dtype of a tensor leaf, in this order.
pub(super) fn tensor_problems(actual: &Leaf, expected: &Leaf) -> Vec<String> {
    let mut problems = Vec::new();
    let path = &actual.path;
    if actual.shape != expected.shape {
        problems.push(format!(
            "{path}: shape {:?} where {:?} was expected",
            actual.shape, expected.shape
        ));
    }
    if actual.data_type() != expected.data_type() {
        problems.push(format!(
            "{path}: dtype `{}` where `{}` was expected",
            actual.dtype.as_deref().unwrap_or(""),
            expected.dtype.as_deref().unwrap_or("")
        ));
    }
    problems
}

/// Other strides are worth knowing and are not wrong. Strides of dimensions of size 1 and of empty
/// tensors mean nothing.
pub(super) fn stride_note(actual: &Leaf, expected: &Leaf) -> Option<String> {
    let (Some(strides), Some(others)) = (&actual.stride, &expected.stride) else { return None };
    if actual.elements() == 0 || actual.shape != expected.shape {
        return None;
    }
    let differ = strides.len() != others.len()
        || actual.shape.iter().zip(strides.iter().zip(others)).any(|(n, (a, e))| *n > 1 && a != e);
    differ
        .then(|| format!("{}: note: stride {strides:?} where {others:?} was expected", actual.path))
}

/// A number in a scalar leaf: JSON's own, or the agreed spelling of a non-finite one.
pub(super) fn scalar_number(value: &serde_json::Value) -> Option<f64> {
    match value {
        serde_json::Value::Number(number) => number.as_f64(),
        serde_json::Value::String(_) => {
            serde_json::from_value::<Number>(value.clone()).ok().map(|number| number.0)
        }
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Array(_)
        | serde_json::Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(json: &str) -> Leaf {
        serde_json::from_str(json).unwrap()
    }

    fn tensor(shape: &[u64], dtype: &str, stride: &[i64]) -> Leaf {
        leaf(&format!(
            r#"{{"path":"0","kind":"tensor","dtype":"{dtype}","shape":{shape:?},"stride":{stride:?},"value":null}}"#
        ))
    }

    #[test]
    fn trees_differ_by_count_by_path_and_by_kind() {
        let a = leaf(r#"{"path":"a","kind":"none","shape":null}"#);
        let b = leaf(r#"{"path":"b","kind":"none"}"#);
        let a_scalar = leaf(r#"{"path":"a","kind":"scalar","dtype":"int","value":3}"#);
        let problems = structure_problems(&[a.clone(), b.clone()], std::slice::from_ref(&a));
        assert_eq!(problems, ["structure: 2 leaves where 1 were expected"]);
        let problems = structure_problems(std::slice::from_ref(&b), std::slice::from_ref(&a));
        assert_eq!(problems, ["structure: leaf `b` where `a` was expected"]);
        assert_eq!(structure_problems(&[a_scalar], &[a]), ["a: scalar where none was expected"]);
    }

    #[test]
    fn shape_is_named_before_dtype() {
        let problems =
            tensor_problems(&tensor(&[3], "float32", &[1]), &tensor(&[1], "float64", &[1]));
        assert_eq!(
            problems,
            [
                "0: shape [3] where [1] was expected",
                "0: dtype `float32` where `float64` was expected",
            ]
        );
        let same = tensor(&[3], "torch.float32", &[1]);
        assert!(tensor_problems(&same, &tensor(&[3], "float32", &[1])).is_empty());
    }

    #[test]
    fn strides_are_a_note_where_they_mean_something() {
        let plain = tensor(&[2, 3], "float32", &[3, 1]);
        let turned = tensor(&[2, 3], "float32", &[1, 2]);
        assert_eq!(
            stride_note(&turned, &plain).unwrap(),
            "0: note: stride [1, 2] where [3, 1] was expected"
        );
        assert_eq!(stride_note(&plain, &plain), None);
        let one_row = |stride| tensor(&[1, 3], "float32", stride);
        assert_eq!(stride_note(&one_row(&[3, 1]), &one_row(&[99, 1])), None);
        let empty = |stride| tensor(&[0, 3], "float32", stride);
        assert_eq!(stride_note(&empty(&[3, 1]), &empty(&[1, 1])), None);
    }
}
