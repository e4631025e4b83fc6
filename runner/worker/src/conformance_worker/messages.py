"""The messages between runner and worker, as dataclasses; `codec` has their strict JSON form.

The contract is the `protocol` crate's `worker_link.rs`; its recorded files in
`protocol/tests/wire/` are read by `tests/test_wire.py`. Unknown fields are refused by name.
This module does no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from conformance_worker.codec import Tagged
from conformance_worker.observed import Observed
from conformance_worker.words import Dtype, Form, Mode, Stage

LINK_VERSION = 1
"""Version of the link; runner and worker travel together, so it must be equal."""


# --- runner to fork server ----------------------------------------------------------------------


@dataclass(frozen=True)
class Spawn(Tagged):
    """Fork a worker."""

    WORD: ClassVar[str] = "spawn"
    worker: int
    link: str
    log: str
    environment: dict[str, str]
    address_space_bytes: int | None = None


@dataclass(frozen=True)
class Stop(Tagged):
    """Exit: the fork server kills what is left of its workers, a worker ends with code 0."""

    WORD: ClassVar[str] = "stop"


# --- fork server to runner ----------------------------------------------------------------------


@dataclass(frozen=True)
class Ready(Tagged):
    """Everything is imported."""

    WORD: ClassVar[str] = "ready"
    link_version: int
    pid: int
    versions: dict[str, str]


@dataclass(frozen=True)
class Failed(Tagged):
    """Importing failed; the process exits after this."""

    WORD: ClassVar[str] = "failed"
    error_class: str
    message: str
    hint: str


@dataclass(frozen=True)
class Spawned(Tagged):
    """A worker was forked; its process id is also its process group."""

    WORD: ClassVar[str] = "spawned"
    worker: int
    pid: int


@dataclass(frozen=True)
class Exited(Tagged):
    """A worker ended and was reaped."""

    WORD: ClassVar[str] = "exited"
    worker: int
    exit_code: int | None
    signal: int | None
    peak_resident_bytes: int


# --- runner to worker ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Probe(Tagged):
    """Open the device, execute one known-good operation, and say what the device is."""

    WORD: ClassVar[str] = "probe"


@dataclass(frozen=True)
class TakeInventory(Tagged):
    """Open the device, and tell which overloads have which kernels."""

    WORD: ClassVar[str] = "take_inventory"


@dataclass(frozen=True)
class NameEntries(Tagged):
    """Name every entry of the operator database."""

    WORD: ClassVar[str] = "name_entries"


@dataclass(frozen=True)
class ListOperators(Tagged):
    """List the operator cases of these entries; empty means all, and `samples` 0 means all."""

    WORD: ClassVar[str] = "list_operators"
    entries: list[str]
    dtypes: list[Dtype]
    samples: int
    gradients: bool
    forms: list[Form]


@dataclass(frozen=True)
class ModelSpec:
    """What is needed to build a model."""

    source: str
    id: str
    size: str
    batch: int
    sequence: int
    overrides: dict[str, Any] = field(default_factory=dict)
    revision: str | None = field(default=None, metadata={"skip_none": True})
    checkpoint: str | None = field(default=None, metadata={"skip_none": True})


@dataclass(frozen=True)
class DynamicDimension:
    """One dimension that is declared dynamic, and which dimension of which input it is."""

    name: str
    min: int
    max: int
    inputs: dict[str, int]


@dataclass(frozen=True)
class OperatorTask(Tagged):
    """One sample of one entry of PyTorch's operator database."""

    TAG: ClassVar[str] = "kind"
    WORD: ClassVar[str] = "operator"
    entry: str
    sample: int
    error_input: bool = False


@dataclass(frozen=True)
class ModelTask(Tagged):
    """A model: build, move, forward; with `compare` also against the reference."""

    TAG: ClassVar[str] = "kind"
    WORD: ClassVar[str] = "model"
    model: ModelSpec
    compare: bool


@dataclass(frozen=True)
class DynamismTask(Tagged):
    """A model under a sweep of sizes."""

    TAG: ClassVar[str] = "kind"
    WORD: ClassVar[str] = "dynamism"
    model: ModelSpec
    dimensions: list[DynamicDimension]
    sweep: list[dict[str, int]]


Task = OperatorTask | ModelTask | DynamismTask


@dataclass(frozen=True)
class Tolerance:
    """Close when |actual - expected| <= atol + rtol * |expected|."""

    rtol: float
    atol: float


@dataclass(frozen=True)
class Golden:
    """Outputs kept before, to compare with; `outputs` and `wide` are paths of files."""

    id: str
    outputs: str
    wide: str | None
    fingerprint: str


@dataclass(frozen=True)
class Execute(Tagged):
    """One case to execute."""

    WORD: ClassVar[str] = "execute"
    case: str
    task: Task
    dtype: Dtype
    mode: Mode
    train: bool
    layout: str
    seed: int
    exchange: str
    breadcrumb: str | None
    record_operators: bool
    continue_past: list[str] | None = None
    find_divergence: Tolerance | None = field(default=None, metadata={"skip_none": True})
    record: bool = False
    golden: Golden | None = None


# --- worker to runner ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Hello(Tagged):
    """First message on a new link."""

    WORD: ClassVar[str] = "hello"
    link_version: int
    worker: int
    pid: int


@dataclass(frozen=True)
class Probed(Tagged):
    """The known-good operation gave the right answer."""

    WORD: ClassVar[str] = "probed"
    device_kind: str
    device: str
    count: int
    simulated: bool
    versions: dict[str, str]


@dataclass(frozen=True)
class ProbeFailed(Tagged):
    """It did not, or the device could not be opened."""

    WORD: ClassVar[str] = "probe_failed"
    error_class: str
    message: str
    hint: str


@dataclass(frozen=True, order=True)
class OperatorCase:
    """One operator case that exists."""

    entry: str
    dtype: Dtype
    sample: int
    train: bool
    layout: str = ""
    error_input: bool = False


@dataclass(frozen=True)
class EntriesNamed(Tagged):
    """Answer to `name_entries`: full names, sorted."""

    WORD: ClassVar[str] = "entries_named"
    entries: list[str]


@dataclass(frozen=True)
class OperatorsListed(Tagged):
    """Answer to `list_operators`."""

    WORD: ClassVar[str] = "operators_listed"
    cases: list[OperatorCase]
    unknown: list[str]
    problems: dict[str, str]


@dataclass(frozen=True)
class Entered(Tagged):
    """The case in flight has entered a stage."""

    WORD: ClassVar[str] = "entered"
    stage: Stage


@dataclass(frozen=True)
class Built(Tagged):
    """The model of the case in flight is built, and this is its graph."""

    WORD: ClassVar[str] = "built"
    graph_signature: str


@dataclass(frozen=True)
class InventoryOverload:
    """What the dispatcher knows of one overload."""

    name: str
    schema: str
    tags: list[str]
    view: bool
    structured_delegate: str
    kernels: list[str]
    added: list[str]


@dataclass(frozen=True)
class Inventory(Tagged):
    """Answer to `take_inventory`."""

    WORD: ClassVar[str] = "inventory"
    dispatch_key: str
    overloads: list[InventoryOverload]


@dataclass(frozen=True)
class Recorded(Tagged):
    """The separate recording execution ended; `operators` is absent where recording failed."""

    WORD: ClassVar[str] = "recorded"
    case: str
    operators: dict[str, int] | None
    inputs: dict[str, list[str]] = field(default_factory=dict)


ToForkServer = Spawn | Stop
FromForkServer = Ready | Failed | Spawned | Exited
ToWorker = Probe | TakeInventory | NameEntries | ListOperators | Execute | Stop
FromWorker = (
    Hello
    | Probed
    | ProbeFailed
    | Inventory
    | EntriesNamed
    | OperatorsListed
    | Entered
    | Built
    | Observed
    | Recorded
)
