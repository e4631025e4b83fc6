"""What a model's outputs mean, on the device and on the host: beside the figures of single numbers.

Logits: how often the first choices are the same, and how far apart the distributions are. A causal
language model with trained weights: its perplexity on real text. A text encoder: how alike its
sentences are, and its sentences to one another. Hidden states: the error relative to their scale,
since a random tiny model's logits are nearly flat and hide what went wrong before them.

These decide nothing. Random weights know no text, so no perplexity is told of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from conformance_worker.models.base import BuiltModel, Inputs
from conformance_worker.observed import ModelFigure
from conformance_worker.tensors import Leaf

TOP = 5
STATES = ("hidden_states", "last_hidden_state")
SENTENCE_RANK = 3
"""Batch, position, feature."""


def of_outputs(
    actual: list[Leaf], expected: list[Leaf], built: BuiltModel, inputs: Inputs, *, trained: bool
) -> list[ModelFigure]:
    """Every figure that the outputs have; leaves that differ in shape have none."""
    others = {leaf.path: leaf.tensor for leaf in expected}
    figures: list[ModelFigure] = []
    causal = trained and "CausalLM" in type(built.module).__name__
    for leaf in actual:
        left, right = leaf.tensor, others.get(leaf.path)
        if left is None or right is None or not _comparable(left, right):
            continue
        left, right = left.detach().double(), right.detach().double()
        names = leaf.path.split(".")
        if "logits" in names[-1]:
            figures += _of_logits(leaf.path, left, right)
            if causal and "input_ids" in inputs.kwargs:
                figures += _perplexity(leaf.path, left, right, inputs)
        if names[0] in STATES:
            figures += _of_scale(leaf.path, left, right)
        if leaf.path == "last_hidden_state" and "attention_mask" in inputs.kwargs:
            figures += _of_sentences(leaf.path, left, right, inputs.kwargs["attention_mask"])
    return figures


def ask_for_hidden_states(built: BuiltModel, inputs: Inputs) -> list[str]:
    """Makes a model of transformers give its hidden states too, where it then still works; gives
    a note where it does."""
    config: Any = getattr(built.module, "config", None)
    if getattr(config, "output_hidden_states", None) is not False:
        return []
    config.output_hidden_states = True
    try:
        with torch.no_grad():
            built.module(*inputs.args, **inputs.kwargs)
    except Exception:
        config.output_hidden_states = False
        return []
    return ["asked for hidden states: near-flat logits of random weights say little"]


def _comparable(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.shape == right.shape and left.dtype.is_floating_point and left.numel() > 0


def _figure(
    name: str, path: str, value: float, actual: float | None = None, expected: float | None = None
) -> ModelFigure:
    """A figure; what is not finite is absent, and never flatters."""

    def finite(number: float | None) -> float | None:
        return number if number is not None and math.isfinite(number) else None

    return ModelFigure(name, path, finite(value), finite(actual), finite(expected))


def _of_logits(path: str, left: torch.Tensor, right: torch.Tensor) -> Iterator[ModelFigure]:
    if left.dim() == 0 or left.shape[-1] < 2:
        return
    rows, others = left.reshape(-1, left.shape[-1]), right.reshape(-1, right.shape[-1])
    first = (rows.argmax(-1) == others.argmax(-1)).double().mean()
    yield _figure("top-1 agreement", path, float(first))
    if rows.shape[-1] > TOP:
        here, there = rows.topk(TOP).indices, others.topk(TOP).indices
        shared = (here[:, :, None] == there[:, None, :]).any(-1).double().mean()
        yield _figure("top-5 agreement", path, float(shared))
    log_here, log_there = rows.log_softmax(-1), others.log_softmax(-1)
    divergence = (log_there.exp() * (log_there - log_here)).sum(-1).mean()
    # Rounding may leave a little below zero, which a divergence never is.
    value = float(divergence)
    yield _figure("KL divergence", path, max(value, 0.0) if math.isfinite(value) else value)


def _perplexity(
    path: str, left: torch.Tensor, right: torch.Tensor, inputs: Inputs
) -> Iterator[ModelFigure]:
    ids = inputs.kwargs["input_ids"]
    if left.dim() != SENTENCE_RANK or left.shape[:2] != ids.shape or ids.shape[1] < 2:
        return
    mask = inputs.kwargs.get("attention_mask", torch.ones_like(ids))
    # A token counts where it and the one that it is foretold from are text.
    wanted = (mask[:, 1:] * mask[:, :-1]).bool()
    if not bool(wanted.any()):
        return

    def of(logits: torch.Tensor) -> float:
        log = logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
        return math.exp(-float(log[wanted].mean()))

    here, there = of(left), of(right)
    yield _figure("perplexity", path, here - there, here, there)


def _of_scale(path: str, left: torch.Tensor, right: torch.Tensor) -> Iterator[ModelFigure]:
    scale = right.pow(2).mean().sqrt()
    if float(scale) > 0:
        yield _figure("error by scale", path, float((left - right).pow(2).mean().sqrt() / scale))


def _of_sentences(
    path: str, left: torch.Tensor, right: torch.Tensor, mask: torch.Tensor
) -> Iterator[ModelFigure]:
    if left.dim() != SENTENCE_RANK or left.shape[:2] != mask.shape:
        return
    weights = mask[..., None].double()

    def pooled(states: torch.Tensor) -> torch.Tensor:
        mean = (states * weights).sum(1) / weights.sum(1).clamp(min=1)
        return torch.nn.functional.normalize(mean, dim=-1)

    here, there = pooled(left), pooled(right)
    yield _figure("sentence similarity", path, float((here * there).sum(-1).min()))
    if len(here) > 1:
        alike, others = here @ here.T, there @ there.T
        # Each is as like itself as can be, so the diagonal is no pair.
        distance = (alike - others).abs().fill_diagonal_(-1.0)
        worst = int(distance.argmax())
        a, b = float(alike.reshape(-1)[worst]), float(others.reshape(-1)[worst])
        yield _figure("similarity between sentences", path, a - b, a, b)
