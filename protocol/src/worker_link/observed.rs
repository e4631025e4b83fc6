//! What a worker saw of a case.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::evidence::{BothRaised, FirstDivergence, Graphs, ModelFigure, Spread};
use crate::{SkipReason, Stage};

/// What the worker saw. The runner turns it into an outcome: it compares, and it adds what only
/// the outside can see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// Full text of the case key.
    pub case: String,
    /// Why there is no result, if so.
    #[serde(default)]
    pub failure: Option<Failure>,
    /// Output sets to compare, in order.
    #[serde(default)]
    pub to_compare: Vec<ToCompare>,
    /// Both sides raised: a pass, with both classes recorded.
    #[serde(default)]
    pub both_raised: Option<BothRaised>,
    /// Torch device strings of the outputs, comma separated.
    #[serde(default)]
    pub device_used: String,
    /// Overloads computed on the CPU instead.
    #[serde(default)]
    pub fallback_operators: Vec<String>,
    /// Graph counters in compile mode.
    #[serde(default)]
    pub graphs: Option<Graphs>,
    /// Peak device memory in bytes.
    #[serde(default)]
    pub peak_memory_bytes: Option<u64>,
    /// Seconds per stage.
    #[serde(default)]
    pub stage_seconds: BTreeMap<String, f64>,
    /// Sizes of a sweep, in order; those inside the bounds have an output set of the same label.
    #[serde(default)]
    pub sweep: Vec<SweepObserved>,
    /// Paths replaced because the host cannot execute them.
    #[serde(default)]
    pub substitutions: Vec<String>,
    /// Findings that do not change the outcome.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Stand-alone Python for this case.
    #[serde(default)]
    pub repro: String,
    /// The device can no longer be trusted: replace this worker and probe.
    #[serde(default)]
    pub poisoned: bool,
    /// Overloads that the device refused and the CPU computed instead, in the order met; nothing
    /// unless asked to continue past them.
    #[serde(default)]
    pub blockers: Option<Vec<WorkerBlocker>>,
    /// Where the device first differs; nothing unless asked for and found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_divergence: Option<FirstDivergence>,
    /// Names the weights and inputs of a model, where that was asked for.
    #[serde(default)]
    pub fingerprint: Option<String>,
    /// What the outputs of a model mean; nothing where they were not compared with a reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_figures: Option<Vec<ModelFigure>>,
}

/// An overload that the device refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerBlocker {
    /// The overload.
    pub overload: String,
    /// What kind of failure it was.
    pub kind: FailureKind,
    /// Exception class.
    pub error_class: String,
    /// First line.
    pub message: String,
}

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// What kind; the worker knows the exception and must not leave it to text searching.
    pub kind: FailureKind,
    /// Where.
    pub stage: Stage,
    /// Exception class.
    pub error_class: String,
    /// First line.
    pub message: String,
    /// Overload the error names, when it does.
    #[serde(default)]
    pub operator: Option<String>,
    /// Python traceback.
    #[serde(default)]
    pub traceback: String,
    /// Why it was skipped, when the kind is `skipped`.
    #[serde(default)]
    pub skip_reason: Option<SkipReason>,
}

words! {
    /// Outcomes that a worker can tell by itself.
    FailureKind as "failure kind" {
        /// An exception on the device that is none of the others.
        Error = "error",
        /// The backend said that it does not implement this.
        Unsupported = "unsupported",
        /// Values, structure or an expected error are wrong, seen without a comparison.
        Mismatch = "mismatch",
        /// Computed elsewhere.
        Fallback = "fallback",
        /// Memory ran out, by the exception's own word.
        Oom = "oom",
        /// Not executed, with a reason.
        Skipped = "skipped",
        /// Nothing learnt about the backend.
        Infra = "infra",
        /// This host cannot execute what a TPU could.
        HostLimit = "host-limit",
    }
}

/// One output set to compare.
///
/// Both files are safetensors whose `__metadata__.structure` is a JSON list in tree order of
/// leaves: `{"path", "kind": "tensor" | "scalar" | "none" | "other", "dtype", "shape", "stride",
/// "value"}`. A tensor leaf is stored under its path; complex tensors are stored as real pairs in
/// a last dimension of 2 that the leaf's shape does not count, with the complex dtype in the leaf.
///
/// `dtype` (PyTorch's name) and `shape` of an expected leaf are what the device's output must have.
/// The stored expected tensor may be of another real type, which is how a float64 reference is kept
/// beside the dtype that it is a reference for. A non-finite float in `value` is spelled as
/// [`crate::Number`] spells it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToCompare {
    /// Which output set; empty for the only one.
    #[serde(default)]
    pub label: String,
    /// Path of the device's outputs.
    pub actual: String,
    /// Path of the expected outputs.
    pub expected: String,
    /// `close`, `exact`, `gpu-relative`, `statistical`, `metadata`.
    pub rule: String,
    /// What expected values came from: `cpu float64`, `cpu float32`, or a golden's id.
    pub reference: String,
    /// Row of the tolerance table: `default`, `matmul`, `reduction`, `transcendental`, `model`.
    pub tolerance_class: String,
    /// Path of the outputs in float64, which `gpu-relative` measures both sides against.
    #[serde(default)]
    pub wide: Option<String>,
    /// Dtypes of which the device declares that it gives zero in place of a subnormal number.
    #[serde(default)]
    pub flushed_dtypes: Vec<String>,
    /// The most numbers that are added up into one element, where their order is not fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addends: Option<u64>,
    /// How far repeated executions on the device are apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
}

/// One size of a sweep, as executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepObserved {
    /// `sequence=17`.
    pub label: String,
    /// Size per named dimension.
    pub sizes: BTreeMap<String, u64>,
    /// Inside the declared bounds.
    pub inside: bool,
    /// Graphs compiled up to and including this size.
    pub graph_count: u64,
    /// Calls at this size that ran outside any compiled graph.
    pub eager_calls: u64,
    /// What it raised, if it did.
    #[serde(default)]
    pub failure: Option<Failure>,
}
