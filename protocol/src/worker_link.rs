//! Runner ↔ Python: frames over a Unix socket, and the messages in them.
//!
//! A frame is the length of its body as four little-endian bytes, then the body, one JSON object
//! with a `type`. Two kinds of process speak it: the *fork server*, which has imported torch and
//! the backend once and forks a worker in milliseconds, and the *worker*, which executes cases.
//! Each connects to the socket path it was given and says hello first. The link is a socket of its
//! own, and not stdout, because native libraries write to stdout and stderr as they like.
//!
//! [`Decoder`] does no I/O: it is fed bytes and gives bodies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::evidence::{BothRaised, FirstDivergence, Graphs, ModelFigure};
use crate::inventory::Inventory;
use crate::{Dtype, Form, Mode, SkipReason, Stage, Tolerance};

/// Version of this link; runner and worker package travel together, so it must be equal.
pub const LINK_VERSION: u32 = 1;

/// Longest body of a frame, in bytes. Tensors never travel here.
pub const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;

/// A byte stream that is not a sequence of frames.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The length prefix is over the cap, usually because something else wrote to the link.
    #[error("a frame of {length} bytes is over the limit of {MAX_FRAME_BYTES} bytes")]
    FrameTooLong {
        /// Length that was announced.
        length: usize,
    },
    /// The body is not the message that was expected.
    #[error("a frame is not a known message: {problem}; it begins `{begin}`")]
    NotAMessage {
        /// The parser's words.
        problem: String,
        /// First characters of the body.
        begin: String,
    },
}

/// Takes frames out of a byte stream.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
}

impl Decoder {
    /// Adds bytes as they arrive.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next whole body, if there is one.
    pub fn next_body(&mut self) -> Result<Option<Vec<u8>>, LinkError> {
        let Some(prefix) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > MAX_FRAME_BYTES {
            return Err(LinkError::FrameTooLong { length });
        }
        if self.buffer.len() < 4 + length {
            return Ok(None);
        }
        let body = self.buffer[4..4 + length].to_vec();
        self.buffer.drain(..4 + length);
        Ok(Some(body))
    }

    /// Takes the next whole message, if there is one.
    pub fn next_message<M: for<'de> Deserialize<'de>>(&mut self) -> Result<Option<M>, LinkError> {
        self.next_body()?.map(|body| decode(&body)).transpose()
    }
}

/// Reads one body.
pub fn decode<M: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<M, LinkError> {
    serde_json::from_slice(body).map_err(|error| LinkError::NotAMessage {
        problem: error.to_string(),
        begin: String::from_utf8_lossy(body).chars().take(120).collect(),
    })
}

/// Writes one message as a frame.
pub fn encode<M: Serialize>(message: &M) -> Result<Vec<u8>, LinkError> {
    let body = serde_json::to_vec(message).map_err(|error| LinkError::NotAMessage {
        problem: error.to_string(),
        begin: String::new(),
    })?;
    if body.len() > MAX_FRAME_BYTES {
        return Err(LinkError::FrameTooLong { length: body.len() });
    }
    let mut frame = u32::try_from(body.len()).expect("checked above").to_le_bytes().to_vec();
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// Runner → fork server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ToForkServer {
    /// Fork a worker. It leads a process group of its own, has stdout and stderr on `log`, and
    /// connects to `link`.
    Spawn {
        /// Number of the worker, unique in the run.
        worker: u32,
        /// Socket path to connect to.
        link: String,
        /// File for stdout and stderr, appended to.
        log: String,
        /// Environment to set in the worker, for example `TPU_VISIBLE_CHIPS`.
        environment: BTreeMap<String, String>,
        /// `RLIMIT_AS` in bytes, if any.
        address_space_bytes: Option<u64>,
    },
    /// Kill what is left of the workers and exit.
    Stop,
}

/// Fork server → runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum FromForkServer {
    /// Everything is imported.
    Ready {
        /// Must equal [`LINK_VERSION`].
        link_version: u32,
        /// Process id.
        pid: u32,
        /// Versions of what was imported: `torch`, `torch_tpu`, `libtpu`, `python`, … .
        versions: BTreeMap<String, String>,
    },
    /// Importing failed; the process exits after this.
    Failed {
        /// Exception class.
        error_class: String,
        /// What to show, naming the missing thing.
        message: String,
        /// What to do next, may be empty.
        hint: String,
    },
    /// A worker was forked.
    Spawned {
        /// Its number.
        worker: u32,
        /// Its process id, also its process group.
        pid: u32,
    },
    /// A worker ended and was reaped.
    Exited {
        /// Its number.
        worker: u32,
        /// Exit code, when it exited by itself.
        exit_code: Option<i32>,
        /// Signal, when one ended it.
        signal: Option<i32>,
        /// Peak resident memory in bytes, from the kernel's accounting.
        peak_resident_bytes: u64,
    },
}

/// Runner → worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ToWorker {
    /// Open the device, execute one known-good operation, and say what the device is.
    Probe,
    /// Open the device, and tell which overloads have which kernels.
    TakeInventory,
    /// List the operator cases of these entries; executes on the CPU only.
    ListOperators(ListOperators),
    /// Execute one case.
    Execute(Box<Execute>),
    /// Exit with code 0.
    Stop,
}

/// What to list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListOperators {
    /// Entries by full name (`std.unbiased`); empty means all.
    pub entries: Vec<String>,
    /// Dtypes wanted; those an entry does not take are left out.
    pub dtypes: Vec<Dtype>,
    /// Most samples per entry, dtype and direction: the first and evenly spaced others; 0 is all.
    pub samples: u32,
    /// Also list the gradient (`train`) of entries that have one.
    pub gradients: bool,
    /// Forms wanted; those an entry does not have are left out.
    pub forms: Vec<Form>,
}

/// One case to execute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Execute {
    /// Full text of the case key; the worker echoes it.
    pub case: String,
    /// What to execute.
    pub task: Task,
    /// Dtype of the variant.
    pub dtype: Dtype,
    /// Mode of the variant.
    pub mode: Mode,
    /// Whether the direction is `train`.
    pub train: bool,
    /// Layout of the variant, empty for the plain one.
    pub layout: String,
    /// Seed for every generator.
    pub seed: u64,
    /// Existing empty directory, on tmpfs where there is one, for this case's tensor files.
    pub exchange: String,
    /// Name the operator: execute one operator at a time, writing each overload's name to this
    /// file before it is entered. Used only for a rerun after a bad end, since it alters what runs.
    pub breadcrumb: Option<String>,
    /// After the outcome is sent, execute once more under a recorder and send the operators.
    pub record_operators: bool,
    /// Find what else stands in the way: compute on the CPU what the device refuses, and these
    /// overloads without trying them, and go on. Decides no case; needs a `breadcrumb`.
    #[serde(default)]
    pub continue_past: Option<Vec<String>>,
    /// Find where in a model the device first differs from the host by more than this. Decides no
    /// case; needs a `breadcrumb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find_divergence: Option<Tolerance>,
    /// Leave the float64 outputs beside the others, and name what was executed by a fingerprint:
    /// both are kept as a golden.
    #[serde(default)]
    pub record: bool,
    /// Outputs kept before, to compare with in place of a reference that is computed now.
    #[serde(default)]
    pub golden: Option<Golden>,
}

/// The golden of one case, as far as a worker needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Golden {
    /// What results call it.
    pub id: String,
    /// File of the outputs of the device it was recorded on.
    pub outputs: String,
    /// File of the outputs computed in float64; nothing for a model that cannot be.
    pub wide: Option<String>,
    /// Of the weights and inputs that gave it; those of the case must have the same.
    pub fingerprint: String,
}

/// The subject of a case, as the planner resolved it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Task {
    /// One sample of one entry of PyTorch's operator database.
    Operator {
        /// Full name of the entry.
        entry: String,
        /// Sample number for this dtype and direction, from 0.
        sample: u32,
        /// The number counts the entry's `error_inputs`: the operator must refuse them.
        #[serde(default)]
        error_input: bool,
    },
    /// A model: build, move, forward; with `compare` also against the reference.
    Model {
        /// The entry of the model list, as it was read.
        model: ModelSpec,
        /// Whether outputs are compared with a reference (Tier 2) or only checked (Tier 1).
        compare: bool,
    },
    /// A model under a sweep of sizes.
    Dynamism {
        /// The entry of the model list, as it was read.
        model: ModelSpec,
        /// Named dimensions with bounds.
        dimensions: Vec<DynamicDimension>,
        /// Sizes in the order to execute them; each has one number per named dimension.
        sweep: Vec<BTreeMap<String, u64>>,
    },
}

/// What the worker needs to build a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// `transformers`, `timm`, `torchvision`, `package`, `python`, `hub`.
    pub source: String,
    /// Name within the source.
    pub id: String,
    /// Pinned revision of a hub id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// File with its weights, saved elsewhere, for a case whose layout is `checkpoint`; without one
    /// the worker saves one itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// `tiny` (shrunk, random weights) or `full`.
    pub size: String,
    /// Overrides of configuration values.
    #[serde(default)]
    pub overrides: serde_json::Map<String, serde_json::Value>,
    /// Batch size of the inputs.
    pub batch: u64,
    /// Sequence length of the inputs, where they have one.
    pub sequence: u64,
}

/// One dimension that is declared dynamic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DynamicDimension {
    /// Its name: `batch`, `sequence`.
    pub name: String,
    /// Smallest size.
    pub min: u64,
    /// Largest size.
    pub max: u64,
    /// Which dimension of which input it is: input name → dimension, from 0.
    pub inputs: BTreeMap<String, u32>,
}

/// Worker → runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum FromWorker {
    /// First message on a new link.
    Hello {
        /// Must equal [`LINK_VERSION`].
        link_version: u32,
        /// Number of the worker.
        worker: u32,
        /// Process id.
        pid: u32,
    },
    /// The known-good operation gave the right answer.
    Probed(Probed),
    /// It did not, or the device could not be opened.
    ProbeFailed {
        /// Exception class.
        error_class: String,
        /// What to show.
        message: String,
        /// What to do next, may be empty.
        hint: String,
    },
    /// Answer to `take_inventory`; `probe_failed` is the other one.
    Inventory(Inventory),
    /// Answer to `list_operators`.
    OperatorsListed {
        /// Cases found, sorted.
        cases: Vec<OperatorCase>,
        /// Entries asked for that do not exist.
        unknown: Vec<String>,
        /// Entries whose samples could not be made, with the reason.
        problems: BTreeMap<String, String>,
    },
    /// The case in flight has entered a stage; deadlines depend on it.
    Entered {
        /// The stage.
        stage: Stage,
    },
    /// The model of the case in flight is built. Sent before it is executed, so that the graph is
    /// known of a case that ends the process too.
    Built {
        /// Names the graph; the same for models that execute the same operators.
        graph_signature: String,
    },
    /// The case in flight is decided.
    Observed(Box<Observed>),
    /// The separate recording execution ended; the worker is ready for the next message.
    Recorded {
        /// Full text of the case key.
        case: String,
        /// Overloads with counts, or nothing where recording failed.
        operators: Option<BTreeMap<String, u64>>,
        /// Dtypes and shapes of the tensors that each was given, the first few that differ.
        #[serde(default)]
        inputs: BTreeMap<String, Vec<String>>,
    },
}

/// What the device is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probed {
    /// The device's model as it names itself.
    pub device_kind: String,
    /// Torch device string of the probe's result.
    pub device: String,
    /// Units that this host has.
    pub count: u32,
    /// Whether its results are simulated.
    pub simulated: bool,
    /// Versions that are known only once the device is open: `driver`, `xla`, … .
    pub versions: BTreeMap<String, String>,
}

/// One operator case that exists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorCase {
    /// Full name of the entry.
    pub entry: String,
    /// Element type.
    pub dtype: Dtype,
    /// Sample number.
    pub sample: u32,
    /// Whether it is the gradient.
    pub train: bool,
    /// Layout of the variant, empty for the plain one.
    pub layout: String,
    /// Whether its inputs must be refused.
    pub error_input: bool,
}

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
