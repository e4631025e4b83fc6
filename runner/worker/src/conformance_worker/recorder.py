"""Which operators are dispatched: counted, or named in a file just before each is entered.

A dispatch mode changes what runs, so neither is ever active in the execution that decides a case.
"""

from __future__ import annotations

import mmap
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

MOST_KINDS_OF_INPUTS = 4
MOST_TENSORS_TOLD = 8
BREADCRUMB_BYTES = 512
"""Size of a breadcrumb file: the overload's name in UTF-8, then zero bytes."""


def overload_name(operator: Any) -> str:
    """The dispatcher's name of an overload: `aten::add.Tensor`, `aten::relu`."""
    name = getattr(operator, "name", None)
    return str(name()) if callable(name) else str(operator)


class Observer(TorchDispatchMode):
    """Is told of each overload before it is executed."""

    def note(self, name: str, args: Any = (), kwargs: Any = None) -> None:
        """Takes the overload's name and arguments."""
        raise NotImplementedError

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        """Notes, then executes."""
        del types
        self.note(overload_name(func), args, kwargs)
        return func(*args, **(kwargs or {}))


class OperatorCounter(Observer):
    """Counts the overloads that are dispatched while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.inputs: dict[str, list[str]] = {}

    def note(self, name: str, args: Any = (), kwargs: Any = None) -> None:
        """Counts a name, and keeps the first few kinds of inputs that differ."""
        self.counts[name] += 1
        known = self.inputs.setdefault(name, [])
        if len(known) < MOST_KINDS_OF_INPUTS:
            tensors = [
                one for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)
            ]
            kind = ", ".join(map(_kind, tensors[:MOST_TENSORS_TOLD]))
            if kind not in known:
                known.append(kind)


def _kind(tensor: torch.Tensor) -> str:
    """`float32[2, 16]`."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


class Breadcrumb(Observer):
    """Writes each overload's name to a mapped file before entering it.

    The page belongs to the file, so the name is there for the runner whatever ends this process.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(file, BREADCRUMB_BYTES)
            self._page = mmap.mmap(file, BREADCRUMB_BYTES)
        finally:
            os.close(file)

    def note(self, name: str, args: Any = (), kwargs: Any = None) -> None:
        """Writes a name."""
        del args, kwargs
        text = name.encode()[: BREADCRUMB_BYTES - 1]
        self._page[:] = text.ljust(BREADCRUMB_BYTES, b"\0")
