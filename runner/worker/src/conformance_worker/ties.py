"""Indices where several answers are right: ties of sort, topk, argmax and their like.

An index is right when it is in range and points at the value that the reference's points at; a
sorting order must be a permutation besides. Indices that are right in this sense are replaced by
the reference's, with a note, and all others stay as they are for the comparison to find. Asked to
be stable, a sort has one right answer, and nothing is replaced.

The eigenvalues of a matrix that is not symmetric have no order either: LAPACK gives those of one
matrix in another order in float32 than in float64.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch

from conformance_worker.operators import Sample
from conformance_worker.tensors import Leaf

DIM_POSITION = {
    "sort": 0,
    "argsort": 0,
    "topk": 1,
    "kthvalue": 1,
    "mode": 0,
    "median": 0,
    "nanmedian": 0,
    "max": 0,
    "min": 0,
    "argmax": 0,
    "argmin": 0,
    "cummax": 0,
    "cummin": 0,
}
"""Entries with indices along a dimension, and where among the arguments the dimension is."""

UNORDERED_EIGENVALUES = ("linalg.eig", "linalg.eigvals")
"""Entries whose first output is eigenvalues in no order; eigenvectors follow as columns."""

PERMUTATIONS = ("sort", "argsort", "topk")
RUNNING = ("cummax", "cummin")
FLAT_BY_DEFAULT = ("argmax", "argmin")
_POOL = re.compile(r"nn\.functional\.(adaptive_)?max_pool(?P<rank>[123])d$")


@dataclass(frozen=True)
class Settled:
    """The device's leaves with indices that are right in place of equally right ones."""

    leaves: list[Leaf]
    note: str = ""


def settle(entry: Any, sample: Sample, actual: list[Leaf], expected: list[Leaf]) -> Settled:
    """Replaces indices that differ from the reference's and are as right. Host tensors only."""
    if [leaf.path for leaf in actual] != [leaf.path for leaf in expected]:
        return Settled(actual)
    if entry.name in UNORDERED_EIGENVALUES:
        return _in_order_of(actual, expected)
    source = _source(entry.name, sample)
    if source is None:
        return Settled(actual)
    replaced = 0
    leaves = list(actual)
    for number, (mine, theirs) in enumerate(zip(actual, expected, strict=True)):
        if not _is_index(mine) or not _is_index(theirs):
            continue
        left, right = mine.value, theirs.value
        if left.shape != right.shape or torch.equal(left, right):
            continue
        if not source.agree(left, right):
            continue
        leaves[number] = theirs
        replaced += int((left != right).sum())
        if source.any_order:
            leaves = _reordered(leaves, actual, expected, source, left)
    note = f"{replaced} indices of ties differ from the reference's and are as right"
    return Settled(leaves, note if replaced else "")


def _in_order_of(actual: list[Leaf], expected: list[Leaf]) -> Settled:
    """Puts the device's eigenvalues, and its eigenvectors with them, in the reference's order.

    Each of the reference's takes the nearest that none before it took: what differs by more than
    its place still does afterwards.
    """
    mine, theirs = actual[0].tensor, expected[0].tensor
    if mine is None or theirs is None or mine.shape != theirs.shape or mine.dim() == 0:
        return Settled(actual)
    distances = (theirs.unsqueeze(-1) - mine.unsqueeze(-2)).abs().nan_to_num(torch.inf)
    order = torch.empty(mine.shape, dtype=torch.int64)
    for place in range(mine.shape[-1]):
        nearest = distances[..., place, :].argmin(-1, keepdim=True)
        order[..., place] = nearest.squeeze(-1)
        taken = torch.zeros(mine.shape, dtype=torch.bool).scatter(-1, nearest, value=True)
        distances = distances.masked_fill(taken.unsqueeze(-2), torch.inf)
    moved = int((order != torch.arange(mine.shape[-1])).sum())
    if not moved or not torch.equal(
        order.sort(-1).values, torch.arange(mine.shape[-1]).expand_as(order)
    ):
        return Settled(actual)
    leaves = [Leaf(actual[0].path, mine.gather(-1, order)), *actual[1:]]
    for number, leaf in enumerate(actual[1:], start=1):
        vectors = leaf.tensor
        if vectors is not None and vectors.shape == (*mine.shape, mine.shape[-1]):
            columns = order.unsqueeze(-2).expand(vectors.shape)
            leaves[number] = Leaf(leaf.path, vectors.gather(-1, columns))
    return Settled(leaves, f"{moved} eigenvalues are in another place than the reference's")


def _is_index(leaf: Leaf) -> bool:
    tensor = leaf.tensor
    return tensor is not None and tensor.dtype is torch.int64 and leaf.is_output


@dataclass(frozen=True)
class _Source:
    """The tensor that indices point into, along a dimension; flattened where there is none."""

    values: torch.Tensor
    dim: int | None
    name: str
    any_order: bool = False

    def gather(self, index: torch.Tensor) -> torch.Tensor | None:
        """What indices point at; nothing where one is out of range."""
        values, dim = self.values, self.dim
        if dim is None:
            values, index, dim = values.reshape(-1), index.reshape(-1), 0
        elif values.dim() == 0:
            values, index, dim = values.reshape(1), index.reshape(-1), 0
        elif index.dim() == values.dim() - 1:
            index = index.unsqueeze(dim)
        if index.numel() and (int(index.min()) < 0 or int(index.max()) >= values.shape[dim]):
            return None
        return values.gather(dim, index)

    def agree(self, left: torch.Tensor, right: torch.Tensor) -> bool:
        """Whether indices on the left are as right as those on the right, which are."""
        mine, theirs = self.gather(left), self.gather(right)
        if mine is None or theirs is None:
            return False
        if self.any_order and self.dim is not None and mine.dim():
            mine, theirs = mine.sort(self.dim).values, theirs.sort(self.dim).values
        if not torch.equal(mine.isnan(), theirs.isnan()) or not torch.equal(
            mine[~mine.isnan()], theirs[~theirs.isnan()]
        ):
            return False
        if self.name in PERMUTATIONS and left.dim():
            assert self.dim is not None
            if bool((left.sort(self.dim).values.diff(dim=self.dim) == 0).any()):
                return False
        if self.name in RUNNING and left.dim():
            assert self.dim is not None
            shape = [1] * left.dim()
            shape[self.dim] = -1
            if bool((left > torch.arange(left.shape[self.dim]).reshape(shape)).any()):
                return False
        return True


def _source(name: str, sample: Sample) -> _Source | None:
    tensor = sample.input
    if not isinstance(tensor, torch.Tensor) or tensor.is_complex():
        return None
    tensor = tensor.detach()
    if match := _POOL.match(name):
        return _Source(tensor.flatten(-int(match["rank"])), -1, name) if tensor.dim() else None
    if name not in DIM_POSITION or sample.kwargs.get("stable"):
        return None
    position = DIM_POSITION[name]
    given = sample.args[position] if len(sample.args) > position else None
    dim = sample.kwargs.get("dim", given)
    if dim is None and name not in FLAT_BY_DEFAULT:
        dim = -1
    if isinstance(dim, bool) or not (dim is None or isinstance(dim, int)):
        return None
    any_order = name == "topk" and not _is_sorted(sample)
    return _Source(tensor, dim, name, any_order)


def _is_sorted(sample: Sample) -> bool:
    given = sample.args[3] if len(sample.args) > 3 else True
    return bool(sample.kwargs.get("sorted", given))


def _reordered(
    leaves: list[Leaf],
    actual: list[Leaf],
    expected: list[Leaf],
    source: _Source,
    index: torch.Tensor,
) -> list[Leaf]:
    """Takes the reference's order of values too, where they are those that the indices name."""
    pointed = source.gather(index)
    return [
        theirs
        if mine.path.endswith(".0")
        and mine.tensor is not None
        and pointed is not None
        and torch.equal(mine.value, pointed.reshape(mine.value.shape))
        else leaf
        for leaf, mine, theirs in zip(leaves, actual, expected, strict=True)
    ]
