"""Profile `tpu`: TorchTPU on hardware, and all that is known about TorchTPU's behaviour.

The exact messages by which TorchTPU says "not implemented" live here and nowhere else; so does
its internal interface (`torch_tpu._loader`, `execution_mode`, the dynamic compiler back end).
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from conformance_worker.devices.base import Classified, Device, DeviceUnavailableError
from conformance_worker.messages import Probed
from conformance_worker.words import FailureKind, Mode, Stage

GOOGLE_PCI_VENDOR = "0x1ae0"
PCI_DEVICES = Path("/sys/bus/pci/devices")
DEVICE_FILES = ("/dev/vfio", "/dev/accel")

NOT_IMPLEMENTED = re.compile(r"operator '(?P<operator>[\w:.]+)' is not implemented for TPU")
"""TorchTPU's words for a missing operator."""

NOT_FOR_DTYPE = re.compile(r"(?P<operator>[\w:.]+)\(\): not implemented for DT")
"""TorchTPU's words for an operator that is missing for one dtype."""

NOT_YET = re.compile(r"(?P<operator>[\w:.]+)\(\): .*(does not yet support|is not yet supported)")
"""TorchTPU's words for an operator that is missing for one argument."""

NO_KERNEL = re.compile(
    r"Could not run '(?P<operator>[\w:.]+)' with arguments from the '\w*(tpu|PrivateUse1)\w*'",
    re.IGNORECASE,
)
"""PyTorch's words for an operator without a kernel for a layout of the backend."""

REFUSED_BY = re.compile(r"^(?P<operator>[\w:.]+)\(\): ")
"""How TorchTPU begins what an operator of its own says."""

FAILED_BEFORE = re.compile(r"a required argument is in a failed state")
"""TorchTPU's words for a value whose own computation failed, which hide why it did."""

NOT_LOWERED = re.compile(r"Failed to lower FX graph")
"""TorchTPU's words for a graph that did not become a program; raised at the first execution."""

OUT_OF_MEMORY = re.compile(r"RESOURCE_EXHAUSTED|CompileTimeHbmOom|exceeds available HBM")
"""The TPU runtime's and compiler's words for no memory."""


class TheDevice(Device):
    """One TPU device; which one is chosen by `TPU_VISIBLE_CHIPS` in the worker's environment."""

    profile = "tpu"
    place = "tpu:0"
    flushed_dtypes: tuple[str, ...] = (
        "float32",
        "bfloat16",
    )  # a TPU's vector unit has no subnormal numbers
    dispatch_keys = (
        "PrivateUse1",
        "AutogradPrivateUse1",
        "SparsePrivateUse1",
        "SparseCsrPrivateUse1",
        "AutocastPrivateUse1",
        "QuantizedPrivateUse1",
        "NestedTensorPrivateUse1",
    )
    operator_namespace = "tpu"
    dynamic_within_bounds = None  # TorchTPU refuses `True`; the marks alone make sizes dynamic

    def __init__(self) -> None:
        self._opened = False

    def load(self) -> dict[str, str]:
        """Imports TorchTPU without making a client; a moved internal interface is said plainly."""
        from torch_tpu import _loader
        from torch_tpu._internal import execution_mode

        for owner, name in ((_loader, "_init_device"), (execution_mode, "set_eager_mode")):
            if not hasattr(owner, name):
                raise ImportError(f"`{owner.__name__}.{name}` is not in this version of torch_tpu")
        return package_versions("torch_tpu", "libtpu")

    def check_present(self) -> None:
        """Looks on the PCI bus and for device files: without a TPU the runtime hangs or aborts."""
        if tpu_devices_on_bus() == 0 and not any(Path(path).exists() for path in DEVICE_FILES):
            raise DeviceUnavailableError(
                "no TPU was found on the PCI bus, and there is no `/dev/vfio` or `/dev/accel`",
                "choose another device with `--device`, for example `tpu-sim`",
            )

    def open(self) -> None:
        """Registers the backend and pins its settings; the client follows at the first tensor."""
        if self._opened:
            return
        from torch_tpu import _loader
        from torch_tpu._internal import execution_mode

        # Registration by hand, since autoloading is off: a host without a TPU, or with a broken
        # one, must reach this line and fail as a message.
        _loader._init_device("tpu")
        execution_mode.enable_cpu_fallback = False
        self._opened = True

    def describe(self) -> Probed:
        """Names the chip."""
        from torch_tpu._internal.utils import hardware

        return Probed(
            device_kind=str(hardware.get_tpu_device_name()),
            device=self.place,
            count=self.count(),
            simulated=self.simulated,
            versions=_driver_version(),
        )

    def count(self) -> int:
        """Devices this process sees."""
        return int(torch.accelerator.device_count())

    def synchronize(self) -> None:
        """Waits for everything deferred, so that its error is raised here."""
        torch.accelerator.synchronize()

    @contextlib.contextmanager
    def execution(self, mode: Mode, *, one_at_a_time: bool) -> Iterator[None]:
        """The default mode, or one blocking launch at a time for `strict` and breadcrumbs."""
        from torch_tpu._internal import execution_mode

        execution_mode.enable_cpu_fallback = False
        if mode is not Mode.STRICT and not one_at_a_time:
            # Whatever the backend's default is; setting it by name is another path: in 0.2.0 a
            # `normal` with a deferred argument waits for ever under an explicit DEFER_AND_FUSE.
            yield
            return
        blocking = execution_mode.EagerMode.DEFER_NEVER_AND_LAUNCH_BLOCKING
        with execution_mode.set_eager_mode(blocking):
            yield

    def compiler(self, *, dynamism: bool) -> str | Callable[..., Any]:
        """TorchTPU's compiler, the bounded dynamic one where asked for."""
        if not dynamism:
            return "tpu"
        from torch_tpu._internal.compile._backend import TpuBackend

        compiler: Callable[..., Any] = TpuBackend(dynamism=True)
        return compiler

    def settings(self) -> list[str]:
        """Names what was pinned."""
        from torch_tpu._internal import execution_mode

        default = getattr(execution_mode.eager_mode, "name", execution_mode.eager_mode)
        fallback = "on" if execution_mode.enable_cpu_fallback else "off"
        return [f"enable_cpu_fallback: {fallback}", f"default eager mode: {default}"]

    def fallback_operators(self) -> list[str]:
        """With the fallback switched on by the case itself, any operator may have used it."""
        from torch_tpu._internal import execution_mode

        return ["unknown"] if execution_mode.enable_cpu_fallback else []

    def peak_memory_bytes(self) -> int | None:
        """Peak of the device's allocator, where it reports one."""
        try:
            return int(torch.accelerator.max_memory_allocated()) or None
        except (RuntimeError, NotImplementedError, AttributeError):
            return None

    def repro_lines(self) -> list[str]:
        """Registers the backend whether or not it was loaded by itself."""
        return ["from torch_tpu import _loader; _loader._init_device('tpu')"]

    def hides_its_cause(self, error: BaseException) -> bool:
        """Programs are compiled in the background: their error may surface at what uses them."""
        return isinstance(error, RuntimeError) and bool(FAILED_BEFORE.search(str(error)))

    def dynamism_repro_lines(self) -> list[str]:
        """TorchTPU's bounded dynamic compiler has no name; it is an object."""
        return [
            "from torch_tpu._internal.compile._backend import TpuBackend",
            "backend = TpuBackend(dynamism=True)",
        ]

    def classify(self, error: BaseException) -> Classified | None:
        """Reads TorchTPU's own words for missing and for no memory."""
        if not isinstance(error, (RuntimeError, NotImplementedError)):
            return None
        text = str(error)
        for pattern in (NOT_IMPLEMENTED, NOT_FOR_DTYPE, NOT_YET, NO_KERNEL):
            if match := pattern.search(text):
                return Classified(FailureKind.UNSUPPORTED, operator=_overload(match["operator"]))
        if OUT_OF_MEMORY.search(text):
            stage = Stage.COMPILE if "CompileTimeHbmOom" in text else None
            return Classified(FailureKind.OOM, stage=stage)
        if NOT_LOWERED.search(text):
            # Of whatever class: that a whole graph fails to be lowered names no missing operator.
            return Classified(FailureKind.ERROR, stage=Stage.LOWER)
        if isinstance(error, NotImplementedError):
            # The class says it, whatever the words are.
            named = REFUSED_BY.search(text)
            operator = _overload(named["operator"]) if named else None
            return Classified(FailureKind.UNSUPPORTED, operator=operator)
        return None


def _overload(operator: str) -> str:
    return operator if "::" in operator else f"aten::{operator}"


def tpu_devices_on_bus() -> int:
    """Counts Google's devices on the PCI bus without touching them."""
    found = 0
    try:
        entries = list(PCI_DEVICES.iterdir())
    except OSError:
        return 0
    for entry in entries:
        with contextlib.suppress(OSError):
            found += (entry / "vendor").read_text().strip() == GOOGLE_PCI_VENDOR
    return found


def package_versions(*names: str) -> dict[str, str]:
    """Versions of installed distributions; those that are not installed are left out."""
    versions = {}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _driver_version() -> dict[str, str]:
    for module in ("accel", "gasket", "vfio_pci"):
        with contextlib.suppress(OSError):
            return {"driver": Path(f"/sys/module/{module}/version").read_text().strip()}
    return {}
