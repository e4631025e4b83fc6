"""PyTorch's operator database as a source of cases: its entries and their samples.

A sample is a pure function of entry, dtype, sample number and direction: the generators are
seeded from those alone, so the number found while listing names the same tensors everywhere.
What is listed is `listing`; how outputs are compared is `operator_rules`; executing is
`operator_case`.
"""

from __future__ import annotations

import functools
import itertools
import random
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance_worker import modules
from conformance_worker.words import Dtype

MOST_SAMPLES_READ = 2_000
"""Samples of one entry that are read at most; a few entries make tens of thousands."""

KEEP_ON_HOST = frozenset({"tensor_split"})
"""Entries whose argument tensors are documented to live on the host; only `input` is moved."""

FACTORIES = frozenset({"arange", "linspace", "logspace"})
"""Entries with samples that have neither a tensor nor a device to say where to compute."""

NAMES_A_DEVICE = "to"
"""The entry that takes a device by its name, and not only by keyword."""

FOREACH_DATABASES = (
    "foreach_unary_op_db",
    "foreach_binary_op_db",
    "foreach_pointwise_op_db",
    "foreach_reduce_op_db",
    "foreach_other_op_db",
)


@dataclass(frozen=True)
class Sample:
    """Inputs of one call."""

    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    process_output: Callable[[Any], Any]

    def tensors(self) -> list[torch.Tensor]:
        """Every tensor among the inputs, in order."""
        leaves = pytree.tree_leaves((self.input, self.args, self.kwargs))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def map(self, function: Callable[[torch.Tensor], torch.Tensor]) -> Sample:
        """The same sample with every tensor replaced."""
        inputs = pytree.tree_map_only(torch.Tensor, function, (self.input, self.args, self.kwargs))
        return replace(self, input=inputs[0], args=inputs[1], kwargs=inputs[2])


def torch_dtype(dtype: Dtype) -> torch.dtype:
    """PyTorch's object for the word."""
    found: torch.dtype = getattr(torch, dtype.value)
    return found


def load() -> None:
    """Imports the database, which takes seconds."""
    entries()


@functools.cache
def entries() -> dict[str, Any]:
    """Every entry by its full name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal import common_methods_invocations as database
        from torch.testing._internal import common_utils
        from torch.testing._internal.opinfo import core

    # Each entry looks for the unit test that asks for its samples, by the source of every frame
    # below: some 100 ms where one of them is frozen, and there is none.
    for module in (common_utils, core):
        module.extract_test_fn = lambda: None
    # Entries of random operators wrap themselves in a fixed seed, which hides that they are
    # random and would seed only the host's generator. Seeding is ours, on both sides.
    database.wrapper_set_seed = lambda operator, *args, **kwargs: operator(*args, **kwargs)
    databases = [database.op_db, *(getattr(database, name, []) for name in FOREACH_DATABASES)]
    return {entry.full_name: entry for entry in itertools.chain(*databases, modules.entries())}


def is_seeded(entry: Any) -> bool:
    """Whether the entry declares itself random by wrapping itself in a seed."""
    return "wrapper_set_seed" in getattr(getattr(entry.op, "__code__", None), "co_names", ())


def supports(entry: Any, dtype: Dtype, *, train: bool) -> bool:
    """Whether the entry takes this dtype on the CPU, where samples and references are made."""
    if train and not entry.supports_autograd:
        return False
    chosen = entry.supported_backward_dtypes("cpu") if train else entry.supported_dtypes("cpu")
    return torch_dtype(dtype) in chosen


def has_error_inputs(entry: Any) -> bool:
    """Whether the entry names inputs that must be refused."""
    return getattr(entry, "error_inputs_func", None) is not None


def samples(
    entry: Any, dtype: Dtype, *, train: bool, error_inputs: bool = False
) -> Iterator[Sample]:
    """The entry's samples in their fixed order, on the CPU; or inputs that it must refuse.

    The generators' states are the caller's again between two samples.
    """
    stream = SampleStream(entry, dtype, train=train, error_inputs=error_inputs)
    while (sample := stream.take()) is not None:
        yield sample


class SampleStream:
    """The samples of an entry, one after the other.

    They are made with generators of their own, whose states are put aside and back at each `take`:
    that costs more than making a small sample, so what is passed over is made in the same step.
    """

    def __init__(self, entry: Any, dtype: Dtype, *, train: bool, error_inputs: bool) -> None:
        of = "error" if error_inputs else f"{dtype.value}/{train}"
        self._seed = zlib.crc32(f"{entry.full_name}/{of}".encode())
        self._make = lambda: iter(_made(entry, dtype, train=train, error_inputs=error_inputs))
        self._made: Iterator[Any] | None = None
        self._states: Any = None
        self.position = 0
        """Number of the sample that comes next."""

    def take(self, skip: int = 0) -> Sample | None:
        """The next sample after `skip` others, or nothing after the last one."""
        after = self.position + skip
        if after >= MOST_SAMPLES_READ:
            return None
        callers = _states()
        try:
            if self._made is None:
                seed_host_generators(self._seed)
                self._made = self._make()
            else:
                _put(self._states)
            sample = next(itertools.islice(self._made, skip, None), None)
        finally:
            self._states = _states()
            _put(callers)
        self.position = after + 1
        if sample is None:
            return None
        return Sample(
            input=sample.input,
            args=tuple(sample.args),
            kwargs=dict(sample.kwargs),
            process_output=sample.output_process_fn_grad,
        )


def _made(entry: Any, dtype: Dtype, *, train: bool, error_inputs: bool) -> Iterable[Any]:
    if error_inputs:
        # Their dtypes are part of what is wrong with them.
        return (given.sample_input for given in entry.error_inputs("cpu"))
    made: Iterable[Any] = entry.sample_inputs(
        "cpu", torch_dtype(dtype), requires_grad=train, set_seed=False
    )
    return made


def _states() -> tuple[Any, Any, Any]:
    import numpy

    return torch.get_rng_state(), numpy.random.get_state(), random.getstate()


def _put(states: tuple[Any, Any, Any]) -> None:
    import numpy

    torch.set_rng_state(states[0])
    numpy.random.set_state(states[1])
    random.setstate(states[2])


def seed_host_generators(seed: int) -> None:
    """Seeds the generators of Python, numpy and torch on the host."""
    import numpy

    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)


class SampleReader:
    """Finds samples by number, going on from where it is: cases come in the order of numbers.

    Making the samples before the one asked for is most of what finding it costs.
    """

    def __init__(self) -> None:
        self._of: tuple[Any, ...] = ()
        self._stream: SampleStream | None = None

    def find(
        self, entry: Any, dtype: Dtype, number: int, *, train: bool, error_input: bool = False
    ) -> Sample | None:
        """The sample of that number, or nothing where the entry has fewer."""
        wanted = (entry.full_name, dtype, train, error_input)
        stream = self._stream
        if stream is None or wanted != self._of or number < stream.position:
            stream = SampleStream(entry, dtype, train=train, error_inputs=error_input)
            self._of, self._stream = wanted, stream
        return stream.take(skip=number - stream.position)


_reader = SampleReader()


def find_sample(
    entry: Any, dtype: Dtype, number: int, *, train: bool, error_input: bool = False
) -> Sample | None:
    """The sample of that number, or nothing where the entry has fewer."""
    return _reader.find(entry, dtype, number, train=train, error_input=error_input)


def to_device(sample: Sample, name: str, move: Callable[[Any], Any], device: str) -> Sample:
    """Moves a sample's tensors, and rewrites what names the CPU as the place for results."""
    base = name.split(".", maxsplit=1)[0]
    by_name = base == NAMES_A_DEVICE
    moved_input = _rewrite_device(move(sample.input), device, by_name=by_name)
    if name in KEEP_ON_HOST:
        return replace(sample, input=moved_input)
    args, kwargs = move((sample.args, sample.kwargs))
    kwargs = {
        key: device
        if key == "device" and value is not None
        else _rewrite_device(value, device, by_name=by_name)
        for key, value in kwargs.items()
    }
    args = tuple(_rewrite_device(value, device, by_name=by_name) for value in args)
    if base in FACTORIES and not sample.tensors():
        kwargs.setdefault("device", device)
    return replace(sample, input=moved_input, args=args, kwargs=kwargs)


def _rewrite_device(value: Any, device: str, *, by_name: bool) -> Any:
    if isinstance(value, torch.device) or (by_name and value == "cpu"):
        return torch.device(device)
    return value
