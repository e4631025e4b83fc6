//! What backs an outcome. An outcome without its evidence is never shown as more than it is.

mod sweep;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use sweep::SweepPoint;

use crate::{Number, Outcome, Tolerance};

/// Everything observed in one attempt besides its outcome.
///
/// Absent means "not measured", which is not zero and not "none": `operators` is `None` when the
/// separate recording execution did not finish.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Evidence {
    /// Torch device string of the tensors that came out, for example `tpu:0`; several when they
    /// differ, comma separated. Empty when nothing came out.
    pub device_used: String,
    /// Overloads dispatched, with counts; recorded in a second execution so that recording cannot
    /// change the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operators: Option<BTreeMap<String, u64>>,
    /// Dtypes and shapes of the tensors that each of these overloads was given, for example
    /// `float32[2, 16], int64[2]`: the first few that differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator_inputs: Option<BTreeMap<String, Vec<String>>>,
    /// Overloads that the backend computed on the CPU instead.
    pub fallback_operators: Vec<String>,
    /// Graphs, recompiles and breaks of `torch.compile`; absent in the eager modes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graphs: Option<Graphs>,
    /// Peak device memory in bytes, where the device reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// Seconds spent per stage, keyed by [`crate::Stage`] word.
    pub stage_seconds: BTreeMap<String, f64>,
    /// One per output set compared; several for a sweep over sizes.
    pub comparisons: Vec<Comparison>,
    /// Sizes of a dynamism sweep, in the order executed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sweep: Vec<SweepPoint>,
    /// What the reference was: `cpu float64`, `cpu float32`, or a golden's id. Empty when none.
    pub reference: String,
    /// The error class that the reference raised too, when both sides raised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub both_raised: Option<BothRaised>,
    /// Seed of every generator.
    pub seed: u64,
    /// Names the graph of the model that was executed, as the worker saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph_signature: Option<String>,
    /// The case whose execution this is, when this one was not executed itself: its model has the
    /// same graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executed_as: Option<crate::CaseKey>,
    /// Last operator entered before a crash, timeout or error, and how it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_operator: Option<LastOperator>,
    /// Overloads that stand between the model and its end on this device, in the order met: found
    /// by a further execution that computed each of them on the CPU and went on. Absent when that
    /// was not tried or did not get to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blockers: Option<Vec<Blocker>>,
    /// Where in the model the device first gives something else than the host: found by a further,
    /// eager execution of both sides, module by module. Absent when that was not tried or found
    /// nothing; a note says which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_divergence: Option<FirstDivergence>,
    /// What the outputs of a model mean, on both sides; decides nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub model_figures: Vec<ModelFigure>,
    /// Paths that were replaced because the host cannot execute them, for example
    /// `scaled_dot_product_attention: math`.
    pub substitutions: Vec<String>,
    /// Findings that do not change the outcome: other strides, widened comparison, and so on.
    pub notes: Vec<String>,
    /// Python traceback of the failure, without the worker's own frames where possible.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub traceback: String,
    /// What the process wrote while the case ran.
    pub log: LogExcerpt,
    /// Signal that ended the worker, when one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Exit code of the worker, when it exited by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why the case was skipped, when it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_reason: Option<crate::SkipReason>,
    /// Python that executes just this case, when the worker could write one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub repro: String,
}

/// Graph counters of one case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Graphs {
    /// Graphs compiled.
    pub graph_count: u64,
    /// Graphs compiled again for a frame that had one.
    pub recompiles: u64,
    /// Graph breaks.
    pub graph_breaks: u64,
    /// Calls that ran outside any compiled graph because the recompile limit was hit.
    pub eager_calls: u64,
    /// Reasons, as the compiler words them, shortened.
    pub reasons: Vec<String>,
}

/// Both the device and the reference raised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BothRaised {
    /// Error class on the device.
    pub actual: String,
    /// Error class of the reference.
    pub expected: String,
}

/// The operator in whose kernel the process was, as far as known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LastOperator {
    /// Overload, for example `aten::scatter_reduce.two`.
    pub overload: String,
    /// `message` (the error names it), `breadcrumb` (it was entered and not left, in the execution
    /// that decided), `entered-last` (nothing was in flight any more), or `rerun` (a second execution, one operator at a time, stopped there).
    pub source: String,
}

/// An overload that a model needs and the device does not execute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Blocker {
    /// The overload; without its overload name where only a native crash names it.
    pub overload: String,
    /// How it ended: `unsupported`, `error`, `crash`, `host-limit`, … .
    pub outcome: Outcome,
    /// First line of what it said.
    pub message: String,
}

/// What one output of a model means, the device against the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ModelFigure {
    /// `top-1 agreement`, `top-5 agreement`, `KL divergence` (nats), `perplexity`,
    /// `error by scale` (RMSE over the root mean square of the reference), `sentence similarity`
    /// (smallest cosine between the two sides), `similarity between sentences` (cosine, at the pair
    /// that differs most).
    pub name: String,
    /// Place in the output tree.
    pub path: String,
    /// Agreement, distance, or device less reference; absent where it is not finite.
    pub value: Option<Number>,
    /// On the device, where each side has a figure of its own.
    pub actual: Option<Number>,
    /// In the reference, likewise.
    pub expected: Option<Number>,
}

impl std::fmt::Display for ModelFigure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |number: Option<Number>| number.map_or("–".to_owned(), |n| n.to_string());
        write!(f, "{} of {}: ", self.name, self.path)?;
        match (self.actual, self.expected) {
            (None, None) => write!(f, "{}", text(self.value)),
            (actual, expected) => write!(f, "{}, expected {}", text(actual), text(expected)),
        }
    }
}

/// The first call of a module that makes something else on the device than on the host, from
/// inputs that agreed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FirstDivergence {
    /// Path of the module in the model, `model.layers.0.mlp`; empty for the model itself.
    pub module: String,
    /// Its class.
    pub kind: String,
    /// Which call of this module it was, from 1.
    pub call: u64,
    /// How it differs, in one line.
    pub finding: String,
    /// Largest absolute error of the first tensor that differs, over finite pairs; absent where
    /// values were not compared.
    pub max_abs_error: Option<Number>,
    /// Element type of that tensor on the device.
    pub dtype: String,
    /// Its shape there.
    pub shape: Vec<u64>,
    /// Calls of modules whose outputs had agreed by then.
    pub modules_agreed: u64,
    /// The operator to blame inside of it; absent where none differs on its own.
    pub operator: Option<DivergingOperator>,
}

impl std::fmt::Display for FirstDivergence {
    /// For people, in one line, the operator first where it is known.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(operator) = &self.operator {
            let call =
                if operator.call > 1 { format!(", call {}", operator.call) } else { String::new() };
            write!(f, "`{}`{call} in ", operator.overload)?;
        }
        match self.module.as_str() {
            "" => write!(f, "the model itself ({})", self.kind)?,
            module => write!(f, "`{module}` ({})", self.kind)?,
        }
        if self.call > 1 {
            write!(f, ", call {}", self.call)?;
        }
        let finding = self.operator.as_ref().map_or(&self.finding, |operator| &operator.finding);
        write!(f, ": {finding}")
    }
}

/// An operator whose answer on the device is not that of the host, from equal inputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DivergingOperator {
    /// The overload.
    pub overload: String,
    /// Which call of this overload inside the module's call it was, from 1.
    pub call: u64,
    /// How it differs, in one line.
    pub finding: String,
    /// Largest absolute error of the first tensor that differs, over finite pairs; absent where
    /// values were not compared.
    pub max_abs_error: Option<Number>,
    /// Element type of that tensor on the device.
    pub dtype: String,
    /// Its shape there.
    pub shape: Vec<u64>,
    /// Element type and shape of each tensor that it was given: `float32[2, 16]`.
    pub inputs: Vec<String>,
    /// Python that executes just this operator on these inputs; empty where there is none.
    pub repro: String,
    /// Name of that script in `repros/` of the run's folder, beside the tensors that it loads;
    /// empty where it was not kept.
    pub repro_file: String,
}

/// Head and tail of the worker's log for one case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LogExcerpt {
    /// First bytes, as lossy UTF-8.
    pub head: String,
    /// Last bytes, when the whole did not fit in the head.
    pub tail: String,
    /// Bytes between head and tail that were not kept.
    pub dropped_bytes: u64,
}

/// One set of outputs compared with its expectation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Which output set: empty for the only one, `S=16` in a sweep.
    #[serde(default)]
    pub label: String,
    /// Whether it held.
    pub held: bool,
    /// Rule applied: `close`, `exact`, `gpu-relative`, `statistical`, `metadata`.
    pub rule: String,
    /// Id of the tolerance table, `<version>+<first 12 hex digits of its hash>`.
    pub tolerance_id: String,
    /// What expected values came from.
    pub reference: String,
    /// One per output tensor, in tree order.
    pub tensors: Vec<TensorComparison>,
    /// What was wrong, in one line each: structure, shape, dtype, values.
    pub findings: Vec<String>,
    /// The most numbers that are added up into one element, where their order is not fixed: the
    /// tolerance of low-precision tensors has grown with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addends: Option<u64>,
    /// How far repeated executions on the device are apart, whatever the expected values are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
}

/// How far executions of one case with equal inputs are apart, on one device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Executions.
    pub repeats: u64,
    /// Largest difference between the largest and the smallest value of one element; absent where
    /// some of the values are not finite.
    pub max_abs: Option<Number>,
}

impl Comparison {
    /// Whether it held without a single finite pair of numbers having been looked at, though there
    /// were elements: all NaN on both sides, for example. Such a pass is shown with a warning.
    ///
    /// A `metadata` comparison never looks at values, and so is not vacuous in this sense.
    #[must_use]
    pub fn is_vacuous(&self) -> bool {
        self.held
            && self.rule != "metadata"
            && self.tensors.iter().any(|tensor| tensor.figures.elements > 0)
            && self.tensors.iter().all(|tensor| tensor.figures.max_abs_error.is_none())
    }
}

/// One output tensor compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TensorComparison {
    /// Path in the output tree: `0`, `logits`, `past_key_values.0.key`.
    pub path: String,
    /// Whether it held.
    pub held: bool,
    /// Dtype of the actual tensor.
    pub dtype: String,
    /// Shape of the actual tensor.
    pub shape: Vec<u64>,
    /// Tolerance used.
    pub tolerance: Tolerance,
    /// Always recorded, whatever the verdict.
    pub figures: Figures,
}

/// Figures of one comparison. `None` where undefined (no elements, zero variance), never a
/// flattering default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Figures {
    /// Elements compared.
    pub elements: u64,
    /// Elements that are not close.
    pub mismatched: u64,
    /// Elements of which exactly one side is NaN, or that are infinite on one side only, or
    /// infinite with different signs.
    pub nonfinite_mismatched: u64,
    /// Pairs of zeros with different signs; a finding, not a mismatch.
    pub sign_of_zero: u64,
    /// Largest |actual − expected| over pairs that are both finite.
    pub max_abs_error: Option<Number>,
    /// Largest |actual − expected| / |expected| over finite pairs with expected ≠ 0.
    pub max_rel_error: Option<Number>,
    /// Distance in units in the last place of the actual dtype: median.
    pub ulp_p50: Option<Number>,
    /// The same, 99th percentile.
    pub ulp_p99: Option<Number>,
    /// The same, maximum.
    pub ulp_max: Option<Number>,
    /// Root mean square error over finite pairs.
    pub rmse: Option<Number>,
    /// Pearson correlation; undefined when a side has no variance.
    pub pcc: Option<Number>,
    /// Cosine similarity; undefined when a side is all zero.
    pub cosine: Option<Number>,
    /// For logits: part of rows whose largest element is at the same place.
    pub top1_agreement: Option<Number>,
    /// Place of the worst element, as a multi-dimensional index.
    pub worst_index: Option<Vec<u64>>,
    /// Actual value there.
    pub worst_actual: Option<Number>,
    /// Expected value there.
    pub worst_expected: Option<Number>,
}
