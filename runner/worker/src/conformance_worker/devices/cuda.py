"""Profile `cuda`: plain PyTorch on an NVIDIA or AMD GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from conformance_worker.devices.base import Classified, Device, DeviceUnavailableError
from conformance_worker.messages import Probed
from conformance_worker.words import FailureKind, Mode


class TheDevice(Device):
    """One GPU; which one is chosen by `CUDA_VISIBLE_DEVICES` in the worker's environment."""

    profile = "cuda"
    dispatch_keys = ("CUDA", "AutogradCUDA", "AutocastCUDA", "SparseCUDA")
    place = "cuda:0"

    def check_present(self) -> None:
        """Asks the driver without creating a context."""
        if not torch.backends.cuda.is_built():
            raise DeviceUnavailableError(
                "this PyTorch was built without CUDA",
                "install a CUDA build of torch, or choose another device with `--device`",
            )
        if not torch.cuda.is_available():
            raise DeviceUnavailableError(
                "no CUDA device was found", "choose another device with `--device`"
            )

    def open(self) -> None:
        """Pins what changes numerics: no TF32, no reduced-precision sums."""
        torch.cuda.init()
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False

    def describe(self) -> Probed:
        """Names the GPU and the CUDA it was built for."""
        return Probed(
            device_kind=torch.cuda.get_device_name(0),
            device=self.place,
            count=torch.cuda.device_count(),
            simulated=False,
            versions={"cuda": str(torch.version.cuda or torch.version.hip or "")},
        )

    def begin_case(self, subject: str) -> None:
        """Restarts the peak."""
        del subject
        torch.cuda.reset_peak_memory_stats(0)

    def synchronize(self) -> None:
        """Waits for the GPU."""
        torch.cuda.synchronize(0)

    @contextlib.contextmanager
    def execution(self, mode: Mode, *, one_at_a_time: bool) -> Iterator[None]:
        """Strict execution needs `CUDA_LAUNCH_BLOCKING=1` before the context exists; see docs."""
        del mode, one_at_a_time
        yield

    def settings(self) -> list[str]:
        """Names what was pinned."""
        return ["allow_tf32: off"]

    def peak_memory_bytes(self) -> int | None:
        """Peak of the caching allocator."""
        return int(torch.cuda.max_memory_allocated(0))

    def classify(self, error: BaseException) -> Classified | None:
        """Knows the GPU's own word for no memory."""
        if isinstance(error, torch.cuda.OutOfMemoryError):
            return Classified(FailureKind.OOM)
        return None
