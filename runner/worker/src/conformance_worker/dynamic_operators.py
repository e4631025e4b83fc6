"""Single operators and small graphs for the dynamism suite, as models of the source `python`.

Each is what leaks padding, resizes wrongly or depends on data in some backend. Inputs vary in
`batch` and `sequence`; `model-lists/dynamic-operators.toml` names them all with their bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

FEATURES = 8
CLASSES = 5

Made = tuple[torch.nn.Module, Callable[[int, int], dict[str, torch.Tensor]]]


class Operator(torch.nn.Module):
    """Calls a function of the input `x`."""

    def __init__(self, function: Callable[..., Any], *, data_dependent: bool = False) -> None:
        super().__init__()
        self.function = function
        self.data_dependent = data_dependent
        """Whether sizes of outputs follow from values."""

    def forward(self, x: torch.Tensor) -> Any:
        """Whatever the function gives."""
        return self.function(x)


def _table(function: Callable[..., Any], *, data_dependent: bool = False) -> Made:
    """Of an input of batch by sequence."""
    return Operator(function, data_dependent=data_dependent), lambda batch, sequence: {
        "x": _values(batch, sequence)
    }


def _hidden(function: Callable[..., Any]) -> Made:
    """Of an input of batch by sequence by features."""
    return Operator(function), lambda batch, sequence: {"x": _values(batch, sequence, FEATURES)}


def _values(*shape: int) -> torch.Tensor:
    # Negative as well as positive: a maximum or a softmax over padding of zeros shows then.
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7)) - 0.5


def total() -> Made:
    """A sum over the length."""
    return _table(lambda x: x.sum(-1))


def mean() -> Made:
    """A mean: padding changes its divisor too."""
    return _table(lambda x: x.mean(-1))


def maximum() -> Made:
    """A maximum of negative numbers, which padding of zeros would win."""
    return _table(lambda x: (-x.abs() - 1).amax(-1))


def exp_sum() -> Made:
    """exp before a sum: padding of zeros counts as ones."""
    return _table(lambda x: x.exp().sum(1))


def softmax() -> Made:
    """A softmax of negative numbers."""
    return _table(lambda x: functional.softmax(-x.abs() - 5, -1))


def layer_norm() -> Made:
    """Normalised over the length."""
    return _table(lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1))


def matmul() -> Made:
    """A product over features, rows by rows."""
    return _hidden(lambda x: x @ x.transpose(1, 2))


def matmul_over_length() -> Made:
    """A product that sums over the length."""
    return _hidden(lambda x: x.transpose(1, 2) @ x)


def concatenate() -> Made:
    """Two of a kind after one another: the length doubles."""
    return _table(lambda x: torch.cat([x, 2 * x], dim=1))


def expand() -> Made:
    """A row repeated for every position."""
    return _table(lambda x: x[:, :1].expand(x.shape[0], x.shape[1]) + x)


def arange() -> Made:
    """Positions, made from the length."""
    return _table(lambda x: x * torch.arange(x.shape[1], device=x.device))


def index() -> Made:
    """Picks positions from the end."""
    return _table(lambda x: x[:, torch.arange(x.shape[1] - 1, -1, -1, device=x.device)])


def last() -> Made:
    """The last real position, which the bound's extent would miss."""
    return _table(lambda x: x[:, -1])


def reshape() -> Made:
    """Merges length and features, and parts them again."""
    return _hidden(lambda x: x.reshape(x.shape[0], -1).reshape(x.shape))


def flatten() -> Made:
    """Merges batch and length."""
    return _table(lambda x: x.reshape(-1).cumsum(0))


def where() -> Made:
    """Chooses by a mask."""
    return _table(lambda x: torch.where(x > 0, x, torch.full_like(x, -1.0)).sum(-1))


def cumulative() -> Made:
    """A running sum."""
    return _table(lambda x: x.cumsum(1))


def causal_mask() -> Made:
    """A triangle of the length's own size."""
    return _table(
        lambda x: torch.ones(x.shape[1], x.shape[1], device=x.device).tril() @ x.transpose(0, 1)
    )


def argmax() -> Made:
    """The place of the largest."""
    return _table(lambda x: (-x.abs()).argmax(-1))


def sort() -> Made:
    """Sorted: padding would come first or last."""
    return _table(lambda x: x.sort(-1).values)


def embedding() -> Made:
    """Looks indices up."""
    table = torch.linspace(0, 1, CLASSES * FEATURES).reshape(CLASSES, FEATURES)

    def make(batch: int, sequence: int) -> dict[str, torch.Tensor]:
        ids = torch.arange(batch * sequence).reshape(batch, sequence) % CLASSES
        return {"x": ids}

    return Operator(lambda x: functional.embedding(x, table.to(x.device)).sum(1)), make


def nonzero() -> Made:
    """How many there are depends on their values."""
    return _table(lambda x: (x > 0).nonzero(), data_dependent=True)


def masked_select() -> Made:
    """Chosen values, as many as there are."""
    return _table(lambda x: torch.masked_select(x, x > 0), data_dependent=True)


def nonzero_expand() -> Made:
    """A size taken from data, expanded to."""

    def function(x: torch.Tensor) -> torch.Tensor:
        count = (x > 0).nonzero().shape[0]
        return x.new_ones(5, 2).expand(count, 5, 2).sum((1, 2))

    return _table(function, data_dependent=True)
