"""Names the weights and inputs of a model: what must be the same for its outputs to be comparable.

A golden is recorded in another process, often on another host. That its model was built from the
same entry with the same seed is a claim; that the bytes are the same is evidence.
"""

from __future__ import annotations

import hashlib

import torch

from conformance_worker import tensors
from conformance_worker.models.base import Inputs

LENGTH = 16
"""Hexadecimal digits of a fingerprint."""


def of(module: torch.nn.Module, inputs: Inputs) -> str:
    """The fingerprint of parameters, buffers and inputs: names, dtypes, shapes and every byte."""
    digest = hashlib.sha256()
    for name, tensor in _named(module, inputs):
        head = f"{name}|{tensors.dtype_name(tensor.dtype)}|{list(tensor.shape)}|"
        digest.update(head.encode())
        digest.update(_bytes(tensor))
    return digest.hexdigest()[:LENGTH]


def _named(module: torch.nn.Module, inputs: Inputs) -> list[tuple[str, torch.Tensor]]:
    # A tied parameter appears once, under its first name, as it does in the model.
    named = [*module.named_parameters(), *module.named_buffers()]
    leaves = tensors.flatten({"args": inputs.args, "kwargs": inputs.kwargs}, "inputs")
    named += [(leaf.path, leaf.value) for leaf in leaves if isinstance(leaf.value, torch.Tensor)]
    return named


def _bytes(tensor: torch.Tensor) -> memoryview:
    plain = tensor.detach()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    plain = plain.resolve_conj().resolve_neg().contiguous()
    return memoryview(plain.flatten().view(torch.uint8).numpy())
