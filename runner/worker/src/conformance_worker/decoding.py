"""Decoding with a cache of keys and values: a prefill, then one token after the other to the bound.

Two graphs are due: one for the prefill, one for every step after it. With a dynamic cache the
lengths of the cache and of the mask are declared to vary; a static cache has the bound's size, and
nothing varies but what is in it. What is expected is computed without a cache, from all tokens.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from conformance_worker import reference
from conformance_worker.devices.base import Device
from conformance_worker.failures import SkipCaseError
from conformance_worker.messages import DynamicDimension, DynamismTask
from conformance_worker.models.base import BuiltModel, Inputs
from conformance_worker.words import DynamicForm, SkipReason

CACHE_NAMES = ("cache", "past_key_values")
"""What releases of transformers call it, the newer one first."""

CACHES = (DynamicForm.DYNAMIC_CACHE, DynamicForm.STATIC_CACHE)


def cache_name(model: torch.nn.Module) -> str | None:
    """What the model calls its cache; nothing where it takes none."""
    parameters = inspect.signature(model.forward).parameters
    return next((name for name in CACHE_NAMES if name in parameters), None)


def length_of_tokens(task: DynamismTask) -> DynamicDimension | None:
    """The declared dimension that is the length of the tokens."""
    return next((one for one in task.dimensions if one.inputs.get("input_ids") == 1), None)


class Decoder:
    """One model with its cache on a device; each call goes on where the last one ended."""

    def __init__(self, form: DynamicForm, built: BuiltModel, task: DynamismTask) -> None:
        parameters = inspect.signature(built.module.forward).parameters
        name = cache_name(built.module)
        if name is None or not {"input_ids", "attention_mask"} <= set(parameters):
            raise SkipCaseError(SkipReason.BY_DESIGN, "the model takes no cache of keys and values")
        self._bounds = length_of_tokens(task)
        if self._bounds is None:
            raise SkipCaseError(SkipReason.BY_DESIGN, "no dimension is the length of its tokens")
        self._name = name
        self._static = form is DynamicForm.STATIC_CACHE
        self._config = built.module.config
        self._dtype = reference.native_dtype(built.module)
        tokens = built.make_inputs(task.model.batch, self._bounds.max + 1).kwargs["input_ids"]
        if tokens.dim() != 2:
            raise SkipCaseError(SkipReason.BY_DESIGN, "its tokens are not one row each")
        self._tokens: torch.Tensor = tokens
        self._cache: Any = None
        self._filled = 0

    def begin(self, device: Device) -> None:
        """Makes an empty cache."""
        from transformers import DynamicCache, StaticCache

        self._filled = 0
        if not self._static:
            self._cache = DynamicCache(config=self._config)
            return
        assert self._bounds is not None
        text = self._config.get_text_config()
        heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
        size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        self._cache = StaticCache(config=self._config, max_cache_len=self._bounds.max)
        self._cache.early_initialization(
            self._tokens.shape[0], heads, size, self._dtype, torch.device(device.place)
        )

    def expected_inputs(self, length: int) -> Inputs:
        """All tokens so far, without a cache."""
        tokens = self._tokens[:, :length]
        return Inputs(kwargs={"input_ids": tokens, "attention_mask": torch.ones_like(tokens)})

    @staticmethod
    def expected(module: Callable[..., Any], inputs: Inputs) -> Any:
        """What the model gives for the last token."""
        return module(**inputs.kwargs, use_cache=False)[0][:, -1].contiguous()

    def next_inputs(self, device: Device, length: int, *, mark: bool) -> dict[str, Any]:
        """Arguments of the call after which so many tokens are in the cache."""
        assert self._bounds is not None
        tokens = self._tokens[:, self._filled : length]
        room = max(self._bounds.max, length) if self._static else length
        mask = (torch.arange(room) < length).to(torch.int64).expand(tokens.shape[0], room)
        given = device.move({"input_ids": tokens, "attention_mask": mask.contiguous()})
        # The prefill is a graph of its own: what varies does so from the first step on.
        if mark and self._filled and not self._static:
            first, last = self._filled + 1, self._bounds.max
            device.mark_dynamic(given["attention_mask"], 1, first, last)
            for layer in self._cache.layers:
                for kept in (layer.keys, layer.values):
                    device.mark_dynamic(kept, 2, first - 1, last - 1)
        self._filled = length
        return given | {self._name: self._cache, "use_cache": True}

    @staticmethod
    def result(output: Any) -> torch.Tensor:
        """What is compared of an output."""
        last: torch.Tensor = output[0][:, -1].contiguous()
        return last
