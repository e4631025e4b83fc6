"""Models of a user's own, for the source `python`."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import torch


class Breaking(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        torch._dynamo.graph_break()
        return x + 1


class Raising(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no")


class Dynamic(torch.nn.Module):
    """Honours a dynamic length, or makes a graph for each one."""

    def __init__(self, *, specialises: bool) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.specialises = specialises

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.one_hot(input_ids % 4, 4).float()
        if self.specialises and x.shape[1] % 2 == 0:
            x = x + 1
        return self.linear(x)


class Overwriting(torch.nn.Module):
    """Writes over what its inner modules gave, as a ReLU in place does."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(20))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).relu_().sub_(0.1)
        return x


class Leaving(torch.nn.Module):
    """Leaves a process in a session of its own that has a lock and heeds no request to end."""

    def __init__(self, lock: str) -> None:
        super().__init__()
        self.lock = lock

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if os.path.exists(self.lock):
            return x
        lock = open(self.lock, "a")  # noqa: SIM115
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.fork() == 0:
            os.setsid()
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGHUP})
            time.sleep(600)
        return x


def leaving(lock: str) -> tuple[torch.nn.Module, Any]:
    return Leaving(lock), {"x": torch.ones(2)}


def plain() -> tuple[torch.nn.Module, Any]:
    return torch.nn.Linear(4, 4), (torch.arange(8.0).reshape(2, 4),)


def overwriting() -> tuple[torch.nn.Module, Any]:
    return Overwriting(), (torch.ones(64, 64),)


def sized() -> tuple[torch.nn.Module, Callable[[int, int], Any]]:
    return torch.nn.Linear(4, 4), lambda batch, _: {"input": torch.ones(batch, 4)}


def breaking() -> tuple[torch.nn.Module, Any]:
    return Breaking(), (torch.ones(2, 4),)


def raising() -> tuple[torch.nn.Module, Any]:
    return Raising(), (torch.ones(2),)


def nothing() -> None:
    return None


def dynamic(specialises: bool = False) -> tuple[torch.nn.Module, Callable[[int, int], Any]]:
    def inputs(batch: int, sequence: int) -> Any:
        return {"input_ids": torch.arange(batch * sequence).reshape(batch, sequence)}

    return Dynamic(specialises=specialises), inputs


class Hindered(torch.nn.Module):
    """Needs operators that a TPU does not have, one of them writing to its argument."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.special.bessel_j0(x)
        x = torch.cumsum(x, 0)
        x.erfinv_()
        return torch.special.bessel_j0(x) + 1


def hindered() -> tuple[torch.nn.Module, dict[str, Any]]:
    return Hindered(), {"x": torch.linspace(0.1, 0.4, 4)}


def linear() -> tuple[torch.nn.Module, dict[str, Any]]:
    return torch.nn.Linear(4, 4), {"input": torch.ones(2, 4)}


class Summing(torch.nn.Module):
    """A sum over a length."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(1, keepdim=True) + x


def summing() -> tuple[torch.nn.Module, Callable[[int, int], Any]]:
    return Summing(), lambda batch, sequence: {"x": torch.ones(batch, sequence)}


class Block(torch.nn.Module):
    """Two matrix products in modules of their own, and one outside of any."""

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(8, 16, bias=False)
        self.down = torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.down(torch.nn.functional.gelu(self.up(x)))
        return torch.softmax(x, -1)


class Stack(torch.nn.Module):
    """Blocks whose outputs are large enough for an error of 1 % to show."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.head = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + block(x)
        return torch.exp(self.head(x) * 100)


def stack() -> tuple[torch.nn.Module, dict[str, Any]]:
    torch.manual_seed(0)
    return Stack(), {"x": torch.randn(16, 8)}
