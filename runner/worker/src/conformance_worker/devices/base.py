"""The interface of a device, and what most devices do alike.

`load` runs in the fork server and must not create a device client; everything else runs in a
worker. Nothing here judges: what an exception means to a backend is in that backend's module.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance_worker.messages import Probed
from conformance_worker.words import FailureKind, Mode, Stage

FALLBACK_WARNING = re.compile(
    r"fall(s|ing|en|)?[ -]?back.{0,40}\b(cpu|host)\b|\b(run|executed|computed)[^.]* on (the )?cpu",
    re.IGNORECASE,
)
"""How backends warn of an operator that they left to the CPU."""

OVERLOAD = re.compile(r"\b\w+::\w+(\.\w+)?")

COMPILER_VARIABLE = "CONFORMANCE_COMPILER"
"""A name that `torch.compile` knows."""

PROBE_SIZE = 8
"""Edge of the square matrices that the probe multiplies."""


class DeviceUnavailableError(RuntimeError):
    """The device cannot be opened here; carries what the user can do about it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class Classified:
    """What an exception means, as far as the backend's module knows."""

    kind: FailureKind
    operator: str | None = None
    stage: Stage | None = None


class Device:
    """A device under test. Subclasses override what differs."""

    profile = ""
    place = "cpu"
    """Torch device string of the device; usable in text before the backend is registered."""

    simulated = False

    flushed_dtypes: tuple[str, ...] = ()
    """Dtypes, by PyTorch's names, of which a subnormal result comes out as zero by design.

    A zero in place of a subnormal number passes, with a note, for these only; complex numbers go by
    their parts.
    """

    dispatch_keys: tuple[str, ...] = ("CPU",)
    """Keys of the dispatcher that kernels of this backend stand under; the first is its own."""

    operator_namespace = ""
    """Namespace of operators that only this backend has."""

    dynamic_within_bounds: bool | None = True
    """What `torch.compile(dynamic=...)` is to be for sizes that are declared with bounds."""

    def load(self) -> dict[str, str]:
        """Imports the backend; gives versions by name. Creates no client."""
        return {}

    def check_present(self) -> None:
        """Raises `DeviceUnavailableError` where touching the device would hang or abort."""

    def open(self) -> None:
        """Makes the device usable in this process; idempotent."""

    def torch_device(self) -> torch.device:
        """The device to move tensors to."""
        return torch.device(self.place)

    def describe(self) -> Probed:
        """Says what the device is; called once it has proved to work."""
        return Probed(
            device_kind=self.place,
            device=self.place,
            count=1,
            simulated=self.simulated,
            versions={},
        )

    def prove(self) -> str:
        """Executes one known-good operation; gives the device string of its result.

        Raises `RuntimeError` where the value is wrong.
        """
        left = torch.arange(PROBE_SIZE**2, dtype=torch.float32).reshape(PROBE_SIZE, PROBE_SIZE)
        on_device = left.to(self.torch_device())
        product = self.call(torch.matmul, (on_device, on_device), {})
        actual = self.fetch(product)
        if not torch.equal(actual, _matmul_by_definition(left)):
            raise RuntimeError("the known-good matrix product came out wrong")
        return self.place_of(product)

    def begin_case(self, subject: str) -> None:
        """Told before each case; `subject` is the operator entry or model id."""

    def call(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Executes something on the device. Every execution of a case goes through here."""
        return function(*args, **kwargs)

    def move(self, tree: Any) -> Any:
        """Copies the tensors of a tree to the device."""
        return pytree.tree_map_only(torch.Tensor, self._move_tensor, tree)

    def move_module(self, module: torch.nn.Module) -> list[str]:
        """Moves a module's parameters and buffers; gives names of parameters it had to tie again.

        PyTorch keeps shared parameters shared only when moving between backends that it knows;
        elsewhere each name gets a parameter of its own, and a tied weight trains as two.
        """
        tied = _tied_parameters(module)
        module.to(self.torch_device())
        again = []
        for first, *others in tied:
            parameter = module.get_parameter(first)
            for name in others:
                if module.get_parameter(name) is not parameter:
                    owner, _, attribute = name.rpartition(".")
                    setattr(module.get_submodule(owner), attribute, parameter)
                    again.append(name)
        return again

    def _move_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        # A copy even where source and target are the same place: a case may write to its inputs.
        moved = tensor.detach().to(self.torch_device(), copy=True)
        return moved.requires_grad_(tensor.requires_grad)

    def fetch(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copies one tensor to the host."""
        return tensor.detach().to("cpu")

    def place_of(self, tensor: torch.Tensor) -> str:
        """Torch device string of where a tensor is."""
        return str(tensor.device)

    def is_here(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is on this device."""
        return tensor.device.type == self.torch_device().type

    def seed(self, seed: int) -> None:
        """Seeds the generators of this device, and of no other: `torch.manual_seed` leaves a call
        with its whole traceback behind for every backend that was never opened."""
        seed_all = getattr(torch.get_device_module(self.torch_device()), "manual_seed_all", None)
        if seed_all is not None:
            seed_all(seed)

    def synchronize(self) -> None:
        """Waits until everything asked for has been executed, so that errors surface here."""

    @contextlib.contextmanager
    def execution(self, mode: Mode, *, one_at_a_time: bool) -> Iterator[None]:
        """Context in which a case executes on the device.

        `one_at_a_time` asks for strict execution whatever the mode, to name an operator.
        """
        del mode, one_at_a_time
        yield

    def compiler(self, *, dynamism: bool) -> str | Callable[..., Any]:
        """The backend's own compiler for `torch.compile`; the bounded one for `dynamism`."""
        del dynamism
        return chosen_compiler() or "inductor"

    def mark_dynamic(
        self, tensor: torch.Tensor, dimension: int, smallest: int, largest: int
    ) -> None:
        """Declares a dimension dynamic within bounds, before the first call."""
        torch._dynamo.mark_dynamic(tensor, dimension, min=smallest, max=largest)

    def with_poison_behind(self, tensor: torch.Tensor, elements: int) -> torch.Tensor:
        """The same tensor in memory of so many elements, filled behind its extent with NaN or a
        huge number; the tensor itself where this device places memory by itself."""
        del elements
        return tensor

    def settings(self) -> list[str]:
        """Settings of the backend that were pinned, one note each."""
        return []

    def substitutions(self) -> list[str]:
        """Paths that are replaced on this device wherever attention is computed."""
        return []

    def prepare_model_build(self) -> None:
        """Told before a model is built, for switches that act at construction."""

    def fallback_in(self, warning: str) -> str | None:
        """The operator that a warning says was computed on the CPU; `unknown` where it has none."""
        if not FALLBACK_WARNING.search(warning):
            return None
        named = OVERLOAD.search(warning)
        return named[0] if named else "unknown"

    def fallback_operators(self) -> list[str]:
        """Takes the overloads that were computed on the CPU since the last call."""
        return []

    def peak_memory_bytes(self) -> int | None:
        """Peak device memory since the case began, where the device reports it."""
        return None

    def classify(self, error: BaseException) -> Classified | None:
        """What an exception means to this backend; nothing where it has no special meaning."""
        del error
        return None

    def repro_lines(self) -> list[str]:
        """Lines of Python that make the device usable in a stand-alone script."""
        return []

    def dynamism_repro_lines(self) -> list[str]:
        """Lines of Python that set `backend` to the bounded dynamic compiler."""
        return [f"backend = {self.compiler(dynamism=True)!r}"]

    def hides_its_cause(self, error: BaseException) -> bool:
        """Whether an exception only says that something asked for earlier has failed."""
        del error
        return False

    def healthy(self) -> bool:
        """Whether a cheap known-good operation still works after a failure."""
        try:
            self.prove()
        except Exception:
            return False
        return True


def chosen_compiler() -> str | None:
    """The compiler that the runner asks for in place of the usual one."""
    return os.environ.get(COMPILER_VARIABLE) or None


def _tied_parameters(module: torch.nn.Module) -> list[list[str]]:
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [group for group in names.values() if len(group) > 1]


def _matmul_by_definition(left: torch.Tensor) -> torch.Tensor:
    # Written out, so that a broken matrix product cannot vouch for itself. The integers are small
    # enough to be exact even where a device multiplies in bfloat16 and sums in float32.
    rows = left.tolist()
    size = len(rows)
    return torch.tensor(
        [
            [sum(rows[i][k] * rows[k][j] for k in range(size)) for j in range(size)]
            for i in range(size)
        ]
    )
