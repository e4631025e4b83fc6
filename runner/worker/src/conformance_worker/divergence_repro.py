"""The stand-alone script of one operator of a model, with the tensors that it was given there.

Small tensors stand in the script; larger ones lie beside it, in a file of the same name, as far as
a limit goes. A script fails by itself where the device still gives something else.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch.utils import _pytree as pytree

from conformance_worker import repro_call, tensors
from conformance_worker.case import CaseRun
from conformance_worker.messages import Tolerance
from conformance_worker.nearness import Difference
from conformance_worker.observed import DivergingOperator

MOST_SAVED_BYTES = 64 << 20
"""Size of all tensors of one script that are kept; beyond it they are drawn at random."""

PREFIX = "divergence-"
"""Begins the name of a script and of its tensors; the runner keeps both by this."""


@dataclass(frozen=True)
class Diverged:
    """An operator whose answer on the device is not that of the host."""

    func: Any
    name: str
    number: int
    """Which call of this overload it is in the module, from 1."""
    given: tuple[tuple[Any, ...], dict[str, Any]]
    """Its arguments, copied to the host before it was executed."""
    difference: Difference


def tell(run: CaseRun, found: Diverged, module: str, tolerance: Tolerance) -> DivergingOperator:
    """What is told of it; leaves the script and its tensors in the exchange directory."""
    inputs = [
        f"{tensors.dtype_name(leaf.dtype)}{list(leaf.shape)}"
        for leaf in pytree.tree_leaves(found.given)
        if isinstance(leaf, torch.Tensor)
    ]
    stem = PREFIX + hashlib.sha256(run.request.case.encode()).hexdigest()[:16]
    script = _script(run, found, module, tolerance, stem)
    if script:
        path = Path(run.request.exchange) / f"{stem}.py"
        path.write_text(script, encoding="utf-8")
    return DivergingOperator(
        overload=found.name,
        call=found.number,
        finding=found.difference.finding,
        max_abs_error=found.difference.max_abs_error,
        dtype=found.difference.dtype,
        shape=list(found.difference.shape),
        inputs=inputs,
        repro=script,
        repro_file=f"{stem}.py" if script else "",
    )


def _script(run: CaseRun, found: Diverged, module: str, tolerance: Tolerance, stem: str) -> str:
    place = run.device.place
    args, kwargs = found.given
    if "device" in kwargs:
        kwargs = kwargs | {"device": torch.device(place)}
    call = repro_call.Call(
        title=f"{run.request.case}: `{found.name}` in `{module or 'the model'}`",
        function=f"torch.ops.{found.func}",
        setup=(),
        args=args,
        kwargs=kwargs,
        place=place,
        repro_lines=tuple(run.device.repro_lines()),
        tolerance=repro_call.Tolerance(tolerance.rtol, tolerance.atol),
    )
    # A script is an extra: what cannot be written out or saved costs the finding nothing.
    with contextlib.suppress(Exception):
        return repro_call.script(_with_saved(call, Path(run.request.exchange), stem))
    return ""


def _with_saved(call: repro_call.Call, folder: Path, stem: str) -> repro_call.Call:
    """The call with its larger tensors in a file."""
    large = [tensor for tensor in call.tensors() if tensor.numel() > repro_call.MOST_LITERALS]
    if not large:
        return call
    size = sum(tensor.numel() * tensor.element_size() for tensor in large)
    if size > MOST_SAVED_BYTES:
        drawn = f"{call.title}; its inputs, {size >> 20} MiB, are too large to keep: drawn anew"
        return replace(call, title=drawn)
    saved = {id(tensor): f"input{number}" for number, tensor in enumerate(large)}
    save_file(
        {saved[id(tensor)]: tensor.detach().contiguous().clone() for tensor in large},
        str(folder / f"{stem}.safetensors"),
    )
    setup = (
        "import pathlib, safetensors.torch",
        f"saved = pathlib.Path(__file__).with_name({f'{stem}.safetensors'!r})",
        "saved = safetensors.torch.load_file(saved)",
    )
    return replace(call, setup=setup, saved=saved)
