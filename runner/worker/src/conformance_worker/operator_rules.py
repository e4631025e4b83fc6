"""How the outputs of an operator entry are compared: rule, tolerance class, reference dtype.

Knowledge about PyTorch's operators, not about any backend. Comparing itself is the runner's.
"""

from __future__ import annotations

import re
from typing import Any

import torch

from conformance_worker import factors, modules, operators
from conformance_worker.words import Rule, ToleranceClass

UNINITIALISED = frozenset(
    {
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "resize_",
        "resize_as_",
    }
)
"""Entries whose values are whatever was in memory: only structure, shape and dtype are compared."""

RANDOM = frozenset(
    {
        "bernoulli",
        "cauchy",
        "exponential",
        "geometric",
        "log_normal",
        "multinomial",
        "normal",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "uniform",
        "pca_lowrank",
        "svd_lowrank",
        "nn.functional.rrelu",
    }
)
"""Random entries, besides those that say so by wrapping themselves in a seed."""

DECOMPOSITIONS = re.compile(
    r"^(svd|pca_lowrank|svd_lowrank|geqrf|ormqr|lu$|lu_unpack|pinverse|"
    r"linalg\.(svd|eig$|eigh|qr|polar|lu|ldl|lstsq|householder))"
)
"""Factors are unique only up to sign or order; the entry's own processing makes them so."""

DTYPE_SENSITIVE = frozenset(
    {
        "nextafter",
        # A value beside a border is in the bin that rounding puts it in.
        "histc",
        # Beside its poles, what float32 rounds on the way is most of the result: the host itself is
        # far from float64 there.
        "polygamma",
        "special.polygamma",
        "nan_to_num",
        "frexp",
        "ldexp",
        "to",
        "float",
        "half",
        "bfloat16",
        "double",
        "cdouble",
        "cfloat",
        "chalf",
        "hash_tensor",
        "linalg.matrix_rank",
        "linalg.matrix_rank.hermitian",
        "linalg.pinv",
        "linalg.pinv.singular",
        "linalg.pinv.hermitian",
        "torch._scaled_mm",
        "torch._scaled_mm_v2",
        "view_as_complex",
        "view_as_real",
    }
)
"""Entries whose meaning depends on the dtype, so that a wider reference is another function."""

_MATMUL = re.compile(
    r"matmul|(^|\.|_)(mm|bmm|mv|dot|vdot|inner|einsum|tensordot|kron)(\.|$|_)"
    r"|addmm|addmv|addbmm|baddbmm|conv|bilinear$|functional\.linear|attention|cdist|pdist"
    r"|^linalg\.|chain_matmul|cov$|corrcoef|lowrank|cholesky|^lu|^svd|triangular_solve|ormqr"
    r"|geqrf|pinverse|logdet|matrix_exp|scaled_mm|linear_cross_entropy"
)
_REDUCTION = re.compile(
    r"^(_foreach_)?(sum|nansum|mean|nanmean|prod|norm|std|var|trace|dist|cumsum|cumprod|logcumsumexp"
    r"|trapz|trapezoid|cumulative_trapezoid|quantile|nanquantile|renorm|histc|logsumexp)"
    r"|softmax|softmin|_norm|norm$|_pool|_loss|cross_entropy|kl_div|^masked\.|^fft\.|stft"
    r"|scatter_add|scatter_reduce|index_add|index_reduce|segment_reduce|interpolate|upsample"
    r"|grid_sample|embedding_bag|normalize|cosine_similarity|pairwise_distance|index_put"
    r"|accumulate|sum_to_size|gradient"
)
_TRANSCENDENTAL = re.compile(
    r"^(_foreach_)?(a?(cos|sin|tan)h?|exp2?|expm1|log(10|1p|2)?|pow|float_power|__rpow__|rsqrt|erf"
    r"|erfc|erfinv|lgamma|digamma|mvlgamma|polygamma|igammac?|i0|sinc|sigmoid|logit|logaddexp2?"
    r"|xlogy|atan2|angle|polar|hypot|logspace|cumprod)(\.|$)"
    r"|^special\.|^signal\.|functional\.(gelu|silu|mish|softplus|elu|celu|selu|logsigmoid|softsign)"
)


def tolerance_class(name: str, *, train: bool) -> ToleranceClass:
    """Row of the tolerance table for an entry."""
    if name.startswith(modules.PREFIX):
        return _class_of_module(name.removeprefix(modules.PREFIX))
    if _MATMUL.search(name):
        return ToleranceClass.MATMUL
    if _REDUCTION.search(name):
        return ToleranceClass.REDUCTION
    if _TRANSCENDENTAL.search(name):
        return ToleranceClass.TRANSCENDENTAL
    # A gradient sums over whatever was broadcast.
    return ToleranceClass.REDUCTION if train else ToleranceClass.DEFAULT


_MODULE_MATMUL = re.compile(r"Conv|Linear|Attention|Transformer|RNN|LSTM|GRU")
_MODULE_REDUCTION = re.compile(r"Norm|Pool|Loss|[Ss]oftm|Embedding|Similarity|Distance|Upsample")


def _class_of_module(name: str) -> ToleranceClass:
    if _MODULE_MATMUL.search(name):
        return ToleranceClass.MATMUL
    if _MODULE_REDUCTION.search(name):
        return ToleranceClass.REDUCTION
    return ToleranceClass.TRANSCENDENTAL


def is_dropout(entry: Any) -> bool:
    """Whether an entry drops elements in training, and does nothing in evaluation."""
    return "dropout" in entry.full_name.lower()


def may_be_random(entry: Any) -> bool:
    """Whether an entry is worth executing twice to find out."""
    if isinstance(entry, modules.ModuleEntry):
        return True  # dropout is inside of many
    return operators.is_seeded(entry) or entry.name in RANDOM or entry.full_name in RANDOM


def rule(entry: Any, *, random: bool, dtypes: set[torch.dtype]) -> Rule:
    """The rule for outputs of these dtypes; `random` is measured on the host, not guessed."""
    if entry.name in UNINITIALISED:
        return Rule.METADATA
    if random:
        return Rule.STATISTICAL
    if any(dtype.is_floating_point or dtype.is_complex for dtype in dtypes):
        return Rule.CLOSE
    return Rule.EXACT


_BY_CHANNEL = re.compile(r"[dD]ropout(?P<rank>[123])d|(feature_alpha_d|FeatureAlphaD)ropout")


def independent(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """The part of a random output whose elements do not depend on each other.

    Where whole channels are dropped, one element of each tells all; the others would count the same
    chance many times over.
    """
    match = _BY_CHANNEL.search(name)
    if match is None or tensor.dim() < 2:
        return tensor
    rank = int(match["rank"] or 1)
    # 3 dimensions of `dropout2d` are a batch of channels of one dimension, unlike in the others.
    batched = rank == 2 or match["rank"] is None or tensor.dim() == rank + 2
    kept = 2 if batched else 1
    return tensor if tensor.dim() <= kept else tensor.flatten(kept)[..., 0]


def wants_processing(entry: Any, *, train: bool) -> bool:
    """Whether outputs are compared only after the entry's own processing.

    That takes the absolute value of a singular vector, which hides a vector whose sign is wrong
    beside the other's; so where a decomposition has properties to be compared by, it is left out.
    """
    is_known = not train and entry.name in factors.PROPERTIES
    return not is_known and bool(DECOMPOSITIONS.search(entry.name))


def reference_dtype(entry: Any, dtype: torch.dtype, *, train: bool) -> torch.dtype:
    """The widest dtype in which the reference may be computed from the same inputs."""
    if entry.full_name in DTYPE_SENSITIVE or entry.name in DTYPE_SENSITIVE:
        return dtype
    candidates: tuple[torch.dtype, ...] = ()
    if dtype in (torch.float16, torch.bfloat16, torch.float32):
        candidates = (torch.float64, torch.float32)
    elif dtype is torch.complex64:
        candidates = (torch.complex128,)
    supported = entry.supported_backward_dtypes("cpu") if train else entry.supported_dtypes("cpu")
    return next((wide for wide in candidates if wide in supported), dtype)


def widen(tensor: torch.Tensor, wide: torch.dtype) -> torch.Tensor:
    """A tensor in the reference's dtype; integers and truth values stay as they are."""
    if tensor.dtype.is_complex:
        target = torch.complex128 if wide in (torch.float64, torch.complex128) else tensor.dtype
    elif tensor.dtype.is_floating_point:
        target = torch.float64 if wide in (torch.float64, torch.complex128) else wide
        if wide.is_complex and wide is not torch.complex128:
            target = tensor.dtype
    else:
        return tensor
    widened = tensor.detach().to(target)
    return widened.requires_grad_(tensor.requires_grad)
