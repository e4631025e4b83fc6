"""Which operators stand between a model and its end on a device.

The first one that fails ends an ordinary execution, and the others behind it stay unknown. Here
each overload that the device refuses is computed on the CPU instead, noted, and the model goes on.
That changes what runs, so it never decides a case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from conformance_worker import failures
from conformance_worker.devices.base import Device
from conformance_worker.observed import Blocker
from conformance_worker.recorder import Breadcrumb, overload_name
from conformance_worker.words import Stage


class ContinueOnCpu(TorchDispatchMode):
    """Computes on the CPU whatever the device refuses, and what is known to end the process.

    `known` holds overloads that are not to be tried on the device, with or without their overload
    name (`aten::cumsum`), which is how a native crash names them.
    """

    def __init__(self, device: Device, known: Collection[str], breadcrumb: Breadcrumb) -> None:
        super().__init__()
        self.found: list[Blocker] = []
        """In the order met, each overload once."""
        self._device = device
        self._known = frozenset(known)
        self._breadcrumb = breadcrumb

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Executes on the device, else on the CPU."""
        del types
        name = overload_name(func)
        if {name, name.partition(".")[0]} & self._known:
            return _on_cpu(self._device, func, args, kwargs or {})
        self._breadcrumb.note(name)
        try:
            result = func(*args, **(kwargs or {}))
            self._device.synchronize()
        except Exception as error:
            # What the CPU refuses as well is no fault of the device; it is raised from there.
            result = _on_cpu(self._device, func, args, kwargs or {})
            failure = failures.failure_from(error, Stage.EXECUTE, self._device)
            if all(blocker.overload != name for blocker in self.found):
                kind, error_class = failure.kind, failure.error_class
                self.found.append(Blocker(name, kind, error_class, failure.message))
        return result


def _on_cpu(device: Device, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Executes one overload on copies; what it writes to its arguments is written to them too."""
    copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def to_host(value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device("cpu")
        if not isinstance(value, torch.Tensor) or not device.is_here(value):
            return value
        if id(value) not in copies:
            copies[id(value)] = (value, device.fetch(value))
        return copies[id(value)][1]

    host_args, host_kwargs = pytree.tree_map(to_host, (args, kwargs))
    before = {key: copy._version for key, (_, copy) in copies.items()}
    result = func(*host_args, **host_kwargs)
    for key, (original, copy) in copies.items():
        if copy._version != before[key]:
            original.copy_(copy)
    originals = {id(copy): original for original, copy in copies.values()}

    def to_device(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return originals[id(value)] if id(value) in originals else device.move(value)

    return pytree.tree_map(to_device, result)
