"""One operator case: a sample of an entry, on the reference and on the device.

Outputs, gradients and the inputs that the operator is to write to are compared. All other inputs,
and tensors that are no part of the call, are guarded (`guards`): an operator that writes to what it
should leave alone is as wrong as one that returns the wrong value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from conformance_worker import (
    accumulation,
    draws,
    factors,
    guards,
    layouts,
    operator_call,
    operator_rules,
    operators,
    reference,
    repro,
    tensors,
    ties,
)
from conformance_worker.case import CaseRun
from conformance_worker.failures import (
    InfraError,
    MismatchError,
    SkipCaseError,
    first_line,
    is_out_of_memory,
)
from conformance_worker.messages import OperatorTask
from conformance_worker.observed import BothRaised, Spread
from conformance_worker.operators import Sample
from conformance_worker.tensors import Leaf
from conformance_worker.words import FailureKind, Form, Rule, SkipReason, Stage

Sides = tuple[reference.Described, reference.Described]
"""What the device gave, and what was expected."""


class Expected:
    """What the reference gave: leaves and their structure, or the exception it raised."""

    def __init__(self, described: reference.Described | None, error: Exception | None) -> None:
        self.described = described
        self.error = error
        self.dtype_name = ""
        self.rule = Rule.CLOSE
        self.written: frozenset[int] = frozenset()
        """Numbers of the inputs that the reference writes to."""


def observe(run: CaseRun, task: OperatorTask) -> None:
    """Executes the case and fills in what was observed."""
    run.enter(Stage.BUILD)
    entry, sample = _build(run, task)
    run.observed.repro = repro.operator_case(run.request, task, run.device)
    run.enter(Stage.REFERENCE)
    expected = _reference(run, entry, sample)
    if task.error_input and expected.error is None:
        run.observed.notes.append("the reference accepts these inputs; its entry says it must not")
    try:
        leaves, guarded = _on_device(run, entry, sample, expected)
    except Exception as error:
        if expected.error is None or not _is_plain(run, error):
            raise
        _note_both(run, error, expected.error)
        return
    if expected.error is not None or expected.described is None:
        raise MismatchError(
            f"expected error: the reference raises {type(expected.error).__name__}, "
            "the device returns"
        )
    run.enter(Stage.TRANSFER)
    actual, structure = run.fetch(leaves)
    guarded.check(run.device, run.observed.notes)
    settled = ties.settle(entry, sample, actual, expected.described[0])
    _note(run, settled.note)
    sides: Sides = (settled.leaves, structure), expected.described
    if not run.request.train:
        sides, note = factors.settle(entry, sample, *sides)
        _note(run, note)
    if expected.rule is Rule.STATISTICAL:
        sides = _enough_draws(run, entry, sample, *sides)
    addends, spread = _order_of_adding(run, entry, sample, actual)
    run.compare(
        *sides,
        rule=expected.rule,
        reference=f"cpu {expected.dtype_name}",
        tolerance_class=operator_rules.tolerance_class(task.entry, train=run.request.train),
        addends=addends,
        spread=spread,
    )


def _note(run: CaseRun, note: str) -> None:
    if note:
        run.observed.notes.append(note)


def _enough_draws(
    run: CaseRun,
    entry: Any,
    sample: Sample,
    actual: reference.Described,
    expected: reference.Described,
) -> Sides:
    """Both sides with as many draws as it takes to tell distributions apart."""
    name = entry.full_name
    executions = draws.executions_for(name, expected[0])
    if run.request.train or run.compiles:
        executions = 1  # a gradient is of one draw, and compiling again would take too long
    on_host = [_on_host(run, entry, sample, number)[0] for number in range(1, executions)]
    paths = draws.varying(expected[0], on_host)
    on_device = [_again(run, number) for number in range(1, executions)] if paths else []
    if on_device:
        _note(run, f"{executions} executions with other seeds are compared together")
    return (
        draws.pooled(name, actual, on_device, paths),
        draws.pooled(name, expected, on_host, paths),
    )


def _order_of_adding(
    run: CaseRun, entry: Any, sample: Sample, first: list[Leaf]
) -> tuple[int | None, Spread | None]:
    """How many numbers are added up in one place, and how far equal executions are apart."""
    is_low = operators.torch_dtype(run.request.dtype) in accumulation.LOW_PRECISION
    if run.request.train or not is_low:
        return None, None
    addends = accumulation.most_addends(entry, sample)
    if addends is None or run.compiles:
        return addends, None
    outputs = [leaf for leaf in first if leaf.is_output]
    others = [_again(run, 0) for _ in range(1, accumulation.REPEATS)]
    return addends, accumulation.spread([outputs, *others])


def _again(run: CaseRun, seed_offset: int) -> list[Leaf]:
    """Outputs of one more execution on the device, on the host."""
    assert run.prepare_rerun is not None, "the device's side was executed"
    run.enter(Stage.TRANSFER)
    rerun = run.prepare_rerun()
    run.seed(seed_offset)
    run.enter(Stage.EXECUTE)
    with run.on_device():
        result = rerun()
        run.device.synchronize()
    run.enter(Stage.TRANSFER)
    return run.fetch(tensors.flatten(result["output"], "output"))[0]


def _note_both(run: CaseRun, actual: Exception, expected: Exception) -> None:
    run.observed.both_raised = BothRaised(
        actual=type(actual).__name__, expected=type(expected).__name__
    )
    if type(actual) is not type(expected):
        run.observed.notes.append(f"the device's words: {first_line(actual)}")


def _is_plain(run: CaseRun, error: Exception) -> bool:
    """Whether an exception is an operator's refusal, and not a gap or a limit of the backend."""
    return run.failure(error).kind is FailureKind.ERROR


def _build(run: CaseRun, task: OperatorTask) -> tuple[Any, Sample]:
    request = run.request
    entry = operators.entries().get(task.entry)
    if entry is None:
        raise InfraError(f"there is no operator entry `{task.entry}` in this version of torch")
    if request.layout and request.layout not in layouts.FORMS:
        raise InfraError(f"`{request.layout}` is not a layout of operator cases")
    if request.layout == Form.INPLACE and entry.inplace_variant is None:
        raise SkipCaseError(SkipReason.BY_DESIGN, f"`{task.entry}` has no in-place form")
    if request.layout == Form.OUT and not entry.supports_out:
        raise SkipCaseError(SkipReason.BY_DESIGN, f"`{task.entry}` has no `out=` form")
    if not operators.supports(entry, request.dtype, train=request.train):
        raise SkipCaseError(
            SkipReason.DTYPE_NOT_APPLICABLE, f"`{task.entry}` does not take {request.dtype}"
        )
    if task.error_input and not operators.has_error_inputs(entry):
        raise SkipCaseError(SkipReason.BY_DESIGN, f"`{task.entry}` names no inputs to refuse")
    sample = operators.find_sample(
        entry, request.dtype, task.sample, train=request.train, error_input=task.error_input
    )
    if sample is None:
        of = "error input" if task.error_input else "sample"
        raise InfraError(f"`{task.entry}` has no {of} {task.sample} for {request.dtype}")
    run.uses_attention = re.search("attention|transformer", task.entry.lower()) is not None
    return entry, sample


def _reference(run: CaseRun, entry: Any, sample: Sample) -> Expected:
    """Computes on the host: in the native dtype for structure, and wider for values."""
    native = operators.torch_dtype(run.request.dtype)
    before = _arranged(run, sample).tensors()
    try:
        leaves, after = _on_host(run, entry, sample)
    except Exception as error:
        if is_out_of_memory(error):
            raise InfraError(f"the reference ran out of memory: {error}") from error
        return Expected(None, error)
    written = guards.written(before, after)
    leaves += [Leaf(f"inputs.{number}", after[number]) for number in sorted(written)]
    expected = Expected(reference.describe(leaves), None)
    expected.written = written
    expected.dtype_name = tensors.dtype_name(native)
    random = _is_random(run, entry, sample, leaves)
    outputs = tensors.tensors_of([leaf for leaf in leaves if not leaf.path.startswith("inputs")])
    expected.rule = operator_rules.rule(
        entry, random=random, dtypes={tensor.dtype for tensor in outputs}
    )
    is_dropout = operator_rules.is_dropout(entry) and not run.request.train
    if is_dropout and not random and _is_a_copy(outputs, before):
        expected.rule = Rule.EXACT
    wide = operator_rules.reference_dtype(entry, native, train=run.request.train)
    if expected.rule is Rule.CLOSE and wide is not native:
        _widen(run, entry, sample, expected, wide)
    return expected


def _is_a_copy(outputs: list[torch.Tensor], inputs: list[torch.Tensor]) -> bool:
    """Whether nothing was computed: the outputs are the first inputs, bit for bit."""
    return len(outputs) <= len(inputs) and all(
        guards.same_bits(left, right) for left, right in zip(outputs, inputs, strict=False)
    )


def _widen(run: CaseRun, entry: Any, sample: Sample, expected: Expected, wide: Any) -> None:
    """Replaces floating values of the reference by those computed in a wider dtype."""
    assert expected.described is not None
    native_leaves, structure = expected.described
    widened = sample.map(lambda tensor: operator_rules.widen(tensor, wide))
    try:
        wide_leaves, after = _on_host(run, entry, widened)
        wide_leaves += [Leaf(f"inputs.{n}", after[n]) for n in sorted(expected.written)]
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


RANDOM_LOOKS = 8
"""Other seeds that a suspect is executed with: one toss of a coin comes out alike half the time."""


def _is_random(run: CaseRun, entry: Any, sample: Sample, leaves: list[Leaf]) -> bool:
    """Executes a suspect with other seeds and looks whether anything changes."""
    return operator_rules.may_be_random(entry) and any(
        _differs_with_another_seed(run, entry, sample, leaves, number)
        for number in range(1, RANDOM_LOOKS + 1)
    )


def _differs_with_another_seed(
    run: CaseRun, entry: Any, sample: Sample, leaves: list[Leaf], number: int
) -> bool:
    other, after = _on_host(run, entry, sample, seed_offset=number)
    other += [Leaf(f"inputs.{n}", tensor) for n, tensor in enumerate(after)]
    by_path = {leaf.path: leaf.tensor for leaf in other}
    return any(
        leaf.tensor is not None
        and (again := by_path.get(leaf.path)) is not None
        and not torch.equal(leaf.tensor.nan_to_num(), again.nan_to_num())
        for leaf in leaves
    )


def _on_host(
    run: CaseRun, entry: Any, sample: Sample, seed_offset: int = 0
) -> tuple[list[Leaf], list[torch.Tensor]]:
    """What the call gave, and the inputs as they are after it."""
    copied = _arranged(run, sample.map(_copy))
    run.seed(seed_offset)
    with torch.set_grad_enabled(run.request.train):
        result = operator_call.call(run, entry, copied, out_like=None)
    return _leaves(result), copied.tensors()


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _on_device(
    run: CaseRun, entry: Any, sample: Sample, expected: Expected
) -> tuple[list[Leaf], guards.Guards]:
    """What the call gave, on the device, and what was watched meanwhile."""
    device = run.device
    name = run.request.task.entry if isinstance(run.request.task, OperatorTask) else ""

    def prepare() -> Sample:
        moved = operators.to_device(sample, name, device.move, device.place)
        return _arranged(run, moved)

    def execute(moved: Sample, *, compiled: bool) -> Any:
        out_like = expected.described[0] if expected.described else None
        call: Callable[..., Any] = operator_call.call
        return device.call(call, (run, entry, moved, out_like, compiled), {})

    def again() -> Callable[[], Any]:
        fresh = prepare()
        return lambda: execute(fresh, compiled=False)

    run.prepare_rerun = again
    run.enter(Stage.TRANSFER)
    guarded = guards.Guards(device, run.request.layout)
    moved = prepare()
    guarded.watch(_arranged(run, sample).tensors(), moved.tensors(), expected.written)
    run.seed()
    run.enter(Stage.EXECUTE)
    with run.on_device():
        result = execute(moved, compiled=run.compiles)
        device.synchronize()

    leaves = _leaves(result)
    run.note_places(leaves)
    # Host-only arguments are compared with themselves: where they are is not a finding.
    after = moved.tensors()
    leaves += [Leaf(f"inputs.{number}", after[number]) for number in sorted(expected.written)]
    return leaves, guarded


def _arranged(run: CaseRun, sample: Sample) -> Sample:
    layout = run.request.layout
    if layout not in layouts.LAYOUTS:
        return sample
    return sample.map(lambda tensor: layouts.arrange(tensor, layout))


def _leaves(result: dict[str, Any]) -> list[Leaf]:
    leaves = tensors.flatten(result["output"], "output")
    if result.get("gradients"):
        leaves += tensors.flatten(result["gradients"], "gradients")
    return leaves
