"""The rules of the `faulty` device: each takes a call and does to it what broken devices do."""

from __future__ import annotations

import atexit
import ctypes
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from conformance_worker.recorder import overload_name

SLOW_SECONDS = 3.0
"""How much longer a `slow` call takes."""

NOISE_BYTES = 1 << 30
"""How much a `noisy` call writes to stderr."""

HOG_STEP_BYTES = 64 << 20
HOG_MOST_BYTES = 8 << 30
"""A `memory-hog` without a limit stops here, so that a mistake does not take the host down."""

TILE = 32
"""Edge of the tile that `padding-leak` pads to."""

Change = Callable[[torch.Tensor], torch.Tensor]
Call = Callable[[Callable[..., Any], Any, Any], Any]


def _execute(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _on_outputs(change: Change) -> Call:
    def call(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return pytree.tree_map_only(torch.Tensor, change, function(*args, **kwargs))

    return call


def _wrong_value(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach()
    if plain.dtype is torch.bool:
        return plain.logical_not()
    if plain.dtype.is_floating_point or plain.dtype.is_complex:
        return plain * 1.05 + 0.5
    return plain + 1


def _one_percent(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach()
    return plain * 1.01 if plain.dtype.is_floating_point or plain.dtype.is_complex else plain


def _wrong_dtype(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to(torch.float16 if tensor.dtype is not torch.float16 else torch.float32)


def _wrong_shape(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().unsqueeze(0)


def _wrong_stride(tensor: torch.Tensor) -> torch.Tensor:
    return torch.stack([tensor.detach(), tensor.detach()], dim=-1)[..., 0]


def _nan(tensor: torch.Tensor) -> torch.Tensor:
    if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
        return tensor
    return torch.full_like(tensor.detach(), float("nan"))


def _zeros(tensor: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(tensor.detach())


def _half_scale(tensor: torch.Tensor) -> torch.Tensor:
    """As a dropout that does not make up for what it drops."""
    return tensor.detach() * 0.5


def _five_percent(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach() * 1.05


def _flush_subnormals(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.dtype.is_floating_point:
        return tensor
    is_small = tensor.detach().abs() < torch.finfo(tensor.dtype).smallest_normal
    return tensor.detach().masked_fill(is_small, 0)


def _saturating_inf(tensor: torch.Tensor) -> torch.Tensor:
    """Gives the largest finite number where infinity is right."""
    if not tensor.dtype.is_floating_point or tensor.numel() == 0:
        return tensor
    largest = torch.finfo(tensor.dtype).max
    return tensor.detach().clamp(-largest, largest)


def _padding_leak(tensor: torch.Tensor) -> torch.Tensor:
    """Adds what a sum over a padded tile would have added to it; nothing when the tile is full."""
    if not tensor.dtype.is_floating_point or tensor.dim() == 0:
        return tensor
    padding = max(-size % TILE for size in tensor.shape)
    return tensor.detach() + padding * 0.01


def _read_behind(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Adds what lies in memory behind the inputs to the outputs, and takes it off again: nothing
    shows but what does not add up."""
    behind = torch.zeros(())
    for tensor in pytree.tree_leaves((args, kwargs)):
        if isinstance(tensor, torch.Tensor) and tensor.dtype.is_floating_point:
            held = tensor.untyped_storage().nbytes() // tensor.element_size()
            everything = tensor.as_strided((held,), (1,), 0)
            behind = behind + everything.sum() - everything.sum()
    return pytree.tree_map_only(torch.Tensor, lambda one: one + behind, function(*args, **kwargs))


def _bound_extent(tensor: torch.Tensor) -> torch.Tensor:
    """Gives rows of padding beside the real ones, as a program for the bound would."""
    if tensor.dim() < 2:
        return tensor
    return torch.nn.functional.pad(tensor.detach(), (0, 0) * (tensor.dim() - 2) + (0, 1))


def _in_eager(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Executes what was compiled without its graph."""
    with torch.compiler.set_stance("force_eager"):
        return function(*args, **kwargs)


def _write_input(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Writes to an input that the operator is to leave alone, by far less than any tolerance."""
    outcome = function(*args, **kwargs)
    for part in args:
        for tensor in part.tensors() if hasattr(part, "tensors") else ():
            if tensor.dtype.is_floating_point and tensor.numel():
                with torch.no_grad():
                    first = tensor.detach().view(-1)[:1]
                    first.copy_(torch.nextafter(first, torch.full_like(first, torch.inf)))
                return outcome
    return outcome


def _identity(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Gives the first input back as it is."""
    outcome = function(*args, **kwargs)
    for part in args:
        for tensor in part.tensors()[:1] if hasattr(part, "tensors") else ():
            return outcome | {"output": tensor.detach().clone()}
    return outcome


def _never_raises(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Gives some tensor where an error is right."""
    try:
        return function(*args, **kwargs)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return {"output": torch.zeros(1)}


def _fall_back(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Says so in a warning, which Python gives once for each place."""
    warnings.warn("aten::add is not implemented here: falling back to the CPU", stacklevel=1)
    return function(*args, **kwargs)


def _abort(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    del function, args, kwargs
    print("fatal: check failed in faulty device", file=sys.stderr, flush=True)
    os.abort()


def _hang(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    del function, args, kwargs
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    # `PyDLL` keeps the interpreter's lock while it is in the call, so no thread can help.
    while True:
        ctypes.PyDLL(None).pause()


class _Inside(TorchDispatchMode):
    """Does something in place of the first operator that is entered, from inside of it."""

    def __init__(self, instead: Call) -> None:
        super().__init__()
        self._instead = instead

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        del types
        return self._instead(func, args, kwargs)


def _inside(instead: Call) -> Call:
    def call(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        with _Inside(instead):
            return function(*args, **kwargs)

    return call


class _OneOperator(TorchDispatchMode):
    """Breaks what one operator gives, wherever it is executed."""

    def __init__(self, operator: str, change: Change) -> None:
        super().__init__()
        self._operator = operator
        self._change = change

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        del types
        result = func(*args, **(kwargs or {}))
        name = overload_name(func)
        if self._operator in (name, name.partition(".")[0]):
            return pytree.tree_map_only(torch.Tensor, self._change, result)
        return result


def _in_operator(operator: str, change: Change) -> Call:
    def call(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        with _OneOperator(operator, change):
            return function(*args, **kwargs)

    return call


def _slow(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    time.sleep(SLOW_SECONDS)
    return function(*args, **kwargs)


def _memory_hog(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    most = HOG_MOST_BYTES if limit == resource.RLIM_INFINITY else max(limit, HOG_MOST_BYTES)
    hoard: list[torch.Tensor] = []
    while len(hoard) * HOG_STEP_BYTES < most:
        hoard.append(torch.ones(HOG_STEP_BYTES, dtype=torch.uint8))
    return function(*args, **kwargs)


def _noisy(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    block = b"noise from the faulty device\n" * 36_158
    for _ in range(NOISE_BYTES // len(block)):
        os.write(2, block)
    return function(*args, **kwargs)


def _disk_full(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Writes to a device that the kernel keeps full."""
    output = function(*args, **kwargs)
    with open("/dev/full", "wb", buffering=0) as full:
        full.write(b"cache")
    return output


def _abort_at_exit(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    atexit.register(os.abort)
    return function(*args, **kwargs)


def _leave_child(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Starts a process in a session of its own that holds the log open."""
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
        os._exit(0)
    return function(*args, **kwargs)


CHANGES: dict[str, Change] = {
    "wrong-value": _wrong_value,
    "one-percent": _one_percent,
    "wrong-dtype": _wrong_dtype,
    "wrong-shape": _wrong_shape,
    "wrong-stride": _wrong_stride,
    "nan": _nan,
    "zeros": _zeros,
    "half-scale": _half_scale,
    "five-percent": _five_percent,
    "flush-subnormals": _flush_subnormals,
    "saturating-inf": _saturating_inf,
    "padding-leak": _padding_leak,
}
"""Rules that change a result; with `@aten::mm` behind it, that of one operator only."""

RULES: dict[str, Call] = {
    **{name: _on_outputs(change) for name, change in CHANGES.items()},
    "bound-extent": _on_outputs(_bound_extent),
    "read-behind": _read_behind,
    "eager": _in_eager,
    "recompile": _execute,
    "ignore-mark": _execute,
    "accept-outside": _execute,
    "write-input": _write_input,
    "write-neighbour": _execute,
    "identity": _identity,
    "never-raises": _never_raises,
    "silent-fallback": _execute,
    "warned-fallback": _fall_back,
    "poison": _execute,
    "poison-later": _execute,
    "abort": _abort,
    "hang": _hang,
    "abort-inside": _inside(_abort),
    "hang-inside": _inside(_hang),
    "slow": _slow,
    "memory-hog": _memory_hog,
    "noisy": _noisy,
    "disk-full": _disk_full,
    "abort-at-exit": _abort_at_exit,
    "leave-child": _leave_child,
}
"""Every rule; `silent-fallback`, `write-neighbour` and `poison` act in the device itself."""


def find(rule: str) -> Call | None:
    """What a rule does; nothing where there is no such rule."""
    name, at, operator = rule.partition("@")
    if not at:
        return RULES.get(name)
    change = CHANGES.get(name)
    return _in_operator(operator, change) if change and "::" in operator else None
