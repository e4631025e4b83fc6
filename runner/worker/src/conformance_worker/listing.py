"""Which operator cases there are: entries, dtypes, directions and forms, and how many samples.

A form is a way to call the function (`out=`, in place), a layout of its inputs, a choice among its
samples (those that are empty, those without dimensions), or another source of them (modules, inputs
that must be refused). Only what an entry has is listed, so that no planned case is a certain skip.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from conformance_worker import layouts, modules, operators
from conformance_worker.messages import (
    EntriesNamed,
    ListOperators,
    OperatorCase,
    OperatorsListed,
)
from conformance_worker.operators import Sample
from conformance_worker.words import Dtype, Form

USUAL_DTYPE = Dtype.FLOAT32
"""Under which inputs that must be refused are listed: they have dtypes of their own."""


def name_entries() -> EntriesNamed:
    """Names of all entries: what a filter leaves out need not make its samples."""
    return EntriesNamed(sorted(operators.entries()))


def list_cases(request: ListOperators) -> OperatorsListed:
    """Lists the cases of the entries asked for, sorted and each once."""
    known = operators.entries()
    unknown = sorted(name for name in set(request.entries) if name not in known)
    names = sorted(set(request.entries) & set(known)) if request.entries else sorted(known)
    cases: set[OperatorCase] = set()
    problems: dict[str, str] = {}
    for name in names:
        try:
            cases.update(_cases(known[name], request))
        except Exception as error:
            # One entry that cannot make samples here must not hide the other seven hundred.
            line = (str(error).splitlines() or [""])[0]
            problems[name] = f"{type(error).__name__}: {line}"[:300]
    return OperatorsListed(cases=sorted(cases), unknown=unknown, problems=problems)


def _cases(entry: Any, request: ListOperators) -> Iterator[OperatorCase]:
    name = entry.full_name
    is_module = isinstance(entry, modules.ModuleEntry)
    forms = [form for form in request.forms if _has(entry, form)]
    if is_module:
        # Modules are a source of their own: their form is being modules.
        forms = [Form.FUNCTION] if Form.MODULE in request.forms else []
    dtypes = sorted(set(request.dtypes))
    directions = (False, True) if request.gradients else (False,)
    for dtype, train in itertools.product(dtypes, directions):
        wanted = [form for form in forms if form is not Form.ERROR_INPUTS]
        if not wanted or not operators.supports(entry, dtype, train=train):
            continue
        made = list(_described(operators.samples(entry, dtype, train=train), wanted))
        for form in wanted:
            fits = [number for number, found in enumerate(made) if form in found]
            numbers = choose(fits, len(made) if form is Form.FUNCTION else 0, request.samples)
            layout = form.value if form in layouts.FORMS else ""
            for number in numbers:
                yield OperatorCase(name, dtype, number, train, layout)
    if Form.ERROR_INPUTS in forms:
        dtype = USUAL_DTYPE if USUAL_DTYPE in dtypes else dtypes[0]
        refused = operators.samples(entry, dtype, train=False, error_inputs=True)
        for number in choose([], sum(1 for _ in refused), request.samples):
            yield OperatorCase(name, dtype, number, train=False, error_input=True)


def _has(entry: Any, form: Form) -> bool:
    if form is Form.OUT:
        return bool(entry.supports_out)
    if form is Form.INPLACE:
        return entry.inplace_variant is not None
    if form is Form.ERROR_INPUTS:
        return operators.has_error_inputs(entry)
    return form is not Form.MODULE


def _described(made: Iterator[Sample], forms: Sequence[Form]) -> Iterator[set[Form]]:
    """The forms that each sample fits, without keeping the samples."""
    for sample in made:
        yield {form for form in forms if _fits(sample, form)}


def _fits(sample: Sample, form: Form) -> bool:
    if form is Form.EMPTY:
        return is_empty(sample)
    if form is Form.ZERO_DIM:
        return any(tensor.dim() == 0 for tensor in sample.tensors())
    return not is_empty(sample) and layouts.changes(sample, form.value)


def is_empty(sample: Sample) -> bool:
    """Whether the sample computes nothing: it has tensors, and one has no elements."""
    return any(tensor.numel() == 0 for tensor in sample.tensors())


def choose(fits: list[int], total: int, wanted: int) -> list[int]:
    """Numbers of the samples for a quick run: the first that fits and evenly spaced others.

    `wanted` 0 chooses all: all `total` where there is one, the ones that do not fit (the empty
    ones) too. Where none fits, the choice is from all `total`.
    """
    if wanted == 0:
        return list(range(total)) if total else fits
    pool = fits or list(range(total))
    if len(pool) <= wanted:
        return pool
    if wanted == 1:
        return pool[:1]
    last = len(pool) - 1
    return sorted({pool[round(index * last / (wanted - 1))] for index in range(wanted)})
