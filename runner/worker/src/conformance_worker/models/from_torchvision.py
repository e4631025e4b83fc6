"""Source `torchvision`: the id is a name of `torchvision.models.list_models`."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torchvision
from torchvision import models

from conformance_worker.failures import InfraError
from conformance_worker.messages import ModelSpec
from conformance_worker.models.base import BuiltModel, Inputs, first_that_works

FULL_IMAGE = 224
TINY_IMAGES = (64, 128, FULL_IMAGE)
FRAMES = 8
FRAMES_BY_FAMILY = {"mvit": 16}
"""Where the positions of a model are those of a film of a fixed length."""


def build(spec: ModelSpec, seed: int) -> BuiltModel:
    """Builds the model with random weights; `tiny` takes a small image."""
    if spec.id not in models.list_models():
        raise InfraError(f"`{spec.id}` is not a model of torchvision {torchvision.__version__}")
    if spec.size != "tiny":
        return _build(spec, {}, FULL_IMAGE, seed)
    attempts = [
        (_name(changes, size), functools.partial(_build, spec, changes, size, seed))
        for changes in (*_unscaled(spec.id), {})
        for size in TINY_IMAGES
    ]
    return first_that_works(attempts)


def _unscaled(name: str) -> list[dict[str, Any]]:
    """Detectors scale what they are given to 800 pixels and more, unless told otherwise."""
    if ".detection." not in models.get_model_builder(name).__module__:
        return []
    return [{"min_size": TINY_IMAGES[0], "max_size": TINY_IMAGES[0]}]


def _name(changes: dict[str, Any], size: int) -> str:
    return ", ".join([*(f"{name}={value}" for name, value in changes.items()), f"image {size}"])


def _build(spec: ModelSpec, changes: dict[str, Any], size: int, seed: int) -> BuiltModel:
    kind = models.get_model_builder(spec.id).__module__
    arguments = changes | spec.overrides
    if ".detection." in kind or ".segmentation." in kind:
        arguments.setdefault("weights_backbone", None)
    torch.manual_seed(seed)
    model = models.get_model(spec.id, weights=None, **arguments).eval()

    family = kind.rpartition(".")[2]
    frames = FRAMES_BY_FAMILY.get(family, FRAMES)

    def make_inputs(batch: int, sequence: int) -> Inputs:
        del sequence
        generator = torch.Generator().manual_seed(seed)
        if ".detection." in kind:
            return Inputs(
                args=([torch.rand(3, size, size, generator=generator) for _ in range(batch)],)
            )
        if ".video." in kind:
            return Inputs(args=(torch.randn(batch, 3, frames, size, size, generator=generator),))
        if ".optical_flow." in kind:
            pair = [torch.randn(batch, 3, size, size, generator=generator) for _ in range(2)]
            return Inputs(args=tuple(pair))
        return Inputs(args=(torch.randn(batch, 3, size, size, generator=generator),))

    return BuiltModel(
        module=model,
        make_inputs=make_inputs,
        uses_attention=any(
            isinstance(part, torch.nn.MultiheadAttention) for part in model.modules()
        ),
        repro=[
            "import torchvision",
            f"torch.manual_seed({seed})",
            f"model = torchvision.models.get_model({spec.id!r}, weights=None,"
            f" **{arguments!r}).eval()",
        ],
    )
