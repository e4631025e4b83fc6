"""Expected values: structure from the native dtype, floating values from a wider one.

A wide value is rounded once to the native dtype, which is the best answer that dtype can give.
What is discrete (integers, truth values, Python numbers) stays as the native execution gave it.
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from conformance_worker import tensors
from conformance_worker.failures import InfraError, first_line
from conformance_worker.models.base import BuiltModel, Inputs
from conformance_worker.tensors import Leaf

Described = tuple[list[Leaf], list[dict[str, Any]]]


def describe(leaves: list[Leaf]) -> Described:
    """Leaves with their structure."""
    return leaves, [tensors.describe(leaf) for leaf in leaves]


def merge(native: list[Leaf], wide: list[Leaf]) -> list[Leaf] | None:
    """Wide values in native dtypes; nothing where the two trees differ."""
    if [leaf.path for leaf in wide] != [leaf.path for leaf in native]:
        return None
    return [_rounded(n, w) for n, w in zip(native, wide, strict=True)]


def _rounded(native: Leaf, wide: Leaf) -> Leaf:
    old, new = native.tensor, wide.tensor
    if old is None or new is None or old.shape != new.shape:
        return native
    if not (old.dtype.is_floating_point or old.dtype.is_complex):
        return native
    return Leaf(native.path, new.detach().to(old.dtype))


def same_nonfinite(left: list[Leaf], right: list[Leaf]) -> bool:
    """Whether the two are finite at the same places."""
    return all(
        a.tensor is None or b.tensor is None or torch.equal(_finite(a.tensor), _finite(b.tensor))
        for a, b in zip(left, right, strict=True)
    )


def _finite(tensor: torch.Tensor) -> torch.Tensor:
    return torch.isfinite(tensor.detach().to_dense())


class ModelReference:
    """The reference of one model on the host, for any number of inputs."""

    def __init__(self, built: BuiltModel, *, wide: bool) -> None:
        self._native = built.module
        self._wide: torch.nn.Module | None = None
        self.dtype_name = tensors.dtype_name(native_dtype(built.module))
        self.notes: list[str] = []
        self.unrounded: Described | None = None
        """What the last call gave in float64, before it was rounded; nothing where it gave none."""
        if wide and native_dtype(built.module) is not torch.float64:
            self._wide = copy.deepcopy(built.module).double()

    def outputs(self, execute: Any, inputs: Inputs) -> Described:
        """What `execute(module, inputs)` gives here; raises `InfraError` where it fails."""
        try:
            native = execute(copied(self._native), map_inputs(inputs, _clone))
        except Exception as error:
            raise InfraError(
                f"the reference failed: {type(error).__name__}: {first_line(error)}"
            ) from error
        leaves = tensors.flatten(native)
        structure = [tensors.describe(leaf) for leaf in leaves]
        self.unrounded = None
        if self._wide is not None:
            leaves = self._widened(execute, inputs, leaves)
        return leaves, structure

    def _widened(self, execute: Any, inputs: Inputs, native: list[Leaf]) -> list[Leaf]:
        assert self._wide is not None
        try:
            wide = tensors.flatten(execute(copied(self._wide), map_inputs(inputs, _double)))
        except Exception as error:
            # Some models fix a dtype in their code and cannot be computed wider.
            self._give_up(type(error).__name__)
            return native
        merged = merge(native, wide)
        if merged is None:
            self._give_up("its outputs have another structure")
            return native
        self.dtype_name = "float64"
        self.unrounded = describe(wide)
        return merged

    def _give_up(self, why: str) -> None:
        self._wide = None
        self.notes.append(f"no wider reference: {why}")


def native_dtype(module: torch.nn.Module) -> torch.dtype:
    """The dtype of the first floating parameter."""
    for parameter in module.parameters():
        if parameter.dtype.is_floating_point:
            return parameter.dtype
    return torch.float32


def copied(module: torch.nn.Module) -> torch.nn.Module:
    """A copy, so that buffers and gradients that a call changes stay out of the next one."""
    return copy.deepcopy(module)


def map_inputs(inputs: Inputs, change: Any) -> Inputs:
    """The same inputs with every tensor replaced."""
    from torch.utils import _pytree as pytree

    args, kwargs = pytree.tree_map_only(torch.Tensor, change, (inputs.args, inputs.kwargs))
    return Inputs(args=args, kwargs=kwargs)


def _clone(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone()


def _double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().double() if tensor.dtype.is_floating_point else tensor.detach().clone()
