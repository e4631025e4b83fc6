"""Output trees: from any Python value to ordered leaves with paths, and on to safetensors.

The file's `structure` metadata is a JSON list in tree order, one object per leaf; the runner
compares it before any value. Complex tensors are stored as real pairs in a last dimension of 2.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

ROOT = "output"
"""Path of a tree that is a single leaf."""

MAX_DEPTH = 32
_REAL_OF_COMPLEX = {torch.complex32, torch.complex64, torch.complex128}


@dataclass(frozen=True)
class Leaf:
    """One leaf of an output tree, in tree order."""

    path: str
    value: Any

    @property
    def tensor(self) -> torch.Tensor | None:
        """The leaf as a tensor, if it is one."""
        return self.value if isinstance(self.value, torch.Tensor) else None

    def changed(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Leaf:
        """The leaf with its tensor changed, if it is one."""
        return Leaf(self.path, self.value if self.tensor is None else change(self.tensor))

    @property
    def is_output(self) -> bool:
        """Whether it is part of what an operator gave, and no gradient or input."""
        return self.path.split(".")[0] == "output"


def flatten(tree: Any, prefix: str = "") -> list[Leaf]:
    """Flattens any output to leaves in order.

    Knows tuples, lists, mappings, dataclasses (a `ModelOutput` is one), and objects that hold
    tensors in their attributes, as caches of keys and values do.
    """
    return list(_walk(tree, prefix, 0, set()))


def _walk(tree: Any, path: str, depth: int, seen: set[int]) -> Iterator[Leaf]:
    parts = _children(tree, seen) if depth < MAX_DEPTH else None
    if parts is None:
        yield Leaf(path or ROOT, tree)
        return
    for name, inner in parts:
        yield from _walk(inner, f"{path}.{name}" if path else name, depth + 1, seen)


def _children(tree: Any, seen: set[int]) -> list[tuple[str, Any]] | None:
    """Names and parts of a node in order, or nothing for a leaf."""
    if isinstance(tree, (torch.Tensor, str, bytes, torch.Size)) or tree is None:
        return None
    if isinstance(tree, Mapping):
        return [(str(key), inner) for key, inner in tree.items()]
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return list(zip(tree._fields, tree, strict=True))
    if isinstance(tree, (list, tuple)):
        return [(str(index), inner) for index, inner in enumerate(tree)]
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return [(item.name, getattr(tree, item.name)) for item in dataclasses.fields(tree)]
    attributes = getattr(tree, "__dict__", None)
    if not attributes or isinstance(tree, (type, torch.nn.Module)) or id(tree) in seen:
        return None
    seen.add(id(tree))
    holding = [
        (name, inner)
        for name, inner in attributes.items()
        if not name.startswith("_") and _may_hold_tensors(inner)
    ]
    return holding or None


def _may_hold_tensors(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    if isinstance(value, (list, tuple)):
        return any(_may_hold_tensors(inner) for inner in value)
    if isinstance(value, Mapping):
        return any(_may_hold_tensors(inner) for inner in value.values())
    return any(isinstance(inner, torch.Tensor) for inner in getattr(value, "__dict__", {}).values())


def tensors_of(leaves: list[Leaf]) -> list[torch.Tensor]:
    """The tensors among the leaves."""
    return [leaf.value for leaf in leaves if isinstance(leaf.value, torch.Tensor)]


def dtype_name(dtype: torch.dtype) -> str:
    """PyTorch's name without its module."""
    return str(dtype).removeprefix("torch.")


def describe(leaf: Leaf) -> dict[str, Any]:
    """One entry of the `structure` metadata."""
    entry: dict[str, Any] = {
        "path": leaf.path,
        "kind": "other",
        "dtype": None,
        "shape": None,
        "stride": None,
        "value": None,
    }
    value = leaf.value
    if isinstance(value, torch.Tensor):
        if value.is_quantized or value.is_nested:
            return entry | {"value": f"{type(value).__name__} {value.layout}"}
        stride = list(value.stride()) if value.layout is torch.strided else None
        return entry | {
            "kind": "tensor",
            "dtype": dtype_name(value.dtype),
            "shape": list(value.shape),
            "stride": stride,
        }
    if value is None:
        return entry | {"kind": "none"}
    if isinstance(value, (bool, int, float, complex, str)):
        return entry | {
            "kind": "scalar",
            "dtype": type(value).__name__,
            "value": _scalar(value),
        }
    if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.Size)):
        return entry | {"value": str(value)}
    return entry | {"value": f"{type(value).__module__}.{type(value).__qualname__}"}


def _scalar(value: complex | str) -> Any:
    if isinstance(value, complex) and not isinstance(value, (int, float)):
        return [_scalar(value.real), _scalar(value.imag)]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def write(path: str, leaves: list[Leaf], structure: list[dict[str, Any]] | None = None) -> None:
    """Writes leaves, already on the host, as one safetensors file.

    `structure` replaces the description taken from the leaves, for outputs that had to be copied
    from a device and whose strides there are to be told.
    """
    described = structure or [describe(leaf) for leaf in leaves]
    stored: dict[str, torch.Tensor] = {}
    for leaf, entry in zip(leaves, described, strict=True):
        if entry["kind"] == "tensor":
            stored[leaf.path] = _storable(leaf.value)
    try:
        save_file(stored, path, metadata={"structure": json.dumps(described, allow_nan=False)})
    except SafetensorError as error:
        # It keeps no error number. A file that cannot be written says nothing about the backend.
        raise OSError(errno.EIO, f"outputs cannot be kept: {error}", path) from error


def _storable(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    plain = plain.resolve_conj().resolve_neg()
    if plain.dtype in _REAL_OF_COMPLEX:
        plain = torch.view_as_real(plain)
    return plain.contiguous().clone()
