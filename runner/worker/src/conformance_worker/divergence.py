"""Where in a model a device first gives something else than the host.

The host and the device execute the model side by side, module by module: what a module was given
and what it gave are compared as soon as both sides have it, so no more than the tensors of two
steps are held. The first that differs is either what a module gave, from inputs that agreed, or
what one was given, and then the module around it made that. Inside of the module found, each
operator that the device executes is computed on the host as well, from the very inputs that the
device had.

Both executions are eager and observed, which changes what runs: neither ever decides a case. What
only fused or compiled code gets wrong does not show here, and the case then says so.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from conformance_worker import divergence_repro, failures, reference, tensors
from conformance_worker.case import CaseRun
from conformance_worker.devices.base import Device
from conformance_worker.messages import Tolerance
from conformance_worker.models.base import BuiltModel, Inputs
from conformance_worker.nearness import Difference, of_leaves
from conformance_worker.observed import DivergingOperator, FirstDivergence
from conformance_worker.recorder import overload_name
from conformance_worker.tensors import Leaf
from conformance_worker.words import Mode, Stage

WAIT_S = 0.2
"""How often one side looks whether the other one has gone."""

NOT_ALONE = frozenset({"aten::as_strided", "aten::_reshape_alias", "aten::set_"})
"""Operators whose answer depends on more of a tensor's memory than a copy of it has."""


class _Stop(BaseException):
    """Leaves a model once enough is known; no model may catch it."""


@dataclass(frozen=True)
class _Step:
    """What one module was given, or what it gave."""

    gave: bool
    path: str
    leaves: list[Leaf]

    @property
    def key(self) -> tuple[bool, str]:
        return self.gave, self.path


@dataclass(frozen=True)
class _Call:
    """One call of a module, counted from 1."""

    path: str
    kind: str
    number: int


@dataclass(frozen=True)
class _Found:
    call: _Call
    given_to: str | None
    """The module that was given what differs, where it is not what `call` gave."""
    difference: Difference
    agreed: int
    """Modules whose outputs had agreed by then."""


def observe(run: CaseRun, built: BuiltModel, inputs: Inputs) -> None:
    """Searches, and fills in what was found, or a note of why nothing was."""
    tolerance = run.request.find_divergence
    assert tolerance is not None
    run.enter(Stage.EXECUTE)
    device = run.device

    def on_device() -> tuple[torch.nn.Module, Inputs]:
        module = reference.copied(built.module)
        device.move_module(module)
        args, kwargs = device.move((inputs.args, inputs.kwargs))
        return module, Inputs(args=args, kwargs=kwargs)

    mode = Mode.STRICT if run.request.mode is Mode.STRICT else Mode.EAGER
    with device.execution(mode, one_at_a_time=False), torch.no_grad():
        run.seed()
        walk = _Walk(device, tolerance, reference.copied(built.module), inputs)
        found = walk.compare(*on_device())
        if found is None:
            run.observed.notes.append(
                "where it goes wrong was not found: "
                + (walk.problem or _nowhere(walk, run.request.mode))
            )
            return
        run.seed()
        replay = _Replay(device, tolerance, found.call)
        module, moved = on_device()
        problem = replay.execute(module, moved)
    if problem:
        run.observed.notes.append(f"the operators of `{found.call.path}`: {problem}")
    given = f"; it is the input of `{found.given_to}`" if found.given_to else ""
    run.observed.first_divergence = FirstDivergence(
        module=found.call.path,
        kind=found.call.kind,
        call=found.call.number,
        finding=found.difference.finding + given,
        max_abs_error=found.difference.max_abs_error,
        dtype=found.difference.dtype,
        shape=list(found.difference.shape),
        modules_agreed=found.agreed,
        operator=replay.told(run),
    )


def _nowhere(walk: _Walk, mode: Mode) -> str:
    text = f"executed eagerly, all {walk.agreed} modules agree with the host's own arithmetic"
    if mode is Mode.COMPILE:
        return f"{text}, so the difference comes of compiling"
    return f"{text}, each within the tolerance"


# --- modules ------------------------------------------------------------------------------------


class _Walk:
    """Executes the model on both sides and compares them in step."""

    def __init__(
        self, device: Device, tolerance: Tolerance, host: torch.nn.Module, inputs: Inputs
    ) -> None:
        self.agreed = 0
        self.problem = ""
        self._device = device
        self._tolerance = tolerance
        self._host = host
        self._inputs = inputs
        self._steps: queue.Queue[_Step | str] = queue.Queue(maxsize=1)
        self._over = threading.Event()
        self._found: _Found | None = None
        self._calls: list[_Call] = []
        self._numbers: Counter[str] = Counter()

    def compare(self, module: torch.nn.Module, inputs: Inputs) -> _Found | None:
        """The first difference, if any; `problem` says why there is no answer."""
        host = threading.Thread(target=self._execute_on_host, daemon=True)
        host.start()
        try:
            with _hooked(module, self._take):
                self._device.call(lambda: module(*inputs.args, **inputs.kwargs), (), {})
        except _Stop:
            pass
        except Exception as error:
            self.problem = f"the device raised {_named(error)}"
        finally:
            self._over.set()
            host.join()
        return self._found

    def _execute_on_host(self) -> None:
        inputs = reference.map_inputs(self._inputs, lambda tensor: tensor.detach().clone())
        last = "the host ended before the device did"
        try:
            with torch.no_grad(), _hooked(self._host, self._give):
                self._host(*inputs.args, **inputs.kwargs)
        except _Stop:
            return
        except Exception as error:
            last = f"the host raised {_named(error)}"
        self._put(last)

    def _give(self, step: _Step, kind: str) -> None:
        del kind
        # The device looks at it while the host goes on, which may write over it.
        copied = [leaf.changed(torch.clone) for leaf in step.leaves]
        if not self._put(_Step(step.gave, step.path, copied)):
            raise _Stop

    def _put(self, step: _Step | str) -> bool:
        while not self._over.is_set():
            try:
                self._steps.put(step, timeout=WAIT_S)
            except queue.Full:
                continue
            return True
        return False

    def _take(self, step: _Step, kind: str) -> None:
        """One step of the device; the host's is waited for."""
        expected = self._steps.get()
        if isinstance(expected, str):
            self.problem = expected
            raise _Stop
        if expected.key != step.key:
            self.problem = (
                f"the host is at `{expected.path}` where the device is at `{step.path}`: "
                "the model takes another path there"
            )
            raise _Stop
        fetched = [leaf.changed(self._device.fetch) for leaf in step.leaves]
        difference = of_leaves(fetched, expected.leaves, self._tolerance).difference
        if step.gave:
            call = self._calls.pop()
            if difference is not None:
                self._found = _Found(call, None, difference, self.agreed)
            self.agreed += 1
        else:
            self._numbers[step.path] += 1
            call = _Call(step.path, kind, self._numbers[step.path])
            if difference is not None and self._calls:
                around = self._calls[-1]
                self._found = _Found(around, step.path, difference, self.agreed)
            elif difference is not None:
                self.problem = "the model's own inputs differ on the device"
                raise _Stop
            self._calls.append(call)
        if self._found is not None:
            raise _Stop


@contextmanager
def _hooked(module: torch.nn.Module, tell: Callable[[_Step, str], None]) -> Iterator[None]:
    """Tells of every call of every module, before and after it."""
    handles = []
    for path, inner in module.named_modules():

        def before(inner: torch.nn.Module, args: Any, kwargs: Any, path: str = path) -> None:
            tell(_Step(False, path, _inputs_of(args, kwargs)), type(inner).__name__)

        def after(
            inner: torch.nn.Module, args: Any, kwargs: Any, output: Any, path: str = path
        ) -> None:
            del args, kwargs
            tell(_Step(True, path, tensors.flatten(output)), type(inner).__name__)

        handles.append(inner.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(inner.register_forward_hook(after, with_kwargs=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _inputs_of(args: Any, kwargs: Any) -> list[Leaf]:
    """Tensors that a module is given; what only holds tensors, as a cache does, is left out."""
    named = [(str(index), value) for index, value in enumerate(args)] + list(kwargs.items())
    return [
        Leaf(name if len(leaves) == 1 else f"{name}.{index}", leaf)
        for name, value in named
        if isinstance(value, (torch.Tensor, list, tuple))
        for leaves in [pytree.tree_leaves(value)]
        for index, leaf in enumerate(leaves)
        if isinstance(leaf, torch.Tensor)
    ]


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {failures.first_line(error)}"


# --- operators ----------------------------------------------------------------------------------


class _Replay(TorchDispatchMode):
    """Computes on the host too what the device executes inside one call of a module."""

    def __init__(self, device: Device, tolerance: Tolerance, call: _Call) -> None:
        super().__init__()
        self._device = device
        self._tolerance = tolerance
        self._call = call
        self._armed = False
        self._entered = 0
        self._counts: Counter[str] = Counter()
        self._worst: tuple[float, str] = (0.0, "")
        self._unknown: set[str] = set()
        self._found: divergence_repro.Diverged | None = None

    def execute(self, module: torch.nn.Module, inputs: Inputs) -> str:
        """Executes the model; gives a reason where no operator was found."""
        target = module.get_submodule(self._call.path)

        def before(*_: Any) -> None:
            self._entered += 1
            self._armed = self._entered == self._call.number

        def after(*_: Any) -> None:
            if self._armed:
                raise _Stop

        handles = [
            target.register_forward_pre_hook(before),
            target.register_forward_hook(after),
        ]

        def observed() -> Any:
            with self:
                return module(*inputs.args, **inputs.kwargs)

        try:
            self._device.call(observed, (), {})
        except _Stop:
            pass
        except Exception as error:
            if self._found is None:
                return f"the device raised {_named(error)}"
        finally:
            for handle in handles:
                handle.remove()
        return "" if self._found is not None else self._none_alone()

    def _none_alone(self) -> str:
        total = sum(self._counts.values())
        text = f"none of {total} differs from the host by more than the tolerance on its own"
        error, name = self._worst
        if name:
            text += f"; the furthest is `{name}`, at {error:.2g} of it"
        if self._unknown:
            text += f"; the host could not compute {', '.join(sorted(self._unknown)[:5])}"
        return text

    def told(self, run: CaseRun) -> DivergingOperator | None:
        """What was found, with its repro."""
        if self._found is None:
            return None
        return divergence_repro.tell(run, self._found, self._call.path, self._tolerance)

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Executes on the device; while armed also on the host, and compares."""
        del types
        kwargs = kwargs or {}
        if not self._armed:
            return func(*args, **kwargs)
        name = overload_name(func)
        self._counts[name] += 1
        if not _is_comparable(func, name):
            return func(*args, **kwargs)
        with _disable_current_modes():
            given = self._to_host((args, kwargs))
        actual = func(*args, **kwargs)
        with _disable_current_modes():
            self._compare(func, name, given, actual)
        return actual

    def _compare(self, func: Any, name: str, given: tuple[Any, Any], actual: Any) -> None:
        kept = pytree.tree_map_only(torch.Tensor, torch.clone, given)
        try:
            expected = func(*given[0], **given[1])
        except Exception:
            self._unknown.add(name)
            return
        fetched = tensors.flatten(self._to_host(actual))
        nearness = of_leaves(fetched, tensors.flatten(expected), self._tolerance)
        difference = nearness.difference
        if difference is None:
            self._worst = max(self._worst, (nearness.over, name))
            return
        number = self._counts[name]
        self._found = divergence_repro.Diverged(func, name, number, kept, difference)
        raise _Stop

    def _to_host(self, tree: Any) -> Any:
        def copied(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                # A copy even where it is on the host: an operator may write to its arguments.
                return self._device.fetch(value).clone()
            return torch.device("cpu") if isinstance(value, torch.device) else value

        return pytree.tree_map(copied, tree)


def _is_comparable(func: Any, name: str) -> bool:
    """Whether an operator gives the same on a host that has nothing but copies of its inputs."""
    if torch.Tag.nondeterministic_seeded in getattr(func, "tags", ()):
        return False
    plain = name.partition(".")[0]
    return plain not in NOT_ALONE and "empty" not in plain
