"""Decompositions whose factors are not unique: what is compared in place of the factors.

The sign of a singular vector is free, and of equal singular values so is the whole basis. So what
makes factors right is compared, each as a tensor of its own: that they multiply to the matrix
again, that vectors are orthonormal, and the values themselves. The comparator judges these by its
table like any others. Factors of another shape or dtype than the reference's are left as they are,
for it to find.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from conformance_worker import reference, tensors
from conformance_worker.operators import Sample
from conformance_worker.tensors import Leaf


@dataclass(frozen=True)
class Property:
    """What must hold of factors: `actual` is computed from them, `expected` is what it must be."""

    name: str
    actual: torch.Tensor
    expected: torch.Tensor


Factors = list[torch.Tensor]
Properties = Callable[[Factors, torch.Tensor], list[Property]]


def settle(
    entry: Any, sample: Sample, actual: reference.Described, expected: reference.Described
) -> tuple[tuple[reference.Described, reference.Described], str]:
    """Both sides with properties in place of factors, and a note; host tensors only.

    As they are, without a note, where the entry is no such decomposition.
    """
    known = PROPERTIES.get(entry.name)
    mine, theirs = _factors(actual), _factors(expected)
    if known is None or mine is None or theirs is None or not _same_kind(actual, expected):
        return (actual, expected), ""
    places, properties_of = known
    if len(mine) <= max(places):
        return (actual, expected), ""  # values alone were asked for
    matrix = _matrix(entry, sample)
    names = [leaf.path for leaf in actual[0]]
    found = properties_of([_wide(factor) for factor in mine], matrix)
    kept = [number for number in range(len(names)) if number not in places]
    sides = []
    for side, described in enumerate((actual, expected)):
        leaves = [described[0][number] for number in kept]
        structure = [described[1][number] for number in kept]
        for item in found:
            value = (item.actual, item.expected)[side]
            leaf = Leaf(f"output.{item.name}", value.to(_dtype(value, mine[places[0]])))
            leaves.append(leaf)
            structure.append(tensors.describe(leaf))
        sides.append((leaves, structure))
    what = ", ".join(item.name for item in found)
    return (sides[0], sides[1]), f"compared in place of factors that are not unique: {what}"


def _factors(described: reference.Described) -> Factors | None:
    leaves = [leaf.tensor for leaf in described[0]]
    found = [tensor for tensor in leaves if tensor is not None]
    return found if found and len(found) == len(leaves) else None


def _same_kind(left: reference.Described, right: reference.Described) -> bool:
    described = [
        [(leaf["path"], leaf["dtype"], leaf["shape"]) for leaf in side]
        for side in (left[1], right[1])
    ]
    return described[0] == described[1]


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach()
    return plain.to(torch.complex128 if plain.is_complex() else torch.float64)


def _matrix(entry: Any, sample: Sample) -> torch.Tensor:
    """What was decomposed: of a Hermitian matrix, only one triangle is read."""
    matrix = _wide(sample.input)
    if entry.name != "linalg.eigh":
        return matrix
    is_upper = str(sample.kwargs.get("UPLO", "L")).upper() == "U"
    triangle = matrix.mH.tril(-1) if is_upper else matrix.tril(-1)
    diagonal = matrix.diagonal(dim1=-2, dim2=-1).real.to(matrix.dtype)
    return triangle + triangle.mH + torch.diag_embed(diagonal)


def _dtype(value: torch.Tensor, factor: torch.Tensor) -> torch.dtype:
    """The dtype of the factors, by whose tolerance a property is judged."""
    real = torch.empty(0, dtype=factor.dtype).real.dtype if factor.is_complex() else factor.dtype
    return factor.dtype if value.is_complex() else real


def _product(actual: torch.Tensor, expected: torch.Tensor) -> Property:
    return Property("product", actual, expected)


def _orthonormal(name: str, vectors: torch.Tensor) -> Property:
    gram = vectors.mH @ vectors
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype).expand_as(gram)
    return Property(f"{name}-orthonormal", gram, identity)


def _svd(
    u: torch.Tensor, values: torch.Tensor, v: torch.Tensor, matrix: torch.Tensor
) -> list[Property]:
    count = values.shape[-1]
    product = (u[..., :count] * values.unsqueeze(-2)) @ v[..., :count].mH
    return [_product(product, matrix), _orthonormal("U", u), _orthonormal("V", v)]


def _eigh(factors: Factors, matrix: torch.Tensor) -> list[Property]:
    values, vectors = factors
    product = (vectors * values.unsqueeze(-2)) @ vectors.mH
    return [_product(product, matrix), _orthonormal("vectors", vectors)]


def _qr(factors: Factors, matrix: torch.Tensor) -> list[Property]:
    q, r = factors
    below = r.tril(-1)
    triangular = Property("R-below-the-diagonal", below, torch.zeros_like(below))
    if q.dim() < r.dim():  # it was not asked for
        return [Property("R-squared", r.mH @ r, matrix.mH @ matrix), triangular]
    return [_product(q @ r, matrix), _orthonormal("Q", q), triangular]


PROPERTIES: dict[str, tuple[tuple[int, ...], Properties]] = {
    "svd": ((0, 2), lambda found, matrix: _svd(found[0], found[1], found[2], matrix)),
    "linalg.svd": ((0, 2), lambda found, matrix: _svd(found[0], found[1], found[2].mH, matrix)),
    "linalg.eigh": ((1,), _eigh),
    "linalg.qr": ((0, 1), _qr),
}
"""By entry: which of its outputs are factors, and what must hold of all outputs."""
