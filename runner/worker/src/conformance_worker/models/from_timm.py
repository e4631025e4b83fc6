"""Source `timm`: the id is a timm model name."""

from __future__ import annotations

import functools
from typing import Any

import timm
import torch

from conformance_worker.failures import InfraError
from conformance_worker.messages import ModelSpec
from conformance_worker.models.base import BuiltModel, Inputs, first_that_works

TINY_IMAGE = 64
TINY_IMAGES = (TINY_IMAGE, 96)
"""Tried before the default size: some pool patches by threes."""
TINY_CHANGES: tuple[dict[str, Any], ...] = (
    {"img_size": TINY_IMAGE, "depth": 2},
    {"img_size": TINY_IMAGE},
    {},
)
"""Arguments tried in order; each architecture takes some and refuses the others."""


def build(spec: ModelSpec, seed: int) -> BuiltModel:
    """Builds the model with random weights; `tiny` takes a small image and few blocks."""
    if spec.id not in timm.list_models():
        raise InfraError(f"`{spec.id}` is not a model of timm {timm.__version__}")
    if spec.size != "tiny":
        return _build(spec, {}, None, seed)
    attempts = [
        (_name(changes, size), functools.partial(_build, spec, changes, size, seed))
        for changes in TINY_CHANGES
        for size in (*TINY_IMAGES, None)
        if not changes or size == TINY_IMAGE
    ]
    return first_that_works(attempts)


def _name(changes: dict[str, Any], size: int | None) -> str:
    parts = [f"{name}={value}" for name, value in changes.items()]
    return ", ".join([*parts, f"image {size}" if size else "image of the default size"])


def _build(spec: ModelSpec, changes: dict[str, Any], size: int | None, seed: int) -> BuiltModel:
    arguments = changes | spec.overrides
    torch.manual_seed(seed)
    model = timm.create_model(spec.id, pretrained=False, **arguments).eval()
    channels, height, width = model.default_cfg.get("input_size", (3, 224, 224))
    height, width = (size or height), (size or width)

    def make_inputs(batch: int, sequence: int) -> Inputs:
        del sequence
        generator = torch.Generator().manual_seed(seed)
        return Inputs(args=(torch.randn(batch, channels, height, width, generator=generator),))

    return BuiltModel(
        module=model,
        make_inputs=make_inputs,
        uses_attention=any(hasattr(part, "fused_attn") for part in model.modules()),
        repro=[
            "import timm",
            f"torch.manual_seed({seed})",
            f"model = timm.create_model({spec.id!r}, pretrained=False, **{arguments!r}).eval()",
        ],
    )
