"""One operator call as a stand-alone script of about ten lines, and the smaller calls next to it.

A script computes the call on the CPU, then on the device, and fails by itself where the two differ,
where the device refuses, or where it takes what the CPU refuses. It imports torch and the backend.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance_worker import layouts, modules, operators
from conformance_worker.devices.base import Device
from conformance_worker.messages import Execute, OperatorTask
from conformance_worker.operators import Sample
from conformance_worker.words import Form, Mode

MOST_LITERALS = 48
"""Elements of a tensor that is written out; a larger one is drawn from a seeded generator."""

DATABASE = (
    "from torch.testing._internal import common_methods_invocations as db",
    "entries = (e for name in dir(db) if name.endswith('op_db') for e in getattr(db, name))",
    "entry = next(entry for entry in entries if entry.full_name == {name!r})",
)


@dataclass(frozen=True)
class Tolerance:
    """What the comparison of the case allowed."""

    rtol: float
    atol: float


@dataclass(frozen=True)
class Call:
    """A call with all that its script says."""

    title: str
    function: str
    setup: tuple[str, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    place: str
    repro_lines: tuple[str, ...]
    tolerance: Tolerance
    layout: str = ""
    train: bool = False
    compiled: bool = False
    out: bool = False
    wide: bool = False
    written: bool = False
    """Whether the arguments are compared after the call, beside its result."""
    refused: bool = False
    """The CPU refuses the call, and the device is to refuse it too."""
    exact: bool = False
    """Whether large tensors are written out too."""
    saved: dict[int, str] = field(default_factory=dict)
    """Names, by identity, of tensors that `setup` loads as `saved`."""

    def tensors(self) -> list[torch.Tensor]:
        """Every tensor among the arguments."""
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Call:
        """The same call with every tensor replaced."""
        args, kwargs = pytree.tree_map_only(torch.Tensor, change, (self.args, self.kwargs))
        return replace(self, args=args, kwargs=kwargs)


def of_case(
    request: Execute, task: OperatorTask, device: Device, tolerance: Tolerance
) -> Call | None:
    """The call of a case; nothing where it is no plain call, as for modules."""
    entry = operators.entries().get(task.entry)
    if entry is None or isinstance(entry, modules.ModuleEntry):
        return None
    sample = operators.find_sample(
        entry, request.dtype, task.sample, train=request.train, error_input=task.error_input
    )
    if sample is None:
        return None
    inplace = request.layout == Form.INPLACE
    function, setup = _function(entry, inplace=inplace)
    moved = _on_place(sample, task.entry, device.place)
    return Call(
        title=request.case,
        function=function,
        setup=setup,
        args=(moved.input, *moved.args),
        kwargs=moved.kwargs,
        place=device.place,
        repro_lines=tuple(device.repro_lines()),
        tolerance=tolerance,
        layout=request.layout if request.layout in layouts.LAYOUTS else "",
        train=request.train,
        compiled=request.mode is Mode.COMPILE,
        out=request.layout == Form.OUT,
    )


def _on_place(sample: Sample, name: str, place: str) -> Sample:
    """Names the device where the sample names the CPU; tensors stay where they are."""
    return operators.to_device(sample, name, lambda tree: tree, place)


def _function(entry: Any, *, inplace: bool) -> tuple[str, tuple[str, ...]]:
    """An expression for the function, and lines it needs."""
    wanted = entry.inplace_variant if inplace else entry.op
    name = f"{entry.name}_" if inplace else entry.name
    for path in (f"torch.{name}", f"torch.Tensor.{name.rpartition('.')[2]}"):
        if _resolve(path) is wanted:
            return path, ()
    attribute = "inplace_variant" if inplace else "op"
    return f"entry.{attribute}", tuple(line.format(name=entry.full_name) for line in DATABASE)


def _resolve(path: str) -> Any:
    found: Any = torch
    for part in path.split(".")[1:]:
        found = getattr(found, part, None)
    return found


# --- text ---------------------------------------------------------------------------------------


def script(call: Call) -> str:
    """The script; raises `ValueError` where an argument has no expression."""
    on_place = f"lambda t: t.detach().to({call.place!r}).requires_grad_(t.requires_grad)"
    lines = [
        f"# {call.title}",
        "import torch",
        *(["from math import inf, nan"] if _has_nonfinite(call) else []),
        *call.repro_lines,
        *call.setup,
        "torch.manual_seed(0)",
        f"args = ({''.join(f'{_expression(value, call)}, ' for value in call.args)})",
        f"kwargs = {{{_pairs(call)}}}",
        "move = lambda f, *trees: torch.utils._pytree.tree_map_only(torch.Tensor, f, trees)",
        f"args_there, kwargs_there = move({on_place}, args, kwargs)",
    ]
    if layout := _layout_line(call.layout):
        lines += [
            layout,
            "args, kwargs = move(lay, args, kwargs)",
            "args_there, kwargs_there = move(lay, args_there, kwargs_there)",
        ]
    host_args, host_kwargs = "args", _without_device(call)
    if call.wide:
        lines.append(
            "wide = lambda t: t.double() if t.is_floating_point() else"
            " t.to(torch.complex128) if t.is_complex() else t"
        )
        lines.append(f"args_wide, kwargs_wide = move(wide, args, {host_kwargs})")
        host_args, host_kwargs = "args_wide", "kwargs_wide"
    there = f"torch.compile({call.function})" if call.compiled else call.function
    if call.refused:
        return "\n".join([*lines, *_refusal_lines(call, there, host_kwargs)]) + "\n"
    out = ", out=torch.empty_like(expected, device=args_there[0].device)" if call.out else ""
    lines += [
        f"expected = {call.function}(*{host_args}, **{host_kwargs})",
        f"actual = {there}(*args_there, **kwargs_there{out})",
    ]
    if call.train:
        lines += [
            "grad = lambda out, inputs: torch.autograd.grad(sum(o.abs().sum() for o in"
            " torch.utils._pytree.tree_leaves(out) if o.requires_grad), [t for t in"
            " torch.utils._pytree.tree_leaves(inputs) if isinstance(t, torch.Tensor)"
            " and t.requires_grad], allow_unused=True)",
            f"expected = expected, grad(expected, ({host_args}, {host_kwargs}))",
            "actual = actual, grad(actual, (args_there, kwargs_there))",
        ]
    rtol, atol = call.tolerance.rtol, call.tolerance.atol
    dtype = ", check_dtype=False" if call.wide else ""
    actual, expected = "actual", "expected"
    if call.written:
        actual = "(actual, tensors((args_there, kwargs_there)))"
        expected = f"(expected, tensors(({host_args}, {host_kwargs})))"
        lines.append(
            "tensors = lambda tree: [t for t in torch.utils._pytree.tree_leaves(tree)"
            " if isinstance(t, torch.Tensor)]"
        )
    lines += [
        f"(actual,) = move(lambda t: t.detach().cpu(), {actual})",
        f"torch.testing.assert_close(actual, {expected}, rtol={rtol}, atol={atol}, equal_nan=True"
        f"{dtype})",
    ]
    return "\n".join(lines) + "\n"


def _refusal_lines(call: Call, there: str, host_kwargs: str) -> list[str]:
    return [
        "try:",
        f"    {call.function}(*args, **{host_kwargs})",
        "except Exception as error:",
        "    expected = error",
        f"actual = {there}(*args_there, **kwargs_there)",
        "raise AssertionError(f'the CPU refuses ({expected}), the device takes it')",
    ]


def _without_device(call: Call) -> str:
    if "device" not in call.kwargs:
        return "kwargs"
    return "{k: v for k, v in kwargs.items() if k != 'device'}"


def _layout_line(layout: str) -> str:
    bodies = {
        Form.NONCONTIGUOUS: "torch.stack([t, t], -1)[..., 0] if t.numel() > 1 else t",
        Form.TRANSPOSED: "t.mT.contiguous().mT if t.dim() > 1 else t",
        Form.EXPANDED: (
            "t[:1].expand_as(t) if t.dim() and t.is_floating_point() and len(t) > 1 else t"
        ),
    }
    return f"lay = lambda t: {bodies[Form(layout)]}" if layout else ""


def _pairs(call: Call) -> str:
    return ", ".join(f"{key!r}: {_expression(value, call)}" for key, value in call.kwargs.items())


def _has_nonfinite(call: Call) -> bool:
    floats = [leaf for leaf in pytree.tree_leaves((call.args, call.kwargs)) if _is_float(leaf)]
    return any(not math.isfinite(leaf) for leaf in floats) or any(
        not bool(tensor.detach().isfinite().all())
        for tensor in call.tensors()
        if tensor.layout is torch.strided and not tensor.is_quantized
    )


def _is_float(value: Any) -> bool:
    return isinstance(value, float)


def _expression(value: Any, call: Call) -> str:
    if isinstance(value, torch.Tensor):
        return _tensor(value, call)
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        inner = ", ".join(_expression(item, call) for item in value)
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{comma})"
    if isinstance(value, torch.Size):
        return repr(tuple(value))
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if value is None or isinstance(value, (bool, int, float, complex, str, slice, torch.dtype)):
        return repr(value)
    if isinstance(value, (torch.layout, torch.memory_format)):
        return str(value)
    if value is Ellipsis:
        return "..."
    raise ValueError(f"`{type(value).__name__}` has no expression")


def _tensor(tensor: torch.Tensor, call: Call) -> str:
    if id(tensor) in call.saved:
        return f"saved[{call.saved[id(tensor)]!r}]"
    plain = tensor.detach()
    if plain.layout is not torch.strided or plain.is_quantized or plain.is_nested:
        raise ValueError(f"a tensor of layout {plain.layout} has no expression")
    shape = tuple(plain.shape)
    dtype = f"dtype={plain.dtype}"
    grad = ", requires_grad=True" if tensor.requires_grad and call.train else ""
    if plain.numel() == 0:
        return f"torch.empty({shape}, {dtype}{grad})"
    plain = plain.resolve_conj().resolve_neg()
    first = plain.reshape(-1)[0]
    if plain.numel() > 1 and bool((plain == first).all()):
        return f"torch.full({shape}, {first.item()!r}, {dtype}{grad})"
    if plain.numel() <= MOST_LITERALS or call.exact:
        return f"torch.tensor({plain.tolist()!r}, {dtype}{grad})"
    ending = ".requires_grad_()" if grad else ""
    if plain.dtype is torch.bool:
        return f"(torch.rand({shape}) > 0.5)"
    if plain.dtype.is_floating_point or plain.dtype.is_complex:
        return f"torch.randn({shape}, {dtype}){ending}"
    low, high = int(plain.min()), int(plain.max())
    return f"torch.randint({low}, {high + 1}, {shape}, {dtype})"


# --- smaller calls ------------------------------------------------------------------------------


def smaller(call: Call) -> Iterator[Call]:
    """Simpler calls, the boldest simplification first; each differs from this one by one step."""
    if call.compiled:
        yield replace(call, compiled=False)
    if call.train:
        yield replace(call.map(lambda tensor: tensor.detach()), train=False)
    if call.layout:
        yield replace(call, layout="")
    if call.wide:
        yield replace(call, wide=False)
    for key in call.kwargs:
        yield replace(call, kwargs={k: v for k, v in call.kwargs.items() if k != key})
    if len(call.args) > 1:
        yield replace(call, args=call.args[:-1])
    yield from _other_dtypes(call)
    yield from _smaller_shapes(call)
    yield from _shorter_lists(call)
    yield from _plainer_values(call)


def _other_dtypes(call: Call) -> Iterator[Call]:
    for old, new in (
        (torch.complex128, torch.complex64),
        (torch.complex64, torch.float32),
        (torch.float64, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
    ):
        if any(tensor.dtype is old for tensor in call.tensors()):
            yield call.map(functools.partial(_cast, old=old, new=new))


def _cast(tensor: torch.Tensor, *, old: torch.dtype, new: torch.dtype) -> torch.Tensor:
    if tensor.dtype is not old:
        return tensor
    plain = tensor.detach()
    if plain.is_complex() and not new.is_complex:
        plain = plain.real
    return plain.to(new).requires_grad_(tensor.requires_grad)


def _smaller_shapes(call: Call) -> Iterator[Call]:
    """The same size is cut everywhere at once, since equal sizes usually belong together."""
    strided = [tensor for tensor in call.tensors() if tensor.layout is torch.strided]
    sizes = sorted({size for tensor in strided for size in tensor.shape if size > 1}, reverse=True)
    for size in sizes:
        for new in sorted({1, 2, size // 2} - {0, size}):
            if new < size:
                yield call.map(functools.partial(_cut, size=size, new=new))
    ranks = {tensor.dim() for tensor in strided if tensor.dim() > 1}
    if ranks:
        yield call.map(lambda t: _keep(t[0], t) if t.dim() == max(ranks) else t)
        yield call.map(lambda t: _keep(t[0], t) if t.dim() > 0 and t.numel() else t)


def _cut(tensor: torch.Tensor, size: int, new: int) -> torch.Tensor:
    if tensor.layout is not torch.strided:
        return tensor
    cut = tensor.detach()
    for dim, extent in enumerate(tensor.shape):
        if extent == size:
            cut = cut.narrow(dim, 0, new)
    return _keep(cut, tensor)


def _keep(cut: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    return cut.detach().clone().requires_grad_(tensor.requires_grad)


def _shorter_lists(call: Call) -> Iterator[Call]:
    def shorten(value: Any) -> Any:
        many = isinstance(value, (list, tuple)) and len(value) > 1
        return value[:1] if many and isinstance(value[0], torch.Tensor) else value

    if any(isinstance(value, (list, tuple)) and len(value) > 1 for value in call.args):
        yield replace(call, args=tuple(shorten(value) for value in call.args))


def _plainer_values(call: Call) -> Iterator[Call]:
    chosen = [tensor.detach() for tensor in call.tensors() if _has_values(tensor)]
    if any(bool((tensor != 1).any()) for tensor in chosen):
        yield call.map(_ones)
    for digits in (0, 1):
        if any(bool((tensor != tensor.round(decimals=digits)).any()) for tensor in chosen):
            yield call.map(functools.partial(_rounded, digits=digits))


def _has_values(tensor: torch.Tensor) -> bool:
    is_float = tensor.dtype.is_floating_point and tensor.layout is torch.strided
    return is_float and tensor.numel() > 0


def _ones(tensor: torch.Tensor) -> torch.Tensor:
    return _keep(torch.ones_like(tensor.detach()), tensor) if _has_values(tensor) else tensor


def _rounded(tensor: torch.Tensor, *, digits: int) -> torch.Tensor:
    if not _has_values(tensor):
        return tensor
    return _keep(tensor.detach().round(decimals=digits), tensor)
