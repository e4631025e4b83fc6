"""Profile `cpu`: plain PyTorch on the host. Also what every reference is computed on."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conformance_worker.devices.base import Device
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
        return "aot_eager"


def _processor_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()
