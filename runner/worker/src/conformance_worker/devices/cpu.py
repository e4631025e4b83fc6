"""Profile `cpu`: plain PyTorch on the host. Also what every reference is computed on."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from conformance_worker.devices.base import Device, chosen_compiler
from conformance_worker.messages import Probed


class TheDevice(Device):
    """The host's processor."""

    profile = "cpu"

    def describe(self) -> Probed:
        """Names the processor as the kernel does."""
        return Probed(
            device_kind=_processor_name(),
            device="cpu",
            count=1,
            simulated=False,
            versions={},
        )

    def compiler(self, *, dynamism: bool) -> str | Callable[..., Any]:
        """`aot_eager`: the host's own compiler would need a C++ compiler at run time."""
        del dynamism
        return chosen_compiler() or "aot_eager"

    def with_poison_behind(self, tensor: torch.Tensor, elements: int) -> torch.Tensor:
        """A contiguous tensor at the beginning of a larger storage."""
        if elements <= tensor.numel() or tensor.dtype is torch.bool:
            return tensor
        memory = torch.full((elements,), _poison(tensor.dtype), dtype=tensor.dtype)
        memory[: tensor.numel()] = tensor.reshape(-1)
        # Not a view of the memory, which a tracer would take into its graph.
        return torch.empty(0, dtype=tensor.dtype).set_(
            memory.untyped_storage(), 0, tensor.shape, _contiguous(tensor.shape)
        )


def _poison(dtype: torch.dtype) -> float | int:
    """A value that shows in whatever it is added to, and that is no index."""
    if dtype.is_floating_point or dtype.is_complex:
        return float("nan")
    return torch.iinfo(dtype).max


def _contiguous(shape: torch.Size) -> list[int]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * max(size, 1))
    return strides[: len(shape)]


def _processor_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()
