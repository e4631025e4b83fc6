"""One dynamism case: one compile with declared bounds, then a sweep of sizes.

Bounds are declared on the first call, as a user would; later calls pass plain tensors, so a
bound that is not honoured shows as a new graph. Outside the bounds nothing is compared: graphs
and errors tell whether the size was refused, compiled again, or accepted.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo

from conformance_worker import decoding, dynamic_forms, model_case, reference, repro, tensors
from conformance_worker.case import CaseRun
from conformance_worker.devices.base import Device
from conformance_worker.failures import InfraError
from conformance_worker.graphs import Compiled, reset
from conformance_worker.messages import DynamicDimension, DynamismTask
from conformance_worker.models.base import BuiltModel, Inputs
from conformance_worker.observed import Failure, SweepObserved
from conformance_worker.tensors import Leaf
from conformance_worker.words import DynamicForm, FailureKind, Rule, Stage, ToleranceClass

UNPOISONED = "memory behind the inputs was not poisoned: this device places them by itself"

Expected = tuple[list[Leaf], list[dict[str, Any]], str]


def observe(run: CaseRun, task: DynamismTask) -> None:
    """Executes the sweep and fills in what was observed."""
    run.enter(Stage.BUILD)
    form = DynamicForm(run.request.layout or DynamicForm.PLAIN)
    built = model_case.build(run, task.model)
    if form in decoding.CACHES:
        _decode(run, task, built, form)
        return
    task = dataclasses.replace(task, dimensions=dynamic_forms.dimensions(form, task.dimensions))
    points = [_Point(task, sizes) for sizes in task.sweep]
    if not points or not points[0].inside:
        raise InfraError("the first size of a sweep must be inside the bounds")
    for point in points:
        point.inputs = model_case.cast(_inputs(built, task, point.sizes, form), run)
    built.module = dynamic_forms.module(form, built.module)
    run.observed.repro = repro.dynamism_case(run.request, task, built, run.device)
    run.enter(Stage.REFERENCE)
    host = reference.ModelReference(built, wide=True)
    with torch.no_grad():
        for point in points:
            if point.inside:
                leaves, structure = host.outputs(model_case.forward, point.inputs)
                point.expected = (leaves, structure, host.dtype_name)
    run.observed.notes += host.notes
    _sweep(run, task, built, points)


def _decode(run: CaseRun, task: DynamismTask, built: BuiltModel, form: DynamicForm) -> None:
    """A prefill, then one token after the other; each size is the number of tokens by then."""
    decoder = decoding.Decoder(form, built, task)
    points = [_Point(task, sizes) for sizes in task.sweep]
    run.observed.repro = repro.decoding_case(run.request, task, built, run.device, form)
    run.enter(Stage.REFERENCE)
    host = reference.ModelReference(built, wide=True)
    with torch.no_grad():
        for point in points:
            if point.inside:
                given = decoder.expected_inputs(point.sizes["sequence"])
                leaves, structure = host.outputs(decoder.expected, given)
                point.expected = (leaves, structure, host.dtype_name)
    run.observed.notes += host.notes
    _sweep(run, task, built, points, decoder)


class _Point:
    """One size of the sweep."""

    def __init__(self, task: DynamismTask, sizes: dict[str, int]) -> None:
        self.sizes = sizes
        self.label = ",".join(f"{name}={size}" for name, size in sorted(sizes.items()))
        self.inside = all(
            dimension.min <= sizes[dimension.name] <= dimension.max
            for dimension in task.dimensions
            if dimension.name in sizes
        )
        self.inputs = Inputs()
        self.expected: Expected | None = None


def _inputs(
    built: BuiltModel, task: DynamismTask, sizes: dict[str, int], form: DynamicForm
) -> Inputs:
    """Only what the dimensions name, and what is not a tensor: a mask nobody declared dynamic
    would fix the size by itself."""
    batch = sizes.get("batch", task.model.batch)
    sequence = sizes.get("sequence", task.model.sequence)
    inputs = dynamic_forms.inputs(form, built, built.make_inputs(batch, sequence))
    named = {name for dimension in task.dimensions for name in dimension.inputs}
    missing = named - set(inputs.kwargs)
    if missing:
        raise InfraError(
            f"the model has no input `{min(missing)}`; it has {', '.join(inputs.kwargs) or 'none'}"
        )
    kept = {
        name: value
        for name, value in inputs.kwargs.items()
        if name in named or not isinstance(value, torch.Tensor)
    }
    for dimension in task.dimensions:
        for name, index in dimension.inputs.items():
            if dimension.name in sizes and kept[name].shape[index] != sizes[dimension.name]:
                raise InfraError(
                    f"dimension {index} of `{name}` is not its `{dimension.name}`: it is "
                    f"{kept[name].shape[index]} where {sizes[dimension.name]} was asked for"
                )
    return Inputs(kwargs=kept)


def _sweep(
    run: CaseRun,
    task: DynamismTask,
    built: BuiltModel,
    points: list[_Point],
    decoder: decoding.Decoder | None = None,
) -> None:
    device = run.device
    run.enter(Stage.TRANSFER)
    module = reference.copied(built.module)
    device.move_module(module)
    device.synchronize()
    reset()
    compiled = Compiled.of(
        module,
        device.compiler(dynamism=True),
        dynamic=device.dynamic_within_bounds,
        enter=run.enter,
    )
    call: Callable[..., Any] = compiled if run.compiles else module
    # A graph whose sizes depend on data is one graph only where the tracer may hold such sizes.
    data_dependent = bool(getattr(module, "data_dependent", False))
    settings = torch._dynamo.config.patch(
        capture_dynamic_output_shape_ops=data_dependent, capture_scalar_outputs=data_dependent
    )
    if decoder is not None:
        decoder.begin(device)
    try:
        with settings:
            for number, point in enumerate(points):
                if decoder is None:
                    execute = functools.partial(_execute, run, task, call, point, first=number == 0)
                else:
                    execute = functools.partial(_step, run, decoder, call, point, mark=number == 1)
                failure = _at(run, compiled, point, execute)
                if failure is not None and decoder is not None and point.inside:
                    # What is in the cache now is not known.
                    break
                if number == 0 and failure is not None and compiled.compiled == 0:
                    # Nothing was compiled: the other sizes would say the same, one by one.
                    break
    finally:
        run.observed.graphs = compiled.graphs()

    if decoder is not None:
        return

    def again() -> Callable[[], Any]:
        inputs = device.move(points[0].inputs.kwargs)
        return lambda: module(**inputs)

    run.prepare_rerun = again


def _at(
    run: CaseRun, compiled: Compiled, point: _Point, execute: Callable[[], None]
) -> Failure | None:
    """Executes one size; a failure inside the bounds is the case's own failure too."""
    eager_before = compiled.eager_calls
    failure = None
    try:
        execute()
        if point.inside and run.compiles and compiled.eager_calls > eager_before:
            failure = Failure(
                kind=FailureKind.FALLBACK,
                stage=Stage.EXECUTE,
                error_class="fallback-eager",
                message="it ran outside any compiled graph, in eager mode",
            )
    except Exception as error:
        failure = run.failure(error)
    if point.inside and failure is not None and run.observed.failure is None:
        run.observed.failure = failure
    run.observed.sweep.append(
        SweepObserved(
            label=point.label,
            sizes=point.sizes,
            inside=point.inside,
            graph_count=compiled.compiled,
            eager_calls=compiled.eager_calls - eager_before,
            failure=failure,
        )
    )
    return failure


def _execute(
    run: CaseRun, task: DynamismTask, call: Callable[..., Any], point: _Point, *, first: bool
) -> None:
    device = run.device
    run.enter(Stage.TRANSFER)
    inputs = _poisoned(run, task, device.move(point.inputs.kwargs))
    if first and run.compiles:
        _mark(device, task.dimensions, inputs)
    run.enter(Stage.EXECUTE)
    with run.on_device():
        result = device.call(call, (), inputs)
        device.synchronize()
    _compare(run, point, result)


def _step(
    run: CaseRun,
    decoder: decoding.Decoder,
    call: Callable[..., Any],
    point: _Point,
    *,
    mark: bool,
) -> None:
    device = run.device
    run.enter(Stage.TRANSFER)
    length = point.sizes["sequence"]
    inputs = decoder.next_inputs(device, length, mark=mark and run.compiles)
    run.enter(Stage.EXECUTE)
    with run.on_device():
        result = decoder.result(device.call(call, (), inputs))
        device.synchronize()
    _compare(run, point, result)


def _compare(run: CaseRun, point: _Point, result: Any) -> None:
    """Hands over what one size gave; outside the bounds nothing is compared."""
    leaves = tensors.flatten(result)
    if not point.inside:
        return
    run.note_places(leaves)
    run.enter(Stage.TRANSFER)
    actual = run.fetch(leaves)
    assert point.expected is not None
    model_case.demand_finite(actual[0], point.expected[0])
    run.compare(
        actual,
        point.expected[:2],
        rule=Rule.CLOSE,
        reference=f"cpu {point.expected[2]}",
        tolerance_class=ToleranceClass.MODEL,
        label=point.label,
    )


def _mark(
    device: Device, dimensions: list[DynamicDimension], inputs: dict[str, torch.Tensor]
) -> None:
    for dimension in dimensions:
        for name, index in dimension.inputs.items():
            device.mark_dynamic(inputs[name], index, dimension.min, dimension.max)


def _poisoned(
    run: CaseRun, task: DynamismTask, inputs: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The same inputs, with values that no sum survives where memory goes on behind the extent:
    up to the largest extent that is declared."""
    room = dict.fromkeys(inputs, 1)
    for dimension in task.dimensions:
        for name, index in dimension.inputs.items():
            size = inputs[name].shape[index]
            room[name] *= -(-(dimension.max + 1) // size) if size else 1
    poisoned = {
        name: run.device.with_poison_behind(tensor, room[name] * tensor.numel())
        if isinstance(tensor, torch.Tensor)
        else tensor
        for name, tensor in inputs.items()
    }
    if all(poisoned[name] is inputs[name] for name in inputs) and (
        UNPOISONED not in run.observed.notes
    ):
        run.observed.notes.append(UNPOISONED)
    return poisoned
