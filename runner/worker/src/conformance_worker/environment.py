"""What is imported before the fork, and the versions of it.

Everything heavy is imported here, once and inside functions, so that a missing package becomes
a message with a hint and a worker starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import platform
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance_worker.devices.base import Device

DISTRIBUTIONS = ("torch", "torch_tpu", "libtpu", "transformers", "timm", "torchvision", "numpy")
"""Distributions whose versions are told; those that are not installed are left out."""

OPTIONAL_MODULES = ("transformers", "transformers.models.auto.modeling_auto", "timm", "torchvision")
"""Imported ahead where they are installed; a case that needs a missing one is skipped."""


class ImportFailedError(RuntimeError):
    """Something that every case needs cannot be imported; carries what to tell the user."""

    def __init__(self, cause: BaseException, hint: str) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.hint = hint


def prepare() -> None:
    """Sets what must be set before torch is imported."""
    # Backends are loaded by name, by us: autoloading would patch `torch.compile` for every
    # profile, and would touch a TPU where only the CPU was asked for.
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def load(profile: str) -> tuple[Device, dict[str, str]]:
    """Imports everything; gives the device and versions, or raises `ImportFailedError`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import safetensors.torch  # noqa: F401
            import torch

            torch.set_num_threads(1)
            from conformance_worker import devices, inventory, operators, worker  # noqa: F401

            operators.load()
        except Exception as error:
            hint = "run `runner setup`, or choose an environment that has it with `--python`"
            raise ImportFailedError(error, hint) from error
        try:
            device = devices.find(profile)
            inventory.remember(device)
            versions = device.load()
        except Exception as error:
            raise ImportFailedError(
                error,
                f"the `{profile}` device needs it: run `runner setup`, choose an environment that "
                "has it with `--python`, or another device with `--device`",
            ) from error
        for name in OPTIONAL_MODULES:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    return device, _versions() | versions


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions
