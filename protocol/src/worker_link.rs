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

use crate::inventory::Inventory;
use crate::{Dtype, Form, Mode, Stage, Tolerance};

mod frame;
mod observed;

pub use frame::{Decoder, LinkError, MAX_FRAME_BYTES, decode, encode};
pub use observed::{Failure, FailureKind, Observed, SweepObserved, ToCompare, WorkerBlocker};

/// Version of this link; runner and worker package travel together, so it must be equal.
pub const LINK_VERSION: u32 = 1;

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
    /// Name every entry of the operator database, without making any of its samples.
    NameEntries,
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
    /// Answer to `name_entries`.
    EntriesNamed {
        /// Full names, sorted.
        entries: Vec<String>,
    },
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
