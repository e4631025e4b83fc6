"""Profile `faulty`: the CPU, lying on purpose by rule. For tests and canaries only.

It lies where a device would: in what `call` returns, in where tensors are, in what later
operations raise. Everything above the device interface is the same as for a real device.

`CONFORMANCE_FAULTS` is a JSON object from operator entry or model id to the name of a rule.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import torch

from conformance_worker.devices import cpu, faults
from conformance_worker.messages import Probed

VARIABLE = "CONFORMANCE_FAULTS"


class PoisonedError(RuntimeError):
    """What every operation raises once the device is poisoned."""


class TheDevice(cpu.TheDevice):
    """A processor that cannot be trusted."""

    profile = "faulty"

    def __init__(self) -> None:
        self._rules: dict[str, str] = {}
        self._rule: str | None = None
        self._poisoned = False
        self._fell_back = False
        self._first_moved: torch.Tensor | None = None

    def open(self) -> None:
        """Reads the rules; an unknown one is an error, or a test would pass for no reason."""
        rules = json.loads(os.environ.get(VARIABLE, "{}"))
        for subject, rule in rules.items():
            if faults.find(rule) is None:
                raise ValueError(
                    f"`{VARIABLE}` gives `{subject}` the unknown rule `{rule}`: it must be one "
                    f"of {', '.join(sorted(faults.RULES))}; or, for one operator, "
                    f"`{sorted(faults.CHANGES)[0]}@aten::mm` and the like"
                )
        self._rules = rules

    def describe(self) -> Probed:
        """Says plainly that it lies."""
        return Probed(
            device_kind="faulty CPU", device="faulty:0", count=1, simulated=True, versions={}
        )

    def begin_case(self, subject: str) -> None:
        """Chooses the rule of this case."""
        self.open()
        self._rule = self._rules.get(subject)
        self._fell_back = False
        self._first_moved = None

    def call(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Executes, and breaks what comes out by the rule of the case."""
        if self._poisoned:
            raise PoisonedError("an earlier operation has poisoned the device")
        if self._rule == "poison":
            self._poisoned = True
            raise PoisonedError("illegal memory access")
        if self._rule == "poison-later":
            output = function(*args, **kwargs)
            self._poisoned = True
            return output
        if self._rule == "silent-fallback":
            self._fell_back = True
        if self._rule == "recompile":
            torch._dynamo.reset()
        if self._rule == "write-neighbour" and self._first_moved is not None:
            self._first_moved[-1] += 1
        if self._rule is None:
            return function(*args, **kwargs)
        break_it = faults.find(self._rule)
        assert break_it is not None, "`open` has checked it"
        return break_it(function, args, kwargs)

    def mark_dynamic(
        self, tensor: torch.Tensor, dimension: int, smallest: int, largest: int
    ) -> None:
        """Declares it, or the opposite, or without its bounds, by the rule."""
        if self._rule == "ignore-mark":
            torch._dynamo.mark_static(tensor, dimension)
            return
        if self._rule == "accept-outside":
            torch._dynamo.mark_dynamic(tensor, dimension)
            return
        super().mark_dynamic(tensor, dimension, smallest, largest)

    def prove(self) -> str:
        """The probe is not a case, so no rule of a case applies; poison does."""
        rule, self._rule = self._rule, None
        try:
            return super().prove()
        finally:
            self._rule = rule

    def move(self, tree: Any) -> Any:
        """Remembers what lies in memory before the inputs."""
        moved = super().move(tree)
        if self._first_moved is None and isinstance(moved, torch.Tensor):
            self._first_moved = moved
        return moved

    def place_of(self, tensor: torch.Tensor) -> str:
        """Plays a device of its own, except for what fell back."""
        del tensor
        return "cpu" if self._fell_back else "faulty:0"

    def is_here(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor was computed here."""
        return self.place_of(tensor) != "cpu"
