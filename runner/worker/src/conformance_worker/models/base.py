"""What every model source gives: a module in evaluation mode, and inputs for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

MOST_PARAMETERS_TINY = 400_000_000
"""A model that is still larger after shrinking is refused: its recipe does not fit it."""


class UnbuildableError(Exception):
    """The model cannot be built here; says which recipe failed with what."""


@dataclass
class Inputs:
    """Arguments of one forward call."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class BuiltModel:
    """A model on the host, ready to be copied."""

    module: torch.nn.Module
    make_inputs: Callable[[int, int], Inputs]
    """Inputs for a batch size and a sequence length; the latter is ignored where there is none."""

    uses_attention: bool = False
    notes: list[str] = field(default_factory=list)
    repro: list[str] = field(default_factory=list)
    """Lines of Python that build `model` and `inputs` (a dict, or a tuple) without this package."""


def first_that_works(attempts: Sequence[tuple[str, Callable[[], BuiltModel]]]) -> BuiltModel:
    """Tries recipes in order, each with one forward call on the host."""
    problems = []
    for name, attempt in attempts:
        try:
            built = attempt()
            check_forward(built)
        except Exception as error:
            line = (str(error).splitlines() or [""])[0]
            problems.append(f"{name}: {type(error).__name__}: {line}"[:300])
            continue
        if name:
            built.notes.append(f"recipe: {name}")
        return built
    raise UnbuildableError("; ".join(problems))


def check_forward(built: BuiltModel) -> None:
    """One forward call on the host with the smallest inputs."""
    inputs = built.make_inputs(2, 16)
    with torch.no_grad():
        built.module(*inputs.args, **inputs.kwargs)


def parameters(module: torch.nn.Module) -> int:
    """Number of parameters."""
    return sum(parameter.numel() for parameter in module.parameters())
