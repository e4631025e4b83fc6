"""Enough draws of a random operator to tell one distribution from another.

Samples of random operators are small: five elements of a dropout look like no dropout at all once
in thirty times. So the call is executed again with other seeds, on the host and on the device
alike, until there are enough elements, and all of them are compared together.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from conformance_worker import operator_rules, reference, tensors
from conformance_worker.tensors import Leaf

WANTED_ELEMENTS = 400
"""Draws at which a rate of 0.3 in place of 0.5 is seen beyond doubt."""

MOST_EXECUTIONS = 100
"""Executions of one case on either side; a sample of one element gets no more draws."""

Execution = Callable[[int], list[Leaf]]
"""Leaves of an execution with a seed so far from the case's own; on the host."""


def executions_for(name: str, leaves: list[Leaf]) -> int:
    """How many executions give enough draws; 1 where the first does, or where there are none."""
    counts = [
        operator_rules.independent(name, leaf.tensor).numel()
        for leaf in leaves
        if leaf.tensor is not None and _is_output(leaf)
    ]
    smallest = min(filter(None, counts), default=0)
    if not smallest:
        return 1
    return min(MOST_EXECUTIONS, math.ceil(WANTED_ELEMENTS / smallest))


def pooled(
    name: str, first: reference.Described, again: Execution, executions: int
) -> reference.Described:
    """Outputs of so many executions in one tensor each, without elements that tell nothing new."""
    drawn = [first[0], *(again(number) for number in range(1, executions))]
    leaves, structure = list(first[0]), list(first[1])
    for number, leaf in enumerate(first[0]):
        if leaf.tensor is None or not _is_output(leaf):
            continue
        parts = [_part(name, execution, leaf) for execution in drawn]
        kept = [part for part in parts if part is not None]
        tensor = torch.stack(kept) if len(kept) == executions > 1 else kept[0]
        if tensor is leaf.tensor:
            continue
        leaves[number] = Leaf(leaf.path, tensor)
        structure[number] = structure[number] | {
            key: tensors.describe(leaves[number])[key] for key in ("shape", "stride")
        }
    return leaves, structure


def _part(name: str, execution: list[Leaf], like: Leaf) -> torch.Tensor | None:
    """The independent elements of the same leaf, where it has the same shape and dtype again."""
    first = like.value
    for leaf in execution:
        tensor = leaf.tensor
        if leaf.path == like.path and tensor is not None:
            is_alike = tensor.shape == first.shape and tensor.dtype == first.dtype
            return operator_rules.independent(name, tensor) if is_alike else None
    return None


def _is_output(leaf: Leaf) -> bool:
    return leaf.path.split(".")[0] == "output"
