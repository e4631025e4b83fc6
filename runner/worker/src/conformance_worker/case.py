"""One case in flight: its stages and their seconds, what was observed, and its tensor files."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from conformance_worker import blockers, failures, graphs, operators, recorder, tensors
from conformance_worker.codec import Tagged
from conformance_worker.devices.base import Device
from conformance_worker.messages import Built, Entered, Execute, Golden, Recorded
from conformance_worker.observed import Failure, Observed, Spread, ToCompare
from conformance_worker.tensors import Leaf
from conformance_worker.words import Mode, Rule, Stage, ToleranceClass

REPRO_FILE = "repro.py"
"""Name of the repro in the exchange directory."""


class CaseRun:
    """State of the case in flight."""

    def __init__(self, request: Execute, device: Device, send: Callable[[Tagged], None]) -> None:
        self.request = request
        self.device = device
        self.observed = Observed(case=request.case)
        self.stage = Stage.IMPORT
        self.prepare_rerun: Callable[[], Callable[[], Any]] | None = None
        """Makes fresh inputs, and gives what executes the device's side once more, eagerly."""
        self.device_is_open = False
        """Whether the device was there, so that it can be asked about the case."""
        self.operator_inputs: dict[str, list[str]] = {}
        """What overloads were given in the recording execution."""
        self.uses_attention = False
        """Whether attention is part of the case, so that a device's replacement of it counts."""

        self._send = send
        self._repro_is_left = False
        self._since: float | None = None

    # --- stages ---------------------------------------------------------------------------------

    def enter(self, stage: Stage) -> None:
        """Enters a stage, and tells the runner, whose deadlines depend on it."""
        if self._since is not None and stage is self.stage:
            return
        self.leave()
        self._leave_repro()
        self.stage = stage
        self._since = time.monotonic()
        self._send(Entered(stage))

    def tell_graph(self, signature: str) -> None:
        """Tells the runner which graph the model has: what is learnt now holds for that one."""
        self._send(Built(signature))

    def _leave_repro(self) -> None:
        """Writes the repro beside the tensors: where this process does not survive the case, that
        is how the runner gets it."""
        if not self.observed.repro or self._repro_is_left:
            return
        self._repro_is_left = True
        with contextlib.suppress(OSError):
            path = Path(self.request.exchange) / REPRO_FILE
            path.write_text(self.observed.repro, encoding="utf-8")

    def leave(self) -> None:
        """Ends the present stage and adds its seconds."""
        if self._since is None:
            return
        seconds = self.observed.stage_seconds
        seconds[self.stage.value] = seconds.get(self.stage.value, 0.0) + (
            time.monotonic() - self._since
        )
        self._since = None

    # --- execution ------------------------------------------------------------------------------

    @property
    def compiles(self) -> bool:
        """Whether this execution compiles; a rerun that names operators never does."""
        return self.request.mode is Mode.COMPILE and self.request.breadcrumb is None

    @contextlib.contextmanager
    def on_device(self) -> Iterator[None]:
        """Context of the execution that decides the case."""
        breadcrumb = self.request.breadcrumb
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._heard_warnings())
            stack.enter_context(
                self.device.execution(self.request.mode, one_at_a_time=breadcrumb is not None)
            )
            stack.enter_context(self._gradients())
            if breadcrumb is not None:
                stack.enter_context(self._observer(breadcrumb))
            yield

    def _observer(self, breadcrumb: str) -> contextlib.AbstractContextManager[Any]:
        crumb = recorder.Breadcrumb(breadcrumb)
        if self.request.continue_past is None:
            return crumb
        beyond = blockers.ContinueOnCpu(self.device, self.request.continue_past, crumb)
        # The same list, so that what was found is told too where the model ends early.
        self.observed.blockers = beyond.found
        return beyond

    @contextlib.contextmanager
    def _heard_warnings(self) -> Iterator[None]:
        """Takes note of a fallback that only a warning tells of.

        Most warnings are given once in the life of a process, which would hide the second case that
        falls back: here each is heard every time.
        """
        once = not torch.is_warn_always_enabled()
        torch.set_warn_always(True)
        try:
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                yield
        finally:
            torch.set_warn_always(not once)
            for warning in heard:
                text = str(warning.message)
                print(f"{warning.category.__name__}: {text}", file=sys.stderr)
                operator = self.device.fallback_in(text)
                if operator is not None and operator not in self.observed.fallback_operators:
                    self.observed.fallback_operators.append(operator)

    def record_operators(self) -> Recorded:
        """What `count_operators` gives, as a message."""
        return Recorded(self.request.case, self.count_operators(), self.operator_inputs)

    def count_operators(self) -> dict[str, int] | None:
        """Executes the case once more under a counter; nothing where that is not possible."""
        if self.prepare_rerun is None or self.observed.failure is not None:
            return None
        try:
            rerun = self.prepare_rerun()
            self.seed()
            with (
                self.device.execution(Mode.EAGER, one_at_a_time=False),
                self._gradients(),
                recorder.OperatorCounter() as counter,
            ):
                rerun()
                self.device.synchronize()
        except Exception:
            # The outcome stands whatever happens here; absent means "not measured".
            return None
        self.operator_inputs = dict(sorted(counter.inputs.items()))
        return dict(sorted(counter.counts.items()))

    def cause_of(self, error: Exception) -> Exception:
        """The exception behind one that only says that something before it failed.

        Executes the device's side once more, one launch at a time; the first outcome stands where
        that raises nothing.
        """
        if not self.device.hides_its_cause(error) or self.prepare_rerun is None:
            return error
        try:
            rerun = self.prepare_rerun()
            self.seed()
            with self.device.execution(Mode.STRICT, one_at_a_time=True), self._gradients():
                rerun()
                self.device.synchronize()
        except Exception as cause:
            self.observed.notes.append(
                f"the cause was found in a second, blocking execution; the first said "
                f"`{failures.first_line(error)}`"
            )
            return cause
        return error

    def _gradients(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext() if self.request.train else torch.no_grad()

    def seed(self, offset: int = 0) -> None:
        """Seeds every generator, the device's too."""
        operators.seed_host_generators(self.request.seed + offset)
        if self.device_is_open:
            self.device.seed(self.request.seed + offset)

    # --- outputs --------------------------------------------------------------------------------

    def fetch(self, leaves: list[Leaf]) -> tuple[list[Leaf], list[dict[str, Any]]]:
        """Copies leaves to the host; also gives their structure as it was on the device."""
        structure = [tensors.describe(leaf) for leaf in leaves]
        return [leaf.changed(self.device.fetch) for leaf in leaves], structure

    def note_places(self, leaves: list[Leaf]) -> None:
        """Records where outputs are; raises `FallbackError` for those that are not on the device.

        Python numbers and host results of a case without any tensor say nothing.
        """
        present = [(leaf.path, leaf.value) for leaf in leaves if leaf.tensor is not None]
        places = {self.device.place_of(tensor) for _, tensor in present}
        self.observed.device_used = ",".join(sorted(places))
        self.observed.fallback_operators += self.device.fallback_operators()
        elsewhere = [path for path, tensor in present if not self.device.is_here(tensor)]
        if elsewhere:
            raise failures.FallbackError(
                f"{len(elsewhere)} of {len(present)} outputs are not on the requested device: "
                f"{', '.join(elsewhere[:5])}"
            )
        if self.observed.fallback_operators:
            raise failures.FallbackError(
                f"computed on the CPU: {', '.join(self.observed.fallback_operators[:5])}"
            )

    def compare(
        self,
        actual: tuple[list[Leaf], list[dict[str, Any]]],
        expected: tuple[list[Leaf], list[dict[str, Any]]],
        *,
        rule: Rule,
        reference: str,
        tolerance_class: ToleranceClass,
        label: str = "",
        wide: tuple[list[Leaf], list[dict[str, Any]]] | None = None,
        addends: int | None = None,
        spread: Spread | None = None,
    ) -> None:
        """Writes both sides to the exchange directory for the runner to compare, and beside them
        what both are measured against, where there is any."""
        folder = Path(self.request.exchange)
        number = len(self.observed.to_compare)
        paths = {
            "actual": str(folder / f"{number}.actual.safetensors"),
            "expected": str(folder / f"{number}.expected.safetensors"),
        }
        tensors.write(paths["actual"], *actual)
        tensors.write(paths["expected"], *expected)
        wide_path = None
        if wide is not None:
            wide_path = str(folder / f"{number}.wide.safetensors")
            tensors.write(wide_path, *wide)
        self.observed.to_compare.append(
            ToCompare(
                actual=paths["actual"],
                expected=paths["expected"],
                rule=rule.value,
                reference=reference,
                tolerance_class=tolerance_class.value,
                label=label,
                wide=wide_path,
                flushed_dtypes=list(self.device.flushed_dtypes),
                addends=addends,
                spread=spread,
            )
        )

    def compare_with_golden(
        self,
        golden: Golden,
        actual: tuple[list[Leaf], list[dict[str, Any]]],
        tolerance_class: ToleranceClass,
    ) -> None:
        """Writes the device's side; the expected one is kept elsewhere."""
        number = len(self.observed.to_compare)
        path = str(Path(self.request.exchange) / f"{number}.actual.safetensors")
        tensors.write(path, *actual)
        self.observed.to_compare.append(
            ToCompare(
                actual=path,
                expected=golden.outputs,
                rule=(Rule.CLOSE if golden.wide is None else Rule.GPU_RELATIVE).value,
                reference=golden.id,
                tolerance_class=tolerance_class.value,
                wide=golden.wide,
                flushed_dtypes=list(self.device.flushed_dtypes),
            )
        )

    # --- failures -------------------------------------------------------------------------------

    def failure(self, error: BaseException) -> Failure:
        """Types an exception in the present stage."""
        stage = graphs.stage_of(error, self.stage) if self.compiles else self.stage
        return failures.failure_from(error, stage, self.device)
