"""Flattening any output in order, and the files that the comparator reads."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from cases import read
from conformance_worker import failures, tensors
from conformance_worker.words import FailureKind, Stage


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    loss: float


class Pair(NamedTuple):
    values: torch.Tensor
    indices: torch.Tensor


class Layer:
    def __init__(self) -> None:
        self.keys = torch.ones(1)
        self.values = torch.zeros(1)


class Cache:
    def __init__(self) -> None:
        self.layers = [Layer(), Layer()]
        self.itself = self
        self.name = "cache"


ONE = torch.ones(2)


@pytest.mark.parametrize(
    ("tree", "paths"),
    [
        (ONE, ["output"]),
        ((ONE, [ONE, None]), ["0", "1.0", "1.1"]),
        ({"b": ONE, "a": (ONE,)}, ["b", "a.0"]),
        (Output(ONE, 1.0), ["logits", "loss"]),
        (Pair(ONE, ONE), ["values", "indices"]),
        (torch.sort(ONE), ["0", "1"]),
        (
            {"past": Cache()},
            [f"past.layers.{n}.{name}" for n in (0, 1) for name in ("keys", "values")],
        ),
        ((), []),
        (None, ["output"]),
    ],
)
def test_leaves_come_in_order_with_their_paths(tree: Any, paths: list[str]) -> None:
    assert [leaf.path for leaf in tensors.flatten(tree)] == paths


def test_a_model_output_keeps_only_what_it_has() -> None:
    outputs = pytest.importorskip("transformers.modeling_outputs")
    tree = outputs.CausalLMOutputWithPast(logits=ONE, loss=None)
    assert [leaf.path for leaf in tensors.flatten(tree)] == ["logits"]


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    ],
    ids=str,
)
def test_every_dtype_is_read_back_bit_by_bit(dtype: torch.dtype, tmp_path: Path) -> None:
    tensor = torch.tensor([[0.0, 1.0], [1.5, -2.0]]).abs().to(dtype)
    path = str(tmp_path / "t")
    tensors.write(path, tensors.flatten({"x": tensor}))
    structure, stored = read(path)
    assert structure[0]["dtype"] == str(dtype).removeprefix("torch.")
    assert stored["x"].dtype == dtype
    assert torch.equal(stored["x"].view(torch.uint8), tensor.view(torch.uint8))


def test_complex_numbers_are_stored_as_pairs(tmp_path: Path) -> None:
    tensor = torch.tensor([1 + 2j, 3 - 4j])
    tensors.write(str(tmp_path / "t"), tensors.flatten(tensor.conj()))
    structure, stored = read(str(tmp_path / "t"))
    assert (structure[0]["dtype"], structure[0]["shape"]) == ("complex64", [2])
    assert stored["output"].tolist() == [[1, -2], [3, 4]]


def test_strides_are_those_of_the_tensor_and_not_of_the_file(tmp_path: Path) -> None:
    tensors.write(str(tmp_path / "t"), tensors.flatten(torch.arange(6.0).reshape(2, 3).t()))
    structure, stored = read(str(tmp_path / "t"))
    assert structure[0]["stride"] == [1, 3]
    assert stored["output"].tolist() == [[0, 3], [1, 4], [2, 5]]


def test_views_of_one_memory_and_empty_tensors_are_stored(tmp_path: Path) -> None:
    whole = torch.arange(4.0)
    tree = {"a": whole[:2], "b": whole[:2], "c": torch.empty(0, 3)}
    tensors.write(str(tmp_path / "t"), tensors.flatten(tree))
    _, stored = read(str(tmp_path / "t"))
    assert stored["c"].shape == (0, 3)
    assert torch.equal(stored["a"], stored["b"])


def test_what_is_not_a_tensor_is_described(tmp_path: Path) -> None:
    tree = [1, True, 2.5, float("nan"), float("-inf"), 1 + 2j, "text", None, torch.float32, Layer]
    tensors.write(str(tmp_path / "t"), tensors.flatten(tree))
    structure, stored = read(str(tmp_path / "t"))
    assert not stored
    assert [(leaf["kind"], leaf["dtype"], leaf["value"]) for leaf in structure[:9]] == [
        ("scalar", "int", 1),
        ("scalar", "bool", True),
        ("scalar", "float", 2.5),
        ("scalar", "float", "nan"),
        ("scalar", "float", "-inf"),
        ("scalar", "complex", [1.0, 2.0]),
        ("scalar", "str", "text"),
        ("none", None, None),
        ("other", None, "torch.float32"),
    ]
    assert structure[9]["kind"] == "other"


def test_a_sparse_tensor_is_stored_dense_without_strides(tmp_path: Path) -> None:
    tensors.write(str(tmp_path / "t"), tensors.flatten(torch.eye(2).to_sparse()))
    structure, stored = read(str(tmp_path / "t"))
    assert structure[0]["stride"] is None
    assert torch.equal(stored["output"], torch.eye(2))


def test_outputs_that_find_no_room_say_nothing_about_the_backend(tmp_path: Path) -> None:
    leaves = [tensors.Leaf("output", torch.zeros(4))]
    with pytest.raises(OSError, match="cannot be kept") as caught:
        tensors.write(str(tmp_path / "gone" / "0.actual.safetensors"), leaves)
    assert failures.failure_from(caught.value, Stage.TRANSFER, None).kind is FailureKind.INFRA
