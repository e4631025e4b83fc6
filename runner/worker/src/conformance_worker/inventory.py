"""What PyTorch's dispatcher knows of every overload, before and after the backend is loaded.

`remember` is called once before the backend is imported; what it saw is what `take` compares with.
A boxed fallback answers for every overload, so only kernels registered for an overload count.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import torch

from conformance_worker.devices.base import Device
from conformance_worker.messages import Inventory, InventoryOverload

COMMON_KEYS = (
    "CPU",
    "CUDA",
    "Meta",
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "Autograd",
    "ADInplaceOrView",
    "BackendSelect",
)
"""Dispatch keys that are asked for whatever the backend is."""

NAMESPACES = ("aten",)
"""Namespaces that are told, besides the backend's own."""

Kernels = dict[str, frozenset[str]]

_before: Kernels = {}


def remember(device: Device) -> None:
    """Takes note of the kernels there are without the backend."""
    _before.clear()
    _before.update(_kernels(device))


def _kernels(device: Device) -> Kernels:
    keys = [*COMMON_KEYS, *(key for key in device.dispatch_keys if key not in COMMON_KEYS)]
    known = getattr(torch._C, "_dispatch_has_kernel_for_dispatch_key")  # noqa: B009
    names = getattr(torch._C, "_dispatch_get_all_op_names")  # noqa: B009
    return {str(name): frozenset(key for key in keys if known(name, key)) for name in names()}


def take(device: Device) -> Inventory:
    """The inventory of the loaded backend; the device is open."""
    after = _kernels(device)
    own = device.operator_namespace
    delegates = _structured_delegates()
    overloads = []
    for name in sorted(after):
        namespace = name.partition("::")[0]
        if namespace not in NAMESPACES and namespace != own:
            continue
        operator = _find(name)
        overloads.append(
            InventoryOverload(
                name=name,
                schema=_schema(name, operator),
                tags=sorted(str(tag).rpartition(".")[2] for tag in getattr(operator, "tags", ())),
                view=bool(getattr(operator, "is_view", False)),
                structured_delegate=delegates.get(name, ""),
                kernels=sorted(after[name]),
                added=sorted(after[name] - _before.get(name, frozenset())),
            )
        )
    return Inventory(dispatch_key=device.dispatch_keys[0], overloads=overloads)


def _find(name: str) -> Any:
    """PyTorch's object for an overload; nothing where it has none, as old overloads do not."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return getattr(packet, overload or "default", None)


def _schema(name: str, operator: Any) -> str:
    schema = getattr(operator, "_schema", None)
    # Without the name: what changes between two versions is what follows it.
    return str(schema).removeprefix(name) if schema is not None else ""


_FUNC = re.compile(r"^- func: (?P<name>[\w.]+)\(")
_DELEGATE = re.compile(r"^  structured_delegate: (?P<name>[\w.]+)")


def _structured_delegates() -> dict[str, str]:
    """Overload to the structured overload that computes it, as PyTorch's own table has them."""
    package = importlib.util.find_spec("torchgen")
    if package is None or package.origin is None:
        return {}
    table = Path(package.origin).parent / "packaged/ATen/native/native_functions.yaml"
    if not table.is_file():
        return {}
    found: dict[str, str] = {}
    name = ""
    # Read by lines: parsing its thousands of entries as YAML takes seconds.
    for line in table.read_text(encoding="utf-8").splitlines():
        if match := _FUNC.match(line):
            name = f"aten::{match['name']}"
        elif match := _DELEGATE.match(line):
            found[name] = f"aten::{match['name']}"
    return found
