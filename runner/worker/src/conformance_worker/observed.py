"""What a worker saw of a case, as dataclasses: the largest of the `messages`, and what it holds.

The contract is the `protocol` crate's `worker_link/observed.rs`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from conformance_worker.codec import Tagged
from conformance_worker.words import FailureKind, SkipReason, Stage


@dataclass(frozen=True)
class Failure:
    """Why there is no result."""

    kind: FailureKind
    stage: Stage
    error_class: str
    message: str
    operator: str | None = None
    traceback: str = ""
    skip_reason: SkipReason | None = None


@dataclass(frozen=True)
class Blocker:
    """An overload that a model needs and the device refuses."""

    overload: str
    kind: FailureKind
    error_class: str
    message: str


@dataclass(frozen=True)
class DivergingOperator:
    """An operator whose answer on the device is not that of the host, from equal inputs."""

    overload: str
    call: int
    finding: str
    max_abs_error: float | None
    dtype: str
    shape: list[int]
    inputs: list[str]
    repro: str
    repro_file: str


@dataclass(frozen=True)
class FirstDivergence:
    """The first call of a module that makes something else on the device than on the host."""

    module: str
    kind: str
    call: int
    finding: str
    max_abs_error: float | None
    dtype: str
    shape: list[int]
    modules_agreed: int
    operator: DivergingOperator | None


@dataclass(frozen=True)
class ModelFigure:
    """What one output of a model means, the device against the reference."""

    name: str
    path: str
    value: float | None
    actual: float | None
    expected: float | None


@dataclass(frozen=True)
class Spread:
    """How far executions with equal inputs are apart; absent where some values are not finite."""

    repeats: int
    max_abs: float | None


@dataclass(frozen=True)
class ToCompare:
    """One output set to compare; both files are safetensors, see `tensors`."""

    actual: str
    expected: str
    rule: str
    reference: str
    tolerance_class: str
    label: str = ""
    wide: str | None = None
    flushed_dtypes: list[str] = field(default_factory=list)
    addends: int | None = field(default=None, metadata={"skip_none": True})
    spread: Spread | None = field(default=None, metadata={"skip_none": True})


@dataclass(frozen=True)
class BothRaised:
    """Error classes of a device and a reference that both raised."""

    actual: str
    expected: str


@dataclass(frozen=True)
class Graphs:
    """Graph counters of one case."""

    graph_count: int = 0
    recompiles: int = 0
    graph_breaks: int = 0
    eager_calls: int = 0
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class SweepObserved:
    """One size of a sweep, as executed."""

    label: str
    sizes: dict[str, int]
    inside: bool
    graph_count: int
    eager_calls: int
    failure: Failure | None = None


@dataclass
class Observed(Tagged):
    """What the worker saw of a case; filled in as the case proceeds."""

    WORD: ClassVar[str] = "observed"
    case: str
    failure: Failure | None = None
    to_compare: list[ToCompare] = field(default_factory=list)
    both_raised: BothRaised | None = None
    device_used: str = ""
    fallback_operators: list[str] = field(default_factory=list)
    graphs: Graphs | None = None
    peak_memory_bytes: int | None = None
    stage_seconds: dict[str, float] = field(default_factory=dict)
    sweep: list[SweepObserved] = field(default_factory=list)
    substitutions: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    repro: str = ""
    poisoned: bool = False
    blockers: list[Blocker] | None = None
    first_divergence: FirstDivergence | None = field(default=None, metadata={"skip_none": True})
    fingerprint: str | None = None
    model_figures: list[ModelFigure] | None = field(default=None, metadata={"skip_none": True})
