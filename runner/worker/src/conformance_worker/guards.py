"""What an operator is to leave alone: most of its inputs, and all memory that is no part of a call.

Inputs that the reference does not write to must be the same bits after the call. Small tensors laid
down before and after the inputs, and the gaps inside noncontiguous inputs, catch writes past the
end of a buffer in the case that made them, and not in the next one to fail.
"""

from __future__ import annotations

import contextlib

import torch

from conformance_worker import layouts
from conformance_worker.devices.base import Device
from conformance_worker.failures import MemoryCorruptionError, MismatchError
from conformance_worker.words import Form

NEIGHBOUR_VALUES = tuple(range(-32, 32))
"""Of a tensor beside the inputs; no zeros only, so that clearing memory is seen too."""


def written(before: list[torch.Tensor], after: list[torch.Tensor]) -> frozenset[int]:
    """Numbers of the tensors that a call changed, in shape or in any bit."""
    pairs = enumerate(zip(before, after, strict=True))
    return frozenset(number for number, (old, new) in pairs if not same_bits(old, new))


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors on the host are the same, NaNs and signs of zeros included."""
    if left.shape != right.shape or left.dtype != right.dtype or left.layout != right.layout:
        return False
    return torch.equal(_bits(left), _bits(right))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach()
    if plain.is_quantized or plain.is_nested:
        return torch.empty(0, dtype=torch.uint8)
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    plain = plain.resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8)


class Guards:
    """Watches one call on a device; made before the inputs are moved there."""

    def __init__(self, device: Device, layout: str) -> None:
        self._device = device
        self._layout = layout
        self._watched: list[tuple[int, torch.Tensor, torch.Tensor]] = []
        self._gaps: list[tuple[int, torch.Tensor, torch.Tensor]] = []
        self._expected = torch.tensor(NEIGHBOUR_VALUES, dtype=torch.float32)
        self._neighbours = [device.move(self._expected)]

    def watch(
        self, host: list[torch.Tensor], moved: list[torch.Tensor], written: frozenset[int]
    ) -> None:
        """Watches inputs of which these are the values, but for those that may be written to."""
        self._neighbours.append(self._device.move(self._expected))
        for number, (value, tensor) in enumerate(zip(host, moved, strict=True)):
            if number not in written:
                self._watched.append((number, value, tensor))
            between = layouts.gap(value) if self._layout == Form.NONCONTIGUOUS else None
            # A device may have no such view of its memory: then there is no gap to look at.
            with contextlib.suppress(RuntimeError):
                if between is not None and (there := layouts.gap(tensor)) is not None:
                    self._gaps.append((number, between, there))

    def neighbours(self) -> list[torch.Tensor]:
        """The tensors that are no part of the call, on the device."""
        return self._neighbours

    def check(self, device: Device, notes: list[str]) -> None:
        """Raises `MismatchError`, or `MemoryCorruptionError` for what is no input."""
        for neighbour in self._neighbours:
            if not same_bits(device.fetch(neighbour), self._expected):
                raise MemoryCorruptionError(
                    "the call wrote to memory that is no part of it: a tensor beside its inputs "
                    "has changed"
                )
        for number, value, tensor in self._watched:
            after = device.fetch(tensor)
            if not same_bits(after, value) and not self._is_the_transfers_doing(after, value):
                raise MismatchError(
                    f"input {number} was changed, and the reference leaves it as it is"
                )
        for number, value, tensor in self._gaps:
            try:
                between = device.fetch(tensor)
            except RuntimeError:
                notes.append(f"the gaps of input {number} cannot be read on this device")
                continue
            if not same_bits(between, value):
                raise MemoryCorruptionError(
                    f"the call wrote between the elements of input {number}"
                )

    def _is_the_transfers_doing(self, after: torch.Tensor, value: torch.Tensor) -> bool:
        """Whether a value looks so after going there and back, without any call."""
        return same_bits(self._device.fetch(self._device.move(value)), after)
