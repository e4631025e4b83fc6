"""One call of an operator, in the form of its case, with its gradients in direction `train`.

The same on the host and on the device: which it is shows only in where the sample's tensors are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from conformance_worker import operator_rules, operators, tensors
from conformance_worker.case import CaseRun
from conformance_worker.graphs import Compiled, reset
from conformance_worker.operators import Sample
from conformance_worker.tensors import Leaf
from conformance_worker.words import Form


def call(
    run: CaseRun, entry: Any, sample: Sample, out_like: list[Leaf] | None, compiled: bool = False
) -> dict[str, Any]:
    """Calls the operator in the form of the case; also differentiates, in direction `train`."""
    function = _form(run, entry, sample, out_like)
    if compiled:
        reset()
        counted = Compiled.of(
            function, run.device.compiler(dynamism=False), dynamic=False, enter=run.enter
        )
        try:
            output = counted(sample.input, sample.args, sample.kwargs)
        finally:
            run.observed.graphs = counted.graphs()
    else:
        output = function(sample.input, sample.args, sample.kwargs)
    processed = sample.process_output(output) if run.request.train else output
    if operator_rules.wants_processing(entry, train=run.request.train):
        output = processed if run.request.train else sample.process_output(output)
    if not run.request.train:
        return {"output": output}
    return {"output": output, "gradients": _gradients(run, sample, processed)}


def _form(
    run: CaseRun, entry: Any, sample: Sample, out_like: list[Leaf] | None
) -> Callable[[Any, Any, Any], Any]:
    layout = run.request.layout
    operator = entry.inplace_variant if layout == Form.INPLACE else entry.op
    if layout == Form.INPLACE and run.request.train:
        operator = lambda tensor, *args, **kwargs: entry.inplace_variant(  # noqa: E731
            tensor.clone(), *args, **kwargs
        )
    if layout != Form.OUT:
        return lambda first, args, kwargs: operator(first, *args, **kwargs)
    # The result's shape and dtype are the reference's; the first call of the reference finds them.
    like = out_like or tensors.flatten(
        entry.op(sample.input, *sample.args, **sample.kwargs), "output"
    )
    places = [
        torch.empty_like(leaf.tensor, device=_place(sample, run))
        for leaf in like
        if leaf.tensor is not None and leaf.path.startswith("output")
    ]
    out = places[0] if len(places) == 1 else tuple(places)
    return lambda first, args, kwargs: operator(first, *args, **kwargs, out=out)


def _place(sample: Sample, run: CaseRun) -> torch.device:
    present = sample.tensors()
    return present[0].device if present else run.device.torch_device()


def _gradients(run: CaseRun, sample: Sample, output: Any) -> dict[str, Any]:
    """Gradients of the outputs for every input that takes part, by fixed output gradients."""
    outputs = [
        tensor
        for tensor in tensors.tensors_of(tensors.flatten(output, "output"))
        if tensor.requires_grad
    ]
    inputs = [tensor for tensor in sample.tensors() if tensor.requires_grad]
    if not outputs or not inputs:
        return {}
    generator = torch.Generator().manual_seed(run.request.seed)
    native = operators.torch_dtype(run.request.dtype)
    with _disable_current_modes():  # these are ours, and not operators of the case
        weights = [_weight(tensor, generator, native) for tensor in outputs]
    found = torch.autograd.grad(outputs, inputs, weights, allow_unused=True)
    return {str(number): gradient for number, gradient in enumerate(found)}


def _weight(output: torch.Tensor, generator: torch.Generator, native: torch.dtype) -> torch.Tensor:
    # Away from zero, so that no part of a gradient vanishes, and rounded to the native dtype
    # first, so that a wider reference starts from the same numbers.
    weight = torch.rand(output.shape, generator=generator, dtype=torch.float64) + 0.5
    if native.is_floating_point:
        weight = weight.to(native)
    return weight.to(output.dtype).to(output.device)
