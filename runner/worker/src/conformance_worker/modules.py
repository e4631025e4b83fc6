"""PyTorch's module database, with each module as an entry like those of operators.

The parameters and buffers are the first input, so that they are moved, differentiated and guarded
as the inputs of every operator are; the module itself is only the code that takes them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

PREFIX = "module:"
"""Before the names of modules, among those of operators and in case keys."""


@dataclass(frozen=True)
class ModuleSample:
    """One module with its inputs, in the form of a sample of an operator."""

    input: dict[str, torch.Tensor]
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def output_process_fn_grad(output: Any) -> Any:
        """Modules have no processing of their own."""
        return output


class ModuleEntry:
    """One module, with what is asked of the entries of the operator database."""

    inplace_variant = None
    supports_out = False
    supports_autograd = True

    def __init__(self, info: Any) -> None:
        self._info = info
        self.full_name = self.name = f"{PREFIX}{info.name}"

    def supported_dtypes(self, device_type: str) -> set[torch.dtype]:
        """Dtypes of its parameters and inputs."""
        return set(self._info.supported_dtypes(device_type))

    supported_backward_dtypes = supported_dtypes

    @staticmethod
    def op(
        state: dict[str, torch.Tensor], module: torch.nn.Module, *args: Any, **kwargs: Any
    ) -> Any:
        """Calls the module with these parameters and buffers in place of its own."""
        return torch.func.functional_call(module, state, args, kwargs)

    def sample_inputs(
        self, device: str, dtype: torch.dtype, *, requires_grad: bool, set_seed: bool
    ) -> Iterator[ModuleSample]:
        """Its samples: in training mode, and in evaluation mode too where that differs."""
        del set_seed
        info = self._info
        for training in (True, False) if info.train_and_eval_differ else (True,):
            inputs = info.module_inputs_func(
                info, device=device, dtype=dtype, requires_grad=requires_grad, training=training
            )
            for given in inputs:
                if given.forward_input is None:
                    continue
                call = given.forward_input
                module = info.module_cls(
                    *given.constructor_input.args, **given.constructor_input.kwargs
                )
                module = module.to(device).to(dtype).train(training)
                if info.is_lazy:
                    with torch.no_grad():
                        module(*call.args, **call.kwargs)
                yield ModuleSample(
                    input=_state(module, requires_grad=requires_grad),
                    args=(module, *call.args),
                    kwargs=dict(call.kwargs),
                )


def _state(module: torch.nn.Module, *, requires_grad: bool) -> dict[str, torch.Tensor]:
    state = {
        name: parameter.detach().clone().requires_grad_(requires_grad)
        for name, parameter in module.named_parameters()
    }
    return state | {name: buffer.detach().clone() for name, buffer in module.named_buffers()}


def entries() -> list[ModuleEntry]:
    """Every module of the database."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal import common_modules

    return [ModuleEntry(info) for info in common_modules.module_db]
