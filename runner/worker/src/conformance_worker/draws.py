"""Enough draws of a random operator to tell one distribution from another.

Samples of random operators are small: five elements of a dropout look like no dropout at all once
in thirty times. So the call is executed again with other seeds, on the host and on the device
alike, until there are enough elements, and all of them are compared together.
"""

from __future__ import annotations

import math

import torch

from conformance_worker import operator_rules, reference, tensors
from conformance_worker.tensors import Leaf

WANTED_ELEMENTS = 400
"""Draws at which a rate of 0.3 in place of 0.5 is seen beyond doubt."""

MOST_EXECUTIONS = 100
"""Executions of one case on either side; a sample of one element gets no more draws."""


def executions_for(name: str, leaves: list[Leaf]) -> int:
    """How many executions give enough draws; 1 where the first does, or where there are none."""
    counts = [
        operator_rules.independent(name, leaf.tensor).numel()
        for leaf in leaves
        if leaf.tensor is not None and leaf.is_output
    ]
    smallest = min(filter(None, counts), default=0)
    if not smallest:
        return 1
    return min(MOST_EXECUTIONS, math.ceil(WANTED_ELEMENTS / smallest))


def varying(first: list[Leaf], others: list[list[Leaf]]) -> frozenset[str]:
    """Paths of the outputs that any other seed changes by more than rounding.

    The singular values of a random projection, for one, are the same numbers for every seed:
    drawing them again tells nothing, and their last bits would be taken for a distribution.
    """
    return frozenset(
        leaf.path
        for leaf in first
        if leaf.tensor is not None
        and leaf.is_output
        and any(not _is_near(leaf.tensor, _at(leaf.path, other)) for other in others)
    )


def _at(path: str, leaves: list[Leaf]) -> torch.Tensor | None:
    return next((leaf.tensor for leaf in leaves if leaf.path == path), None)


def _is_near(left: torch.Tensor, right: torch.Tensor | None) -> bool:
    if right is None or left.shape != right.shape or left.dtype != right.dtype:
        return False
    return torch.allclose(left, right, rtol=1e-3, atol=1e-3, equal_nan=True)


def pooled(
    name: str, first: reference.Described, others: list[list[Leaf]], paths: frozenset[str]
) -> reference.Described:
    """The outputs at these paths of all executions in one tensor each, and the rest of the first;
    without elements that tell nothing new."""
    leaves, structure = list(first[0]), list(first[1])
    for number, leaf in enumerate(first[0]):
        if leaf.tensor is None or not leaf.is_output:
            continue
        drawn = [first[0], *others] if leaf.path in paths else [first[0]]
        parts = [_part(name, execution, leaf) for execution in drawn]
        kept = [part for part in parts if part is not None]
        tensor = torch.stack(kept) if len(kept) == len(drawn) > 1 else kept[0]
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
