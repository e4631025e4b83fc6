"""Whether two trees of host tensors agree, and how far apart they are, for a search inside a case.

No outcome rests on this: the runner decides cases, by its own comparison. The order of checks and
the meaning of close are the same as there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from conformance_worker import tensors
from conformance_worker.messages import Tolerance
from conformance_worker.tensors import Leaf


@dataclass(frozen=True)
class Difference:
    """How the first leaf that is not close differs."""

    finding: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    max_abs_error: float | None = None
    """Over finite pairs; nothing where values were not compared."""


@dataclass(frozen=True)
class Nearness:
    """How two trees compare."""

    over: float
    """Largest error as a multiple of what the tolerance allows there; above 1 is not close."""
    difference: Difference | None = None


def of_leaves(actual: list[Leaf], expected: list[Leaf], tolerance: Tolerance) -> Nearness:
    """Compares leaf by leaf in tree order, up to the first that is not close."""
    if [leaf.path for leaf in actual] != [leaf.path for leaf in expected]:
        found = f"{len(actual)} parts, not {len(expected)}, or of other names"
        return Nearness(math.inf, Difference(found))
    over = 0.0
    for left, right in zip(actual, expected, strict=True):
        if left.tensor is None or right.tensor is None:
            continue
        nearness = of_tensors(left.tensor, right.tensor, tolerance)
        if nearness.difference is not None:
            return nearness
        over = max(over, nearness.over)
    return Nearness(over)


def of_tensors(actual: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> Nearness:
    """Shape, dtype, places and signs of what is not finite, values: the first that is wrong."""
    shape, dtype = tuple(actual.shape), tensors.dtype_name(actual.dtype)

    def wrong(finding: str, over: float = math.inf, error: float | None = None) -> Nearness:
        return Nearness(over, Difference(finding, dtype, shape, error))

    if actual.shape != expected.shape:
        return wrong(f"shape {list(shape)}, not {list(expected.shape)}")
    if actual.dtype != expected.dtype:
        return wrong(f"dtype {dtype}, not {tensors.dtype_name(expected.dtype)}")
    if actual.numel() == 0:
        return Nearness(0.0)
    if not (actual.dtype.is_floating_point or actual.dtype.is_complex):
        count = int((actual != expected).sum())
        return wrong(f"{count} of {actual.numel()} values differ") if count else Nearness(0.0)
    left, right = _wide(actual), _wide(expected)
    finite = left.isfinite() & right.isfinite()
    same = (left == right) | (left.isnan() & right.isnan())
    error = torch.where(finite, (left - right).abs(), 0.0)
    largest = float(error.max())
    if count := int((~finite & ~same).sum()):
        found = f"{count} of {left.numel()} are finite on one side only, or of another sign"
        return wrong(found, error=largest)
    allowed = tolerance.atol + tolerance.rtol * torch.where(finite, right.abs(), 0.0)
    count = int((error > allowed).sum())
    over = float(torch.where(error > 0, error / allowed, 0.0).max())
    if count:
        return wrong(
            f"{count} of {left.numel()} values differ, by up to {largest:.3g}", over, largest
        )
    return Nearness(over)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """As float64 parts; by way of float32, since some narrow types convert to nothing else."""
    plain = tensor.detach()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    if plain.is_complex():
        plain = torch.view_as_real(plain.to(torch.complex128).resolve_conj())
    elif plain.dtype is not torch.float64:
        plain = plain.to(torch.float32)
    return plain.double()
