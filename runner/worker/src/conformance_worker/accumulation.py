"""Sums whose order is the device's choice: how many numbers they add up, and how far apart repeated
executions are.

Where an index names one place often, a device adds in whatever order its threads come. In half
precision every addition rounds, so two right devices differ by more than a rounding or two, and one
device from itself. How far from itself is evidence of its own, beside how far from the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance_worker.observed import Spread
from conformance_worker.operators import Sample
from conformance_worker.tensors import Leaf

REPEATS = 10
"""Executions on the device, the first included."""

LOW_PRECISION = (torch.float16, torch.bfloat16)

Count = Callable[..., torch.Tensor]


def most_addends(entry: Any, sample: Sample) -> int | None:
    """The most numbers that are added up into one element; nothing where none gets two.

    Counted by the operator itself, adding ones where the sample adds its values.
    """
    count = COUNTS.get(entry.name)
    if count is None or not isinstance(sample.input, torch.Tensor) or not sample.input.numel():
        return None
    there = torch.zeros(sample.input.shape, dtype=torch.int64)
    counts = count(there, *sample.args, **sample.kwargs)
    most = int(counts.max())
    return most + 1 if most > 1 else None  # what is there already is one of them


def _ones(values: torch.Tensor) -> torch.Tensor:
    return torch.ones(values.shape, dtype=torch.int64)


def _index_add(there: Any, dim: int, index: Any, source: Any, **_: Any) -> torch.Tensor:
    return there.index_add(dim, index, _ones(source))


def _scatter_add(there: Any, dim: int, index: Any, source: Any, **_: Any) -> torch.Tensor:
    if not isinstance(source, torch.Tensor):
        source = index
    return there.scatter_add(dim, index, _ones(source))


def _scatter_reduce(
    there: Any, dim: int, index: Any, source: Any, reduce: str, **_: Any
) -> torch.Tensor:
    return _scatter_add(there, dim, index, source) if reduce in ("sum", "mean") else there


def _index_reduce(
    there: Any, dim: int, index: Any, source: Any, reduce: str, **_: Any
) -> torch.Tensor:
    return _index_add(there, dim, index, source) if reduce == "mean" else there


def _index_put(
    there: Any, indices: Any, values: Any, accumulate: bool = False, **_: Any
) -> torch.Tensor:
    if not accumulate:
        return there
    return there.index_put(indices, _ones(values), accumulate=True)


def _put(there: Any, index: Any, source: Any, accumulate: bool = False, **_: Any) -> torch.Tensor:
    return there.put(index, _ones(source), accumulate=True) if accumulate else there


COUNTS: dict[str, Count] = {
    "index_add": _index_add,
    "index_put": _index_put,
    "index_reduce": _index_reduce,
    "put": _put,
    "scatter_add": _scatter_add,
    "scatter_reduce": _scatter_reduce,
}
"""By entry: what counts the numbers that each element gets."""


def spread(executions: list[list[Leaf]]) -> Spread:
    """How far equal executions are apart; host tensors of one structure only."""
    largest = 0.0
    for leaves in zip(*executions, strict=True):
        values = [leaf.tensor for leaf in leaves if leaf.tensor is not None]
        if not values or not values[0].dtype.is_floating_point or not values[0].numel():
            continue
        stacked = torch.stack([value.double() for value in values])
        if not bool(stacked.isfinite().all()):
            return Spread(len(executions), None)
        largest = max(largest, float((stacked.amax(0) - stacked.amin(0)).max()))
    return Spread(len(executions), largest)
