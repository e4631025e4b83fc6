"""Source `python`: the user's own model; the id reads `module:function`.

The function takes the overrides as keyword arguments and returns the module, or a pair of the
module and its inputs: a tuple, a dict, or a function of batch and sequence that returns either.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import torch

from conformance_worker.failures import InfraError
from conformance_worker.messages import ModelSpec
from conformance_worker.models.base import BuiltModel, Inputs


def build(spec: ModelSpec, seed: int) -> BuiltModel:
    """Calls the function."""
    module_name, colon, function_name = spec.id.partition(":")
    if not colon or not function_name:
        raise InfraError(f"`{spec.id}` must read `module:function`")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as error:
        raise InfraError(f"`{spec.id}` cannot be loaded: {error}") from error
    torch.manual_seed(seed)
    made = function(**spec.overrides)
    model, given = made if isinstance(made, tuple) else (made, None)
    if not isinstance(model, torch.nn.Module):
        raise InfraError(f"`{spec.id}` returned {type(model).__name__} and not a module")
    return BuiltModel(
        module=model.eval(),
        make_inputs=lambda batch, sequence: _inputs(given, batch, sequence, spec.id),
        uses_attention=True,  # not known, so the replacement is told
        repro=[
            f"from {module_name} import {function_name}",
            f"torch.manual_seed({seed})",
            f"made = {function_name}(**{spec.overrides!r})",
            "model = (made[0] if isinstance(made, tuple) else made).eval()",
        ],
    )


def _inputs(given: Any, batch: int, sequence: int, name: str) -> Inputs:
    if callable(given):
        wanted = len(inspect.signature(given).parameters)
        given = given(*(batch, sequence)[:wanted])
    if isinstance(given, dict):
        return Inputs(kwargs=dict(given))
    if isinstance(given, (tuple, list)):
        return Inputs(args=tuple(given))
    if isinstance(given, torch.Tensor):
        return Inputs(args=(given,))
    raise InfraError(f"`{name}` gives no inputs: return a pair of the module and its inputs")
