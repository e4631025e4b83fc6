"""From an exception to a typed failure. The runner never searches error text: this is the place.

What a backend's exception means is asked of the backend's own module first.
"""

from __future__ import annotations

import errno
import traceback
from pathlib import Path

import torch

from conformance_worker.devices.base import Device, DeviceUnavailableError
from conformance_worker.observed import Failure
from conformance_worker.words import FailureKind, SkipReason, Stage

MESSAGE_CHARACTERS = 500
TRACEBACK_CHARACTERS = 16_000
_PACKAGE = str(Path(__file__).parent)

# PyTorch's CPU allocator raises a plain RuntimeError, so its words are all there is.
_CPU_OUT_OF_MEMORY = ("DefaultCPUAllocator", "std::bad_alloc", "Cannot allocate memory")


class SkipCaseError(Exception):
    """The case does not apply here, with one of the closed list of reasons."""

    def __init__(self, reason: SkipReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class InfraError(Exception):
    """Nothing can be learnt about the backend, for example because the reference failed."""


class StaleGoldenError(InfraError):
    """A golden was recorded with other weights or inputs: comparing with it would tell nothing."""


class MismatchError(Exception):
    """Seen to be wrong without a comparison of values."""


class MemoryCorruptionError(MismatchError):
    """Memory was written to that is no part of the call."""


class FallbackError(Exception):
    """Computed somewhere else than on the device."""


def failure_from(error: BaseException, stage: Stage, device: Device | None) -> Failure:
    """Types an exception that was caught in `stage`; `device` is absent where none is involved."""
    root = root_of(error)
    kind, operator, at = _classify(root, stage, device)
    return Failure(
        kind=kind,
        stage=at,
        error_class=type(root).__name__,
        message=first_line(root),
        operator=operator,
        traceback=format_traceback(root),
        skip_reason=root.reason if isinstance(root, SkipCaseError) else None,
    )


def root_of(error: BaseException) -> BaseException:
    """Unwraps what the compiler wraps round a backend's exception."""
    while isinstance(inner := getattr(error, "inner_exception", None), BaseException):
        error = inner
    return error


def _classify(
    error: BaseException, stage: Stage, device: Device | None
) -> tuple[FailureKind, str | None, Stage]:
    own = {
        SkipCaseError: FailureKind.SKIPPED,
        InfraError: FailureKind.INFRA,
        StaleGoldenError: FailureKind.INFRA,
        DeviceUnavailableError: FailureKind.INFRA,
        MismatchError: FailureKind.MISMATCH,
        MemoryCorruptionError: FailureKind.MISMATCH,
        FallbackError: FailureKind.FALLBACK,
    }.get(type(error))
    if own is not None:
        return own, None, stage
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        return FailureKind.INFRA, None, stage
    if is_out_of_memory(error):
        return FailureKind.OOM, None, stage
    if device is not None and (known := device.classify(error)) is not None:
        return known.kind, known.operator, known.stage or stage
    return FailureKind.ERROR, None, stage


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the host ran out of memory, by the exception's own word."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and any(
        words in str(error) for words in _CPU_OUT_OF_MEMORY
    )


def first_line(error: BaseException) -> str:
    """The first line that says something, shortened."""
    for line in str(error).splitlines():
        if line.strip():
            return line.strip()[:MESSAGE_CHARACTERS]
    return type(error).__name__


def format_traceback(error: BaseException) -> str:
    """The traceback without this package's own frames, kept to a length from its end."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_PACKAGE)
    ]
    lines = traceback.format_list(frames) + traceback.format_exception_only(error)
    text = "".join(lines)
    if len(text) > TRACEBACK_CHARACTERS:
        text = "…\n" + text[-TRACEBACK_CHARACTERS:]
    return text
