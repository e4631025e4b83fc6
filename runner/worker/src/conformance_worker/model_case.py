"""One model case: build, move, execute in a mode; for training also a backward and a step.

Tier 1 (`compare` off) demands finite values and, for tiny models, the structure that the host
gives. Tier 2 (`compare` on) compares values with a reference computed now on the host, or with a
golden: outputs that another device gave for the same weights and inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance_worker import (
    divergence,
    fingerprint,
    graph_signature,
    model_figures,
    models,
    operators,
    reference,
    repro,
    tensors,
)
from conformance_worker.case import CaseRun
from conformance_worker.failures import (
    InfraError,
    MismatchError,
    SkipCaseError,
    StaleGoldenError,
)
from conformance_worker.graphs import Compiled, reset
from conformance_worker.messages import Golden, ModelSpec, ModelTask
from conformance_worker.models.base import BuiltModel, Inputs, UnbuildableError
from conformance_worker.reference import Described
from conformance_worker.tensors import Leaf
from conformance_worker.words import Rule, SkipReason, Stage, ToleranceClass

LEARNING_RATE = 1e-3


def observe(run: CaseRun, task: ModelTask) -> None:
    """Executes the case and fills in what was observed."""
    run.enter(Stage.BUILD)
    built = build(run, task.model)
    inputs = cast(built.make_inputs(task.model.batch, task.model.sequence), run)
    if task.compare and task.model.size == "tiny" and not run.request.train:
        run.observed.notes += model_figures.ask_for_hidden_states(built, inputs)
    run.observed.repro = repro.model_case(run.request, task.model, built, run.device)
    if run.request.find_divergence is not None:
        divergence.observe(run, built, inputs)
        return
    execute = train_step if run.request.train else forward
    if run.request.continue_past is not None:
        _on_device(run, built, inputs, execute)
        return
    if run.request.record or run.request.golden is not None:
        run.observed.fingerprint = fingerprint.of(built.module, inputs)
    if run.request.golden is not None:
        _compare_with_golden(run, run.request.golden, built, inputs, execute)
        return
    expected = None
    # A full model is executed on the host only where its values are wanted.
    if task.compare or task.model.size == "tiny":
        run.enter(Stage.REFERENCE)
        expected = expected_of(run, built, inputs, execute, wide=task.compare)
    leaves = _on_device(run, built, inputs, execute)
    run.note_places(leaves)
    run.enter(Stage.TRANSFER)
    actual = run.fetch(leaves)
    demand_finite(actual[0], expected[0] if expected else None)
    if expected is not None and task.compare:
        trained = task.model.source == "package"
        run.observed.model_figures = model_figures.of_outputs(
            actual[0], expected[0], built, inputs, trained=trained
        )
    if expected is not None:
        run.compare(
            actual,
            expected[:2],
            rule=Rule.CLOSE if task.compare else Rule.METADATA,
            reference=f"cpu {expected[2]}",
            tolerance_class=ToleranceClass.MODEL,
            wide=expected[3] if run.request.record else None,
        )


def _compare_with_golden(
    run: CaseRun, golden: Golden, built: BuiltModel, inputs: Inputs, execute: Any
) -> None:
    """Nothing is computed on the host. What is not finite is for the comparator to see, which knows
    what the golden has in its place."""
    run.enter(Stage.REFERENCE)
    if run.observed.fingerprint != golden.fingerprint:
        raise StaleGoldenError(
            "the weights or inputs made here are not those of the golden "
            f"({run.observed.fingerprint} where {golden.fingerprint} was expected): record it "
            "again with this version, on a processor with the same vector instructions"
        )
    leaves = _on_device(run, built, inputs, execute)
    run.note_places(leaves)
    run.enter(Stage.TRANSFER)
    actual = run.fetch(leaves)
    if not tensors.tensors_of(actual[0]):
        raise MismatchError("the model returned no tensor")
    run.compare_with_golden(golden, actual, ToleranceClass.MODEL)


def build(run: CaseRun, spec: ModelSpec) -> BuiltModel:
    """Builds the model on the host in the case's dtype."""
    dtype = operators.torch_dtype(run.request.dtype)
    if not dtype.is_floating_point:
        raise SkipCaseError(
            SkipReason.DTYPE_NOT_APPLICABLE, f"a model cannot be built in {run.request.dtype}"
        )
    run.device.prepare_model_build()
    run.seed()
    try:
        built = models.build(spec, run.request.seed)
    except UnbuildableError as error:
        raise InfraError(f"the model cannot be built on the host: {error}") from error
    run.tell_graph(graph_signature.of(built.module))
    built.module.to(dtype)
    run.uses_attention = built.uses_attention
    run.observed.notes += built.notes
    if run.request.train:
        # Dropout would draw other numbers on the device than on the host.
        run.observed.notes.append("trained in evaluation mode: no dropout, no batch statistics")
    return built


def cast(inputs: Inputs, run: CaseRun) -> Inputs:
    """Floating inputs in the case's dtype."""
    dtype = operators.torch_dtype(run.request.dtype)
    return reference.map_inputs(
        inputs, lambda tensor: tensor.to(dtype) if tensor.dtype.is_floating_point else tensor
    )


def forward(module: Callable[..., Any], inputs: Inputs) -> Any:
    """One forward call."""
    return module(*inputs.args, **inputs.kwargs)


def train_step(
    module: Any, inputs: Inputs, *, optimiser: torch.optim.Optimizer | None = None
) -> dict[str, Any]:
    """One forward, a loss made of every floating output, one backward, one step: of SGD, unless
    another optimiser is given."""
    owner: torch.nn.Module = module.function if isinstance(module, Compiled) else module
    outputs = module(*inputs.args, **inputs.kwargs)
    parts = [
        tensor.float().pow(2).mean()
        for tensor in tensors.tensors_of(tensors.flatten(outputs))
        if tensor.requires_grad
    ]
    if not parts:
        raise MismatchError("no output depends on the parameters")
    loss = torch.stack(parts).sum()
    loss.backward()
    gradients = {
        name: parameter.grad.detach().clone()
        for name, parameter in owner.named_parameters()
        if parameter.grad is not None
    }
    (optimiser or torch.optim.SGD(owner.parameters(), lr=LEARNING_RATE)).step()
    return {"outputs": outputs, "loss": loss, "gradients": gradients}


def expected_of(
    run: CaseRun, built: BuiltModel, inputs: Inputs, execute: Any, *, wide: bool
) -> tuple[list[Leaf], list[dict[str, Any]], str, Described | None]:
    """What the host gives: leaves, their structure, the dtype it was computed in, and the same in
    float64 where it was."""
    host = reference.ModelReference(built, wide=wide)
    run.seed()
    with torch.set_grad_enabled(run.request.train):
        leaves, structure = host.outputs(execute, inputs)
    run.observed.notes += host.notes
    return leaves, structure, host.dtype_name, host.unrounded


def _on_device(run: CaseRun, built: BuiltModel, inputs: Inputs, execute: Any) -> list[Leaf]:
    device = run.device
    run.enter(Stage.TRANSFER)

    def prepare() -> tuple[Any, Inputs]:
        module = reference.copied(built.module)
        if untied := device.move_module(module):
            note = f"moving untied parameters, tied again: {', '.join(untied)}"
            if note not in run.observed.notes:
                run.observed.notes.append(note)
        args, kwargs = device.move((inputs.args, inputs.kwargs))
        return module, Inputs(args=args, kwargs=kwargs)

    def again() -> Callable[[], Any]:
        fresh, fresh_inputs = prepare()
        return lambda: execute(fresh, fresh_inputs)

    run.prepare_rerun = again
    module, moved = prepare()
    device.synchronize()
    compiled = None
    if run.compiles:
        reset()
        module = compiled = Compiled.of(
            module, device.compiler(dynamism=False), dynamic=False, enter=run.enter
        )
    run.seed()
    run.enter(Stage.EXECUTE)
    try:
        with run.on_device():
            result = device.call(execute, (module, moved), {})
            device.synchronize()
    finally:
        if compiled is not None:
            run.observed.graphs = compiled.graphs()

    return tensors.flatten(result)


def demand_finite(actual: list[Leaf], expected: list[Leaf] | None) -> None:
    """Raises where the device gives NaN or infinity that the host does not, or gives nothing."""
    present = [leaf for leaf in actual if leaf.tensor is not None]
    if not present:
        raise MismatchError("the model returned no tensor")
    by_path = {leaf.path: leaf.tensor for leaf in expected or []}
    for leaf in present:
        tensor = leaf.tensor
        assert tensor is not None
        bad = _nonfinite(tensor)
        other = by_path.get(leaf.path)
        if other is not None and other.shape == tensor.shape:
            bad = bad & ~_nonfinite(other)
        if count := int(bad.sum()):
            raise MismatchError(f"`{leaf.path}` has {count} values that are not finite")


def _nonfinite(tensor: torch.Tensor) -> torch.Tensor:
    return ~torch.isfinite(tensor.detach())
