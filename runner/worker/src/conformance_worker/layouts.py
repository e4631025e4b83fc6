"""How the inputs of an operator lie in memory, and the forms that are part of a case key.

A layout changes where elements are, never how many or of what shape; `expanded` also changes
values, on both sides alike, since elements that share memory are equal.
"""

from __future__ import annotations

import torch

from conformance_worker.operators import Sample
from conformance_worker.words import Form

LAYOUTS = (Form.NONCONTIGUOUS, Form.TRANSPOSED, Form.EXPANDED)
"""Forms that lay inputs out in another way."""

FORMS = (Form.OUT, Form.INPLACE, *LAYOUTS)
"""Forms that the variant of a case names; the others are choices of samples."""


def changes(sample: Sample, layout: str) -> bool:
    """Whether the sample has an input that this layout changes; true of what is no layout."""
    if layout not in LAYOUTS:
        return True
    return any(_applies(tensor, layout) for tensor in sample.tensors())


def arrange(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The tensor in this layout, as a leaf of its own; itself where the layout does not apply."""
    if layout not in LAYOUTS or not _applies(tensor, layout):
        return tensor
    plain = tensor.detach()
    if layout == Form.NONCONTIGUOUS:
        arranged = torch.stack([plain, plain], dim=-1)[..., 0]
    elif layout == Form.TRANSPOSED:
        arranged = plain.transpose(-1, -2).contiguous().transpose(-1, -2)
    else:
        arranged = plain[:1].expand_as(plain)
    return arranged.detach().requires_grad_(tensor.requires_grad)


def gap(tensor: torch.Tensor) -> torch.Tensor | None:
    """The memory between the elements of a tensor that `arrange` made noncontiguous.

    Nothing where it left the tensor as it was.
    """
    if not _applies(tensor, Form.NONCONTIGUOUS):
        return None
    return tensor.detach().as_strided(tensor.shape, tensor.stride(), tensor.storage_offset() + 1)


def _applies(tensor: torch.Tensor, layout: str) -> bool:
    if tensor.layout is not torch.strided:
        return False
    if layout == Form.NONCONTIGUOUS:
        return tensor.numel() > 1
    if layout == Form.TRANSPOSED:
        return tensor.dim() > 1 and min(tensor.shape[-2:]) > 1
    is_number = tensor.dtype.is_floating_point or tensor.dtype.is_complex
    return is_number and tensor.dim() > 0 and tensor.shape[0] > 1 and tensor.numel() > 0
