"""One operator case: a sample of an entry, on the reference and on the device.

Outputs, gradients and the inputs after the call are all compared: an operator that writes to an
input it should leave alone is as wrong as one that returns the wrong value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from conformance_worker import operator_rules, operators, reference, repro, tensors
from conformance_worker.case import CaseRun
from conformance_worker.failures import InfraError, MismatchError, SkipCaseError, is_out_of_memory
from conformance_worker.graphs import Compiled, reset
from conformance_worker.messages import BothRaised, OperatorTask
from conformance_worker.operators import Sample
from conformance_worker.tensors import Leaf
from conformance_worker.words import FailureKind, Rule, SkipReason, Stage

LAYOUTS = ("", "noncontiguous", "inplace", "out")


class Expected:
    """What the reference gave: leaves and their structure, or the exception it raised."""

    def __init__(self, described: reference.Described | None, error: Exception | None) -> None:
        self.described = described
        self.error = error
        self.dtype_name = ""
        self.rule = Rule.CLOSE


def observe(run: CaseRun, task: OperatorTask) -> None:
    """Executes the case and fills in what was observed."""
    run.enter(Stage.BUILD)
    entry, sample = _build(run, task)
    run.observed.repro = repro.operator_case(run.request, task, run.device)
    run.enter(Stage.REFERENCE)
    expected = _reference(run, entry, sample)
    try:
        leaves = _on_device(run, entry, sample, expected)
    except Exception as error:
        if expected.error is None or not _is_plain(run, error):
            raise
        run.observed.both_raised = BothRaised(
            actual=type(error).__name__, expected=type(expected.error).__name__
        )
        return
    if expected.error is not None or expected.described is None:
        raise MismatchError(
            f"expected error: the reference raises {type(expected.error).__name__}, "
            "the device returns"
        )
    run.enter(Stage.TRANSFER)
    actual = run.fetch(leaves)
    run.compare(
        actual,
        expected.described,
        rule=expected.rule,
        reference=f"cpu {expected.dtype_name}",
        tolerance_class=operator_rules.tolerance_class(task.entry, train=run.request.train),
    )


def _is_plain(run: CaseRun, error: Exception) -> bool:
    """Whether an exception is an operator's refusal, and not a gap or a limit of the backend."""
    return run.failure(error).kind is FailureKind.ERROR


def _build(run: CaseRun, task: OperatorTask) -> tuple[Any, Sample]:
    request = run.request
    entry = operators.entries().get(task.entry)
    if entry is None:
        raise InfraError(f"there is no operator entry `{task.entry}` in this version of torch")
    if request.layout not in LAYOUTS:
        raise InfraError(f"`{request.layout}` is not a layout of operator cases")
    if request.layout == "inplace" and entry.inplace_variant is None:
        raise SkipCaseError(SkipReason.BY_DESIGN, f"`{task.entry}` has no in-place form")
    if request.layout == "out" and not entry.supports_out:
        raise SkipCaseError(SkipReason.BY_DESIGN, f"`{task.entry}` has no `out=` form")
    if not operators.supports(entry, request.dtype, train=request.train):
        raise SkipCaseError(
            SkipReason.DTYPE_NOT_APPLICABLE, f"`{task.entry}` does not take {request.dtype}"
        )
    sample = operators.find_sample(entry, request.dtype, task.sample, train=request.train)
    if sample is None:
        raise InfraError(f"`{task.entry}` has no sample {task.sample} for {request.dtype}")
    run.uses_attention = "attention" in task.entry
    return entry, sample


def _reference(run: CaseRun, entry: Any, sample: Sample) -> Expected:
    """Computes on the host: in the native dtype for structure, and wider for values."""
    native = operators.torch_dtype(run.request.dtype)
    try:
        leaves = _on_host(run, entry, sample)
    except Exception as error:
        if is_out_of_memory(error):
            raise InfraError(f"the reference ran out of memory: {error}") from error
        return Expected(None, error)
    expected = Expected(reference.describe(leaves), None)
    expected.dtype_name = tensors.dtype_name(native)
    random = _is_random(run, entry, sample, leaves)
    outputs = tensors.tensors_of([leaf for leaf in leaves if not leaf.path.startswith("inputs")])
    expected.rule = operator_rules.rule(
        entry, random=random, dtypes={tensor.dtype for tensor in outputs}
    )
    wide = operator_rules.reference_dtype(entry, native, train=run.request.train)
    if expected.rule is Rule.CLOSE and wide is not native:
        _widen(run, entry, sample, expected, wide)
    return expected


def _widen(run: CaseRun, entry: Any, sample: Sample, expected: Expected, wide: Any) -> None:
    """Replaces floating values of the reference by those computed in a wider dtype."""
    assert expected.described is not None
    native_leaves, structure = expected.described
    widened = sample.map(lambda tensor: operator_rules.widen(tensor, wide))
    try:
        wide_leaves = _on_host(run, entry, widened)
    except Exception as error:
        run.observed.notes.append(f"no wider reference: {type(error).__name__}")
        return
    merged = reference.merge(native_leaves, wide_leaves)
    if merged is None:
        run.observed.notes.append("no wider reference: its outputs have another structure")
        return
    if run.request.dtype == "float32" and not reference.same_nonfinite(native_leaves, merged):
        # In float32 an overflow of an intermediate is the operator's meaning, not an inaccuracy.
        run.observed.notes.append("no wider reference: it is non-finite at other places")
        return
    expected.described = (merged, structure)
    expected.dtype_name = tensors.dtype_name(wide)


def _is_random(run: CaseRun, entry: Any, sample: Sample, leaves: list[Leaf]) -> bool:
    """Executes a suspect once more with another seed and looks whether anything changed."""
    if not operator_rules.may_be_random(entry):
        return False
    other = _on_host(run, entry, sample, seed_offset=1)
    return any(
        a.tensor is not None
        and b.tensor is not None
        and not torch.equal(a.tensor.nan_to_num(), b.tensor.nan_to_num())
        for a, b in zip(leaves, other, strict=True)
    )


def _on_host(run: CaseRun, entry: Any, sample: Sample, seed_offset: int = 0) -> list[Leaf]:
    copied = sample.map(_copy)
    run.seed(seed_offset)
    with torch.set_grad_enabled(run.request.train):
        return _leaves(_call(run, entry, copied, out_like=None), copied)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _on_device(run: CaseRun, entry: Any, sample: Sample, expected: Expected) -> list[Leaf]:
    device = run.device
    name = run.request.task.entry if isinstance(run.request.task, OperatorTask) else ""

    def prepare() -> Sample:
        return operators.to_device(sample, name, device.move, device.place)

    def execute(moved: Sample, *, compiled: bool) -> Any:
        out_like = expected.described[0] if expected.described else None
        call: Callable[..., Any] = _call
        return device.call(call, (run, entry, moved, out_like, compiled), {})

    def again() -> Callable[[], Any]:
        fresh = prepare()
        return lambda: execute(fresh, compiled=False)

    run.prepare_rerun = again
    run.enter(Stage.TRANSFER)
    moved = prepare()
    run.seed()
    run.enter(Stage.EXECUTE)
    with run.on_device():
        result = execute(moved, compiled=run.compiles)
        device.synchronize()

    # Host-only arguments are compared with themselves elsewhere: where they are is not a finding.
    leaves = _leaves(result, moved)
    run.note_places([leaf for leaf in leaves if not leaf.path.startswith("inputs")])
    return leaves


def _leaves(result: dict[str, Any], sample: Sample) -> list[Leaf]:
    leaves = tensors.flatten(result["output"], "output")
    leaves += (
        tensors.flatten(result.get("gradients", ()), "gradients") if result.get("gradients") else []
    )
    leaves += [Leaf(f"inputs.{n}", tensor) for n, tensor in enumerate(sample.tensors())]
    return leaves


def _call(
    run: CaseRun, entry: Any, sample: Sample, out_like: list[Leaf] | None, compiled: bool = False
) -> dict[str, Any]:
    """Calls the operator in the form of the case; also differentiates, in direction `train`."""
    if run.request.layout == "noncontiguous":
        sample = sample.map(_noncontiguous)
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
    if operator_rules.wants_processing(entry):
        output = processed if run.request.train else sample.process_output(output)
    if not run.request.train:
        return {"output": output}
    return {"output": output, "gradients": _gradients(run, sample, processed)}


def _form(
    run: CaseRun, entry: Any, sample: Sample, out_like: list[Leaf] | None
) -> Callable[[Any, Any, Any], Any]:
    layout = run.request.layout
    operator = entry.inplace_variant if layout == "inplace" else entry.op
    if layout == "inplace" and run.request.train:
        operator = lambda tensor, *args, **kwargs: entry.inplace_variant(  # noqa: E731
            tensor.clone(), *args, **kwargs
        )
    if layout != "out":
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


def _noncontiguous(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout is not torch.strided or tensor.numel() < 2:
        return tensor
    return torch.stack([tensor, tensor], dim=-1)[..., 0]


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
