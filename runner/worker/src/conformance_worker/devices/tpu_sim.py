"""Profile `tpu-sim`: the real TorchTPU wheel, executing on XLA:CPU through a PJRT plugin.

Everything said about TorchTPU in `devices.tpu` holds. This module adds what the *host* cannot
execute although a TPU could; such a failure is `host-limit` and says nothing about TorchTPU.

One host limit is caught only while the wrapper advertises an older StableHLO (its setting
`CONFORMANCE_SIM_STABLEHLO`): otherwise XLA:CPU aborts the process on `chlo.scan`
(`computation_partitioner.cc`), which the runner reports as a crash with that log line.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
from collections.abc import Iterator
from pathlib import Path

from conformance_worker.devices import tpu
from conformance_worker.devices.base import Classified, DeviceUnavailableError
from conformance_worker.messages import Probed
from conformance_worker.words import FailureKind, Mode, Stage

LIBRARY_VARIABLE = "TPU_LIBRARY_PATH"
PLUGIN_VARIABLE = "CONFORMANCE_SIM_PLUGIN"

HOST_LIMITS = (
    # The wrapper advertises an older StableHLO, since XLA:CPU aborts on the scan that a newer one
    # would bring; TorchTPU then refuses the program with an exception.
    re.compile(r"failed to serialize StableHLO to plugin version"),
    re.compile(r"no FFI handler registered for LuDecomposition"),
    re.compile(
        r"custom call target (PadToStatic|PadRealToStatic|SliceToDynamic) is not implemented"
    ),
    re.compile(r"PadRealToStatic"),
    re.compile(r"tpu_custom_call"),
    re.compile(r"is not supported by XLA:CPU ThunkEmitter"),
    # Pinned host memory, for copies that do not block: the plugin has no allocator of it.
    re.compile(r"host memory allocator is not implemented for this client"),
)
"""XLA:CPU's words for programs that it cannot execute; all of them compile for a real TPU."""


class TheDevice(tpu.TheDevice):
    """A simulated TPU on this host's processor."""

    profile = "tpu-sim"
    simulated = True
    flushed_dtypes = ("float64", "float32", "bfloat16")
    """XLA:CPU computes with the processor's flush-to-zero mode on; float16 is kept."""

    def check_present(self) -> None:
        """Demands the wrapper library and the plugin before anything native looks for them."""
        for variable in (LIBRARY_VARIABLE, PLUGIN_VARIABLE):
            path = os.environ.get(variable, "")
            if not path or not Path(path).is_file():
                raise DeviceUnavailableError(
                    f"`{variable}` does not name a file: {path or 'it is not set'}",
                    "start the worker through the runner, which sets it; `runner setup` installs "
                    "the plugin",
                )

    def describe(self) -> Probed:
        """Names the simulation."""
        return Probed(
            device_kind="XLA:CPU",
            device=self.place,
            count=1,
            simulated=True,
            versions=_plugin_version(),
        )

    @contextlib.contextmanager
    def execution(self, mode: Mode, *, one_at_a_time: bool) -> Iterator[None]:
        """Replaces the Pallas attention kernel, which only a TPU can execute, by plain maths."""
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with (
            super().execution(mode, one_at_a_time=one_at_a_time),
            sdpa_kernel(SDPBackend.MATH),
        ):
            yield

    def prepare_model_build(self) -> None:
        """Takes timm off its fused attention for the same reason."""
        with contextlib.suppress(ImportError):
            import timm.layers

            timm.layers.set_fused_attn(False)

    def substitutions(self) -> list[str]:
        """Both are in force from the moment a case executes."""
        return ["scaled_dot_product_attention: math", "timm fused attention: off"]

    def peak_memory_bytes(self) -> int | None:
        """The plugin has no allocator statistics, and asking makes it complain in the log."""
        return None

    def classify(self, error: BaseException) -> Classified | None:
        """Recognises the known host limits before TorchTPU's own words."""
        if isinstance(error, RuntimeError):  # NotImplementedError is one
            text = str(error)
            if any(pattern.search(text) for pattern in HOST_LIMITS):
                stage = Stage.COMPILE if "compil" in text else None
                return Classified(FailureKind.HOST_LIMIT, stage=stage)
        return super().classify(error)


def _plugin_version() -> dict[str, str]:
    """The distribution that the plugin file belongs to, by the file's folder."""
    package = Path(os.environ.get(PLUGIN_VARIABLE, "")).parent.name.replace("_", "-")
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
        return {"xla": f"{package} {importlib.metadata.version(package)}"}
    return {}
