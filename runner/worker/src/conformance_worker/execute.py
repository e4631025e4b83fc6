"""One case from request to observation; never raises, whatever the case does in Python.

What kind of case it is decides which module executes it; what went wrong is typed by `failures`.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable

from conformance_worker import breadcrumb, graphs
from conformance_worker.case import CaseRun
from conformance_worker.codec import Tagged
from conformance_worker.devices.base import Device
from conformance_worker.messages import DynamismTask, Execute, ModelTask, OperatorTask
from conformance_worker.observed import Failure, Observed
from conformance_worker.words import FailureKind, Mode, Stage

COLLECT_EVERY = 20
"""Operator cases between two collections of garbage, which cost as much as a small case does."""

UNTOUCHED = (FailureKind.SKIPPED, FailureKind.INFRA, FailureKind.UNSUPPORTED)
"""Failures after which the device is not suspect."""


def begin(request: Execute, device: Device, send: Callable[[Tagged], None]) -> CaseRun:
    """Executes a case; the run that comes back is decided and has its observation."""
    run = CaseRun(request, device, send)
    breadcrumb.begin_case()
    device.begin_case(_subject(request))
    try:
        _observe(run)
    except Exception as error:
        run.leave()
        cause = run.cause_of(error)
        breadcrumb.end_case()
        run.observed.failure = run.failure(cause)
        # Its traceback holds this frame: left here, the case's tensors would live until the next
        # collection of garbage, after memory ran out too.
        del cause
    run.leave()
    _finish(run)
    return run


def _subject(request: Execute) -> str:
    task = request.task
    return task.entry if isinstance(task, OperatorTask) else task.model.id


def _observe(run: CaseRun) -> None:
    # Before anything is computed on the host: PyTorch's autograd engine looks for device types
    # once, at the first backward, and knows no backend that is registered later.
    run.enter(Stage.IMPORT)
    run.device.check_present()
    run.device.open()
    run.device_is_open = True
    task = run.request.task
    if isinstance(task, OperatorTask):
        from conformance_worker import operator_case

        operator_case.observe(run, task)
    elif isinstance(task, ModelTask):
        from conformance_worker import checkpoint, model_case

        loads = run.request.layout == checkpoint.LAYOUT
        (checkpoint if loads else model_case).observe(run, task)
    elif isinstance(task, DynamismTask):
        from conformance_worker import dynamism

        dynamism.observe(run, task)


def _finish(run: CaseRun) -> None:
    observed: Observed = run.observed
    device = run.device
    # A device that could not be opened is not asked anything: even importing a backend lets
    # PyTorch's autograd engine look for its device later, and wait for what is not there.
    if run.device_is_open:
        if run.uses_attention:
            observed.substitutions += device.substitutions()
        observed.notes += device.settings()
        observed.peak_memory_bytes = device.peak_memory_bytes()
    if run.request.mode is Mode.COMPILE:
        graphs.reset()
    observed.poisoned = _is_poisoned(observed.failure, device)
    _collect(run)


_operator_cases = itertools.count(1)


def _collect(run: CaseRun) -> None:
    """Frees what cycles keep alive: after each model, since models are large, else now and then."""
    is_operator = isinstance(run.request.task, OperatorTask)
    if not is_operator or next(_operator_cases) % COLLECT_EVERY == 0:
        gc.collect()


def _is_poisoned(failure: Failure | None, device: Device) -> bool:
    """Asks the device for a known-good operation after any failure that touched it."""
    if failure is None or failure.kind in UNTOUCHED:
        return False
    return not device.healthy()
