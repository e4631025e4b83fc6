"""Forms of a dynamism case besides plain inputs: masks with padding, positions at their limit.

Where a model lacks what a form needs, it is skipped with the reason, and never a plain case under
another name. Caches of keys and values are `decoding`'s.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import torch

from conformance_worker.failures import SkipCaseError
from conformance_worker.messages import DynamicDimension
from conformance_worker.models.base import BuiltModel, Inputs
from conformance_worker.words import DynamicForm, SkipReason

PADDED = (DynamicForm.PADDED_LEFT, DynamicForm.PADDED_RIGHT)
LIMITS = ("max_position_embeddings", "n_positions", "max_sequence_length")
"""Names that configurations give the number of positions."""


class Unpadded(torch.nn.Module):
    """What a model gives for real tokens, and zero for padding, for which it may give anything."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, attention_mask: torch.Tensor, **inputs: Any) -> torch.Tensor:
        """The first output of the model, masked."""
        output = self.model(attention_mask=attention_mask, **inputs)
        first: torch.Tensor = output if isinstance(output, torch.Tensor) else output[0]
        is_real = attention_mask.bool()
        while is_real.dim() < first.dim():
            is_real = is_real.unsqueeze(-1)
        return torch.where(is_real, first, 0.0)


def module(form: DynamicForm, model: torch.nn.Module) -> torch.nn.Module:
    """The model as it is called in this form."""
    return Unpadded(model) if form in PADDED else model


def dimensions(form: DynamicForm, declared: list[DynamicDimension]) -> list[DynamicDimension]:
    """The declared dimensions, also of the input that the form adds."""
    if form is not DynamicForm.POSITIONS_AT_LIMIT:
        return declared
    return [
        replace(
            dimension, inputs=dimension.inputs | {"position_ids": dimension.inputs["input_ids"]}
        )
        if "input_ids" in dimension.inputs
        else dimension
        for dimension in declared
    ]


def inputs(form: DynamicForm, built: BuiltModel, plain: Inputs) -> Inputs:
    """Inputs in this form, from plain ones."""
    given = dict(plain.kwargs)
    if form in PADDED:
        mask = given.get("attention_mask")
        if mask is None or mask.dim() != 2:
            raise SkipCaseError(SkipReason.BY_DESIGN, "the model takes no mask of its tokens")
        given["attention_mask"] = padded(mask, left=form is DynamicForm.PADDED_LEFT)
    elif form is DynamicForm.POSITIONS_AT_LIMIT:
        tokens = given.get("input_ids")
        takes_them = "position_ids" in inspect.signature(built.module.forward).parameters
        limit = position_limit(built.module)
        if tokens is None or tokens.dim() != 2 or not takes_them or limit is None:
            raise SkipCaseError(SkipReason.BY_DESIGN, "the model takes no positions with a limit")
        length = tokens.shape[1]
        positions = torch.arange(limit - length, limit).clamp(min=0)
        given["position_ids"] = positions.expand(tokens.shape).contiguous()
    return Inputs(kwargs=given)


def padded(mask: torch.Tensor, *, left: bool) -> torch.Tensor:
    """A mask of which each row hides another number of tokens at one side, and at least one of its
    tokens is real."""
    rows, length = mask.shape
    hidden = (torch.arange(1, rows + 1) * length // (rows + 1)).clamp(max=length - 1)
    places = torch.arange(length).expand(rows, length)
    real = places >= hidden[:, None] if left else places < (length - hidden)[:, None]
    return real.to(mask.dtype).contiguous()


def position_limit(model: torch.nn.Module) -> int | None:
    """The number of positions that a configuration allows."""
    config = getattr(model, "config", None)
    text = getattr(config, "text_config", None)
    for part in (text, config):
        for name in LIMITS:
            limit = getattr(part, name, None)
            if isinstance(limit, int) and limit > 0:
                return limit
    return None


def repro_lines(form: DynamicForm, built: BuiltModel) -> list[str]:
    """Lines of a script that put `inputs` into this form."""
    if form in PADDED:
        left = form is DynamicForm.PADDED_LEFT
        side = "place >= hidden" if left else "place < length - hidden"
        return [
            "    rows, length = inputs['attention_mask'].shape",
            "    hidden = (torch.arange(1, rows + 1) * length // (rows + 1)).clamp(max=length - 1)",
            "    place, hidden = torch.arange(length)[None], hidden[:, None]",
            f"    inputs['attention_mask'].copy_({side})",
        ]
    if form is DynamicForm.POSITIONS_AT_LIMIT:
        limit = position_limit(built.module)
        return [
            "    length = inputs['input_ids'].shape[1]",
            f"    positions = torch.arange({limit} - length, {limit}).clamp(min=0)",
            "    inputs['position_ids'].copy_(positions)",
        ]
    return []
