"""The words shared with the runner; each enum mirrors one of the `protocol` crate.

`tests/test_wire.py` reads the crate's source and fails when a word is missing on either side.
"""

from enum import StrEnum


class Stage(StrEnum):
    """Where an attempt is, or stopped."""

    IMPORT = "import"
    BUILD = "build"
    REFERENCE = "reference"
    TRANSFER = "transfer"
    TRACE = "trace"
    LOWER = "lower"
    COMPILE = "compile"
    EXECUTE = "execute"
    COMPARE = "compare"
    TEARDOWN = "teardown"


class Mode(StrEnum):
    """How the backend is asked to execute."""

    EAGER = "eager"
    STRICT = "strict"
    COMPILE = "compile"


class Dtype(StrEnum):
    """Element types a case can be executed in; the names are PyTorch's."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E5M2 = "float8_e5m2"
    COMPLEX64 = "complex64"
    COMPLEX128 = "complex128"
    INT64 = "int64"
    INT32 = "int32"
    INT16 = "int16"
    INT8 = "int8"
    UINT8 = "uint8"
    BOOL = "bool"


class Form(StrEnum):
    """How an operator is called, or which of its inputs it is called with."""

    FUNCTION = "function"
    OUT = "out"
    INPLACE = "inplace"
    NONCONTIGUOUS = "noncontiguous"
    TRANSPOSED = "transposed"
    EXPANDED = "expanded"
    EMPTY = "empty"
    ZERO_DIM = "zero-dim"
    MODULE = "module"
    ERROR_INPUTS = "error-inputs"


class DynamicForm(StrEnum):
    """What a dynamism case is given."""

    PLAIN = "plain"
    PADDED_LEFT = "padded_left"
    PADDED_RIGHT = "padded_right"
    POSITIONS_AT_LIMIT = "positions_at_limit"
    DYNAMIC_CACHE = "dynamic_cache"
    STATIC_CACHE = "static_cache"


class FailureKind(StrEnum):
    """Outcomes that a worker can tell by itself."""

    ERROR = "error"
    UNSUPPORTED = "unsupported"
    MISMATCH = "mismatch"
    FALLBACK = "fallback"
    OOM = "oom"
    SKIPPED = "skipped"
    INFRA = "infra"
    HOST_LIMIT = "host-limit"


class SkipReason(StrEnum):
    """Why a case was not executed."""

    NOT_ENOUGH_MEMORY = "not-enough-memory"
    DTYPE_NOT_APPLICABLE = "dtype-not-applicable"
    BY_DESIGN = "by-design"
    QUARANTINED = "quarantined"
    DEPENDENCY_MISSING = "dependency-missing"
    OVER_BUDGET = "over-budget"
    REPORTED = "reported"


class Rule(StrEnum):
    """How outputs are to be compared."""

    CLOSE = "close"
    EXACT = "exact"
    GPU_RELATIVE = "gpu-relative"
    STATISTICAL = "statistical"
    METADATA = "metadata"


class ToleranceClass(StrEnum):
    """Row of the tolerance table."""

    DEFAULT = "default"
    MATMUL = "matmul"
    REDUCTION = "reduction"
    TRANSCENDENTAL = "transcendental"
    MODEL = "model"
