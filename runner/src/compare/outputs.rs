//! Two output files, in the order of the checks: structure, shape, dtype, strides as a note,
//! non-finite values, values.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use protocol::evidence::TensorComparison;
use protocol::worker_link::ToCompare;
use protocol::{Comparison, Figures, Number, Tolerance};

use super::addends;
use super::elements::DataType;
use super::error::CompareError;
use super::file::OutputFile;
use super::float::Scratch;
use super::leaf::{self, Leaf, LeafKind};
use super::relative;
use super::rules::{Rule, is_close};
use super::statistical;
use super::table::{ToleranceClass, ToleranceTable};
use super::tensors::{Compared, Pair};
use super::value_findings::{flushed_problem, value_notes, value_problems};

/// Most tensors listed in a result; those after it are compared all the same.
const MAX_LISTED: usize = 1_000;
/// Most findings listed in a result.
const MAX_FINDINGS: usize = 200;

/// Compares the device's outputs with the expected ones.
///
/// Held means: every leaf is there, of the right shape and dtype, and its values obey the rule.
/// Findings that do not count against it say `note:` or `vacuous:` or `no elements`: other strides,
/// zeros of the other sign, nothing finite to compare. An all-NaN output holds only where all-NaN
/// was expected, and is then [vacuous](Comparison::is_vacuous), which no page may show as a plain
/// pass. Where expected is NaN and actual is not, the comparison does not hold and the finding says
/// `reference-undefined`, for a person to look at the reference.
///
/// # Errors
///
/// A file that is missing, cut or lying, an unknown rule, class or dtype: nothing was learnt about
/// the backend.
pub fn compare_outputs(
    request: &ToCompare,
    table: &ToleranceTable,
) -> Result<Comparison, CompareError> {
    let rule = request.rule.parse().map_err(CompareError::UnknownRule)?;
    let class = request.tolerance_class.parse().map_err(CompareError::UnknownClass)?;
    let actual = Rc::new(OutputFile::open(Path::new(&request.actual))?);
    let expected = Rc::new(OutputFile::open(Path::new(&request.expected))?);
    let wide = match (rule, &request.wide) {
        (Rule::GpuRelative, Some(path)) => Some(Rc::new(OutputFile::open(Path::new(path))?)),
        (Rule::GpuRelative, None) => return Err(CompareError::NoWide),
        (Rule::Close | Rule::Exact | Rule::Metadata | Rule::Statistical, _) => None,
    };
    let mut comparer = Comparer {
        request,
        rule,
        class,
        table,
        actual,
        expected,
        wide,
        tensors: Vec::new(),
        findings: Findings::default(),
        scratch: Scratch::new(),
    };
    comparer.compare()?;
    for note in addends::notes(request) {
        comparer.findings.note(note);
    }
    let held = !comparer.findings.wrong;
    Ok(Comparison {
        label: request.label.clone(),
        held,
        rule: rule.to_string(),
        tolerance_id: table.id().to_owned(),
        reference: request.reference.clone(),
        tensors: comparer.tensors,
        findings: comparer.findings.lines(),
        addends: request.addends,
        spread: request.spread,
    })
}

/// Whether a file is one that could be compared: whole, honest, of known dtypes.
///
/// # Errors
///
/// What is wrong with it.
pub fn check_file(path: &Path) -> Result<(), CompareError> {
    OutputFile::open(path).map(drop)
}

/// What was found, with a cap on how much of it is kept.
#[derive(Default)]
struct Findings {
    lines: Vec<String>,
    dropped: usize,
    wrong: bool,
}

impl Findings {
    fn note(&mut self, line: String) {
        if self.lines.len() < MAX_FINDINGS {
            self.lines.push(line);
        } else {
            self.dropped += 1;
        }
    }

    fn wrong(&mut self, line: String) {
        self.wrong = true;
        self.note(line);
    }

    fn lines(mut self) -> Vec<String> {
        if self.dropped > 0 {
            self.lines.push(format!("note: {} further findings are not listed", self.dropped));
        }
        self.lines
    }
}

struct Comparer<'a> {
    request: &'a ToCompare,
    rule: Rule,
    class: ToleranceClass,
    table: &'a ToleranceTable,
    actual: Rc<OutputFile>,
    expected: Rc<OutputFile>,
    /// The same outputs in float64, for `gpu-relative`.
    wide: Option<Rc<OutputFile>>,
    tensors: Vec<TensorComparison>,
    findings: Findings,
    scratch: Scratch,
}

impl Comparer<'_> {
    fn compare(&mut self) -> Result<(), CompareError> {
        for problem in leaf::structure_problems(self.actual.leaves(), self.expected.leaves()) {
            self.findings.wrong(problem);
        }
        // Where the trees differ, what they share is still compared, to say more than "differs".
        let (actual, expected) = (Rc::clone(&self.actual), Rc::clone(&self.expected));
        let others: HashMap<&str, &Leaf> =
            expected.leaves().iter().map(|leaf| (leaf.path.as_str(), leaf)).collect();
        for leaf in actual.leaves() {
            let Some(other) = others.get(leaf.path.as_str()) else { continue };
            match (leaf.kind, other.kind) {
                (LeafKind::Tensor, LeafKind::Tensor) => self.compare_tensor(leaf, other)?,
                (LeafKind::Scalar, LeafKind::Scalar) => self.compare_scalar(leaf, other)?,
                (LeafKind::Other, LeafKind::Other) => self.compare_other(leaf, other),
                (LeafKind::None, LeafKind::None) => {}
                (
                    LeafKind::Tensor | LeafKind::Scalar | LeafKind::None | LeafKind::Other,
                    _, // Told already, as a difference of structure.
                ) => {}
            }
        }
        let hidden = self.tensors.len().saturating_sub(MAX_LISTED);
        if hidden > 0 {
            self.tensors.truncate(MAX_LISTED);
            self.findings.note(format!("note: {hidden} further tensors are not listed"));
        }
        Ok(())
    }

    /// The tolerance of an element type under the rule.
    fn tolerance(&self, data_type: DataType) -> Result<Tolerance, CompareError> {
        match self.rule {
            Rule::Exact => Ok(Tolerance::EXACT),
            Rule::Close | Rule::GpuRelative | Rule::Metadata | Rule::Statistical => {
                let tolerance = self.table.tolerance(self.class, data_type.name())?;
                Ok(addends::grown(tolerance, data_type, self.request.addends))
            }
        }
    }

    /// Whether the device declares that it flushes subnormal numbers of this type.
    fn flushes(&self, data_type: DataType) -> bool {
        let part = data_type.element.name();
        self.request.flushed_dtypes.iter().any(|dtype| dtype == part)
    }

    fn compare_tensor(&mut self, actual: &Leaf, expected: &Leaf) -> Result<(), CompareError> {
        let data_type = actual.data_type().expect("checked when the file was opened");
        let other_type = expected.data_type().expect("checked when the file was opened");
        let tolerance = self.tolerance(data_type)?;
        let problems = leaf::tensor_problems(actual, expected);
        let mut held = problems.is_empty();
        for problem in problems {
            self.findings.wrong(problem);
        }
        if let Some(note) = leaf::stride_note(actual, expected) {
            self.findings.note(note);
        }
        let comparable = actual.shape == expected.shape && data_type.complex == other_type.complex;
        let mut figures = Figures::default();
        if comparable && self.rule != Rule::Metadata {
            let (values_held, values) =
                self.compare_values(actual, expected, data_type, tolerance)?;
            held &= values_held;
            figures = values;
        }
        self.tensors.push(TensorComparison {
            path: actual.path.clone(),
            held,
            dtype: data_type.name().to_owned(),
            shape: actual.shape.clone(),
            tolerance,
            figures,
        });
        Ok(())
    }

    fn compare_values(
        &mut self,
        actual: &Leaf,
        expected: &Leaf,
        data_type: DataType,
        tolerance: Tolerance,
    ) -> Result<(bool, Figures), CompareError> {
        let files = (Rc::clone(&self.actual), Rc::clone(&self.expected));
        let (side, other) = (files.0.side(actual)?, files.1.side(expected)?);
        if side.element != data_type.element {
            return Err(self.actual.malformed(format!(
                "leaf `{}` says dtype `{}` and is stored as `{}`",
                actual.path,
                data_type.name(),
                files.0.tensor(actual)?.data_type.name()
            )));
        }
        let pair = Pair {
            actual: side,
            expected: other,
            complex: data_type.complex,
            tolerance,
            flushes: self.flushes(data_type),
        };
        let mut compared = pair.compare(&actual.shape, &mut self.scratch);
        if is_logits(&actual.path) {
            compared.figures.top1_agreement = pair.top1_agreement(&actual.shape).map(Number);
        }
        let mut problems = match self.rule {
            Rule::Statistical => statistical::problems(&pair),
            Rule::Close | Rule::Exact => value_problems(&compared, tolerance),
            Rule::GpuRelative if compared.figures.mismatched == 0 => Vec::new(),
            Rule::GpuRelative => self.relative_problems(actual, &pair, &compared, data_type)?,
            Rule::Metadata => Vec::new(),
        };
        let lost = flushed_problem(&compared, &pair, self.rule);
        let is_told = lost.is_some();
        problems.extend(lost);
        let held = problems.is_empty();
        for problem in problems {
            self.findings.wrong(format!("{}: {problem}", actual.path));
        }
        if is_told {
            // Close by the tolerance, and wrong all the same.
            let uncounted = if self.rule == Rule::Exact { 0 } else { compared.flushed };
            compared.figures.mismatched += uncounted;
            compared.flushed = 0;
        }
        for note in value_notes(&compared, held, self.rule, pair.flushes) {
            self.findings.note(format!("{}: {note}", actual.path));
        }
        Ok((held, compared.figures))
    }

    /// What is wrong by `gpu-relative` with values that are not close: nothing where they are as
    /// near to float64 as the expected ones.
    fn relative_problems(
        &mut self,
        leaf: &Leaf,
        pair: &Pair<'_>,
        compared: &Compared,
        data_type: DataType,
    ) -> Result<Vec<String>, CompareError> {
        let mut problems = value_problems(compared, pair.tolerance);
        // Integers and truth values are equal or they are not.
        let Some(limits) = self.table.relative(data_type.name()) else { return Ok(problems) };
        let path = &leaf.path;
        let wide_file = Rc::clone(self.wide.as_ref().expect("opened for this rule"));
        let Some(wide) = wide_file.leaves().iter().find(|other| other.path == *path) else {
            return Err(wide_file.malformed(format!("it has no leaf `{path}`")));
        };
        if wide.kind != LeafKind::Tensor || wide.shape != leaf.shape {
            return Err(wide_file.malformed(format!("its leaf `{path}` has another shape")));
        }
        let wide = wide_file.side(wide)?;
        let measured = relative::measure(pair, wide, &leaf.shape, &mut self.scratch);
        match relative::judge(&measured, limits) {
            Ok(()) => {
                self.findings.note(format!("note: {path}: {}", measured.describe()));
                problems.clear();
            }
            Err(failure) => problems.push(format!("{failure} ({})", measured.describe())),
        }
        Ok(problems)
    }

    /// Scalars: the same type, and the values by the rule. A Python float is compared as a
    /// `float32`, in which a device computed it.
    fn compare_scalar(&mut self, actual: &Leaf, expected: &Leaf) -> Result<(), CompareError> {
        let path = &actual.path;
        if actual.dtype != expected.dtype {
            let name = |leaf: &Leaf| leaf.dtype.clone().unwrap_or_default();
            self.findings.wrong(format!(
                "{path}: a scalar of type `{}` where `{}` was expected",
                name(actual),
                name(expected)
            ));
        }
        let equal = match self.rule {
            Rule::Metadata | Rule::Statistical => true,
            Rule::Exact => scalars_agree(actual, expected, Tolerance::EXACT),
            Rule::Close | Rule::GpuRelative => {
                scalars_agree(actual, expected, self.table.tolerance(self.class, "float32")?)
            }
        };
        if !equal {
            self.findings.wrong(format!(
                "{path}: {} where {} was expected",
                short(&actual.value),
                short(&expected.value)
            ));
        }
        Ok(())
    }

    fn compare_other(&mut self, actual: &Leaf, expected: &Leaf) {
        if actual.dtype != expected.dtype || actual.value != expected.value {
            self.findings.wrong(format!(
                "{}: {} where {} was expected",
                actual.path,
                short(&actual.value),
                short(&expected.value)
            ));
        }
    }
}

/// Whether two scalars agree: floats and the parts of complex numbers by the tolerance, anything
/// else by equality.
fn scalars_agree(actual: &Leaf, expected: &Leaf, tolerance: Tolerance) -> bool {
    let close = |(actual, expected): (&serde_json::Value, &serde_json::Value)| {
        let numbers = (leaf::scalar_number(actual), leaf::scalar_number(expected));
        matches!(numbers, (Some(actual), Some(expected)) if is_close(actual, expected, tolerance))
    };
    match (expected.dtype.as_deref(), &actual.value, &expected.value) {
        (Some("float"), actual, expected) => close((actual, expected)),
        (Some("complex"), serde_json::Value::Array(actual), serde_json::Value::Array(expected)) => {
            actual.len() == expected.len() && actual.iter().zip(expected).all(close)
        }
        (_, actual, expected) => actual == expected,
    }
}

/// Whether a leaf holds logits: its last name says so.
fn is_logits(path: &str) -> bool {
    path.rsplit('.').next().is_some_and(|name| name.contains("logits"))
}

/// A JSON value, shortened for a message.
fn short(value: &serde_json::Value) -> String {
    format!("`{}`", value.to_string().chars().take(80).collect::<String>())
}
