"""Forms of operators on the CPU: what is listed, how inputs are laid out, and ties."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from cases import differences, read, run_case
from conformance_worker import layouts, listing, operators, ties
from conformance_worker.messages import ListOperators, OperatorCase, OperatorTask
from conformance_worker.operators import Sample
from conformance_worker.tensors import Leaf
from conformance_worker.words import Dtype, Form


def listed(entries: list[str], *forms: Form, samples: int = 2) -> list[OperatorCase]:
    request = ListOperators(
        entries, [Dtype.FLOAT32], samples=samples, gradients=False, forms=list(forms)
    )
    answer = listing.list_cases(request)
    assert answer.problems == {}
    return answer.cases


def test_only_what_an_entry_has_is_listed() -> None:
    assert {case.layout for case in listed(["matmul"], Form.OUT, Form.INPLACE)} == {"out"}
    assert {case.layout for case in listed(["add"], *layouts.FORMS)} == set(layouts.FORMS)
    assert listed(["matmul"], Form.INPLACE) == []
    assert listed(["_foreach_add"], Form.ERROR_INPUTS) == []


def test_every_entry_is_named_once_and_each_can_be_listed() -> None:
    named = listing.name_entries().entries
    assert named == sorted(set(named))
    assert {"add", "nn.functional.relu", "_foreach_add", "module:nn.Linear"} <= set(named)
    assert listed(["no such entry", "add"], Form.FUNCTION)
    assert set(named) == set(operators.entries())


def test_empty_and_scalar_samples_are_cases_of_the_function() -> None:
    entry = operators.entries()["sum"]
    for form, fits in (
        (Form.EMPTY, listing.is_empty),
        (Form.ZERO_DIM, lambda sample: any(t.dim() == 0 for t in sample.tensors())),
    ):
        cases = listed(["sum", "add", "nn.functional.linear"], form)
        assert cases, form
        assert {case.layout for case in cases} == {""}
        for case in cases:
            if case.entry != "sum":
                continue
            sample = operators.find_sample(entry, Dtype.FLOAT32, case.sample, train=False)
            assert sample is not None
            assert fits(sample)


def test_modules_are_listed_when_asked_for_and_only_then() -> None:
    cases = listed(["module:nn.Linear", "add"], Form.MODULE)
    assert {case.entry for case in cases} == {"module:nn.Linear"}
    assert {case.entry for case in listed([], Form.FUNCTION, samples=1)}.isdisjoint(
        {"module:nn.Linear"}
    )


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("module:nn.Linear", {}),
        ("module:nn.Linear", {"train": True}),
        ("module:nn.Conv2d", {"train": True}),
        ("module:nn.BatchNorm2d", {"train": True}),
        ("module:nn.LSTM", {}),
        ("module:nn.MultiheadAttention", {}),
        ("module:nn.TransformerEncoderLayer", {}),
        ("module:nn.LazyConv2d", {}),
        ("module:nn.CrossEntropyLoss", {"train": True}),
    ],
)
def test_a_module_agrees_with_itself(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    observed, _, _ = run_case("cpu", tmp_path, OperatorTask(name, 0), **changes)
    assert observed.failure is None, observed.failure
    (compare,) = observed.to_compare
    if compare.rule == "close":
        assert differences(compare) == []
    if changes.get("train"):
        paths = {leaf["path"] for leaf in read(compare.expected)[0]}
        assert any(path.startswith("gradients.") for path in paths)


def test_the_buffers_that_a_module_updates_are_compared(tmp_path: Path) -> None:
    observed, _, _ = run_case("cpu", tmp_path, OperatorTask("module:nn.BatchNorm2d", 0))
    paths = [leaf["path"] for leaf in read(observed.to_compare[0].expected)[0]]
    assert [path for path in paths if path.startswith("inputs.")] == [
        "inputs.2",
        "inputs.3",
        "inputs.4",
    ], "running mean and variance, and how many batches were seen"


@pytest.mark.parametrize("layout", layouts.LAYOUTS)
@pytest.mark.parametrize("name", ["add", "matmul", "sum", "nn.functional.relu"])
@pytest.mark.parametrize("train", [False, True])
def test_every_layout_is_another_one_and_agrees(
    layout: Form, name: str, train: bool, tmp_path: Path
) -> None:
    entry = operators.entries()[name]
    numbers = [
        number
        for number, sample in enumerate(operators.samples(entry, Dtype.FLOAT32, train=train))
        if layouts.changes(sample, layout) and not listing.is_empty(sample)
    ]
    sample = operators.find_sample(entry, Dtype.FLOAT32, numbers[0], train=train)
    assert sample is not None
    arranged = [layouts.arrange(tensor, layout) for tensor in sample.tensors()]
    strides = [tensor.stride() for tensor in sample.tensors()]
    assert [tensor.stride() for tensor in arranged] != strides
    assert [tensor.shape for tensor in arranged] == [tensor.shape for tensor in sample.tensors()]
    task = OperatorTask(name, numbers[0])
    observed, _, _ = run_case("cpu", tmp_path, task, layout=layout.value, train=train)
    assert observed.failure is None, observed.failure
    assert differences(observed.to_compare[0]) == []


@pytest.mark.parametrize("layout", ["", *layouts.LAYOUTS])
def test_an_input_that_is_noncontiguous_by_itself_has_no_gap_of_ours(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators.entries()["ravel"], "sample_inputs", _steps_of_two)
    observed, _, _ = run_case("cpu", tmp_path, OperatorTask("ravel", 0), layout=layout)
    assert observed.failure is None, observed.failure


def _steps_of_two(*_: Any, **__: Any) -> Any:
    return iter([_sample(torch.rand(5, 10)[:, 1::2])])


def test_writing_in_place_through_an_expanded_view_is_refused_by_both(tmp_path: Path) -> None:
    """N22: a row of an expanded tensor is every row: PyTorch refuses, and so must a device."""
    x = torch.arange(6.0)
    y = x.expand(2, 6)
    y[0, 0] = 5
    assert x.tolist() == [5, 1, 2, 3, 4, 5]
    with pytest.raises(RuntimeError, match="single memory location"):
        layouts.arrange(torch.rand(3, 4), Form.EXPANDED).add_(1)


@pytest.mark.parametrize("name", ["amax", "arange", "dot", "diagonal"])
def test_error_inputs_are_refused_by_both(name: str, tmp_path: Path) -> None:
    cases = listed([name], Form.ERROR_INPUTS, samples=0)
    assert cases
    assert all(case.error_input for case in cases)
    for case in cases:
        task = OperatorTask(name, case.sample, error_input=True)
        observed, _, _ = run_case("cpu", tmp_path / str(case.sample), task)
        assert observed.failure is None, observed.failure
        assert observed.both_raised is not None
        assert observed.both_raised.actual == observed.both_raised.expected


def _settled(name: str, sample: Sample, actual: list[torch.Tensor], expected: list[Any]) -> bool:
    entry = operators.entries()[name]
    number = len(actual)
    paths = ["output"] if number == 1 else [f"output.{n}" for n in range(number)]
    mine = [Leaf(path, tensor) for path, tensor in zip(paths, actual, strict=True)]
    theirs = [Leaf(path, tensor) for path, tensor in zip(paths, expected, strict=True)]
    settled = ties.settle(entry, sample, mine, theirs)
    same = all(torch.equal(a.value, b.value) for a, b in zip(settled.leaves, theirs, strict=True))
    replaced = any(a is not b for a, b in zip(settled.leaves, mine, strict=True))
    assert bool(settled.note) == replaced
    return same


def _sample(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Sample:
    return _Given(tensor, args, kwargs, lambda output: output)


class _Given(Sample):
    """A sample under PyTorch's name of its processing too."""

    @property
    def output_process_fn_grad(self) -> Any:
        return self.process_output


VALUES = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6, 5])
RIGHT = torch.tensor([1, 3, 6, 0, 2, 4, 8, 7, 5])
AS_RIGHT = torch.tensor([1, 3, 6, 0, 2, 8, 4, 7, 5])
TWICE = torch.tensor([1, 1, 6, 0, 2, 4, 8, 7, 5])


@pytest.mark.parametrize(
    ("indices", "kwargs", "right"),
    [
        (RIGHT, {}, True),
        (AS_RIGHT, {}, True),
        (AS_RIGHT, {"stable": True}, False),
        (TWICE, {}, False),
        (TWICE, {"stable": True}, False),
        (torch.tensor([1, 3, 6, 0, 2, 4, 8, 7, 9]), {}, False),
        (torch.tensor([1, 3, 0, 6, 2, 4, 8, 7, 5]), {}, False),
    ],
)
def test_ties_of_a_sort_are_right_in_any_order_unless_it_is_stable(
    indices: torch.Tensor, kwargs: dict[str, Any], right: bool
) -> None:
    """N16: equal values may come in any order, each once, unless a stable order is asked for."""
    assert _settled("argsort", _sample(VALUES, **kwargs), [indices], [RIGHT]) is right


@pytest.mark.parametrize(
    ("name", "sample", "actual", "expected", "right"),
    [
        ("argmax", _sample(torch.tensor([1.0, 2, 2])), [torch.tensor(2)], [torch.tensor(1)], True),
        ("argmax", _sample(torch.tensor([1.0, 2, 2])), [torch.tensor(0)], [torch.tensor(1)], False),
        (
            "argmin",
            _sample(torch.tensor([[1.0, 1], [2, 1]]), 1),
            [torch.tensor([1, 1])],
            [torch.tensor([0, 1])],
            True,
        ),
        (
            "topk",
            _sample(torch.tensor([5.0, 1, 5]), 2),
            [torch.tensor([5.0, 5]), torch.tensor([2, 0])],
            [torch.tensor([5.0, 5]), torch.tensor([0, 2])],
            True,
        ),
        (
            "topk",
            _sample(torch.tensor([5.0, 1, 7]), 2, sorted=False),
            [torch.tensor([5.0, 7]), torch.tensor([0, 2])],
            [torch.tensor([7.0, 5]), torch.tensor([2, 0])],
            True,
        ),
        (
            "topk",
            _sample(torch.tensor([5.0, 1, 7]), 2),
            [torch.tensor([5.0, 7]), torch.tensor([0, 2])],
            [torch.tensor([7.0, 5]), torch.tensor([2, 0])],
            False,
        ),
        (
            "cummax",
            _sample(torch.tensor([1.0, 1, 0]), 0),
            [torch.tensor([1.0, 1, 1]), torch.tensor([0, 0, 0])],
            [torch.tensor([1.0, 1, 1]), torch.tensor([0, 1, 1])],
            True,
        ),
        (
            "cummax",
            _sample(torch.tensor([1.0, 1, 0]), 0),
            [torch.tensor([1.0, 1, 1]), torch.tensor([1, 1, 1])],
            [torch.tensor([1.0, 1, 1]), torch.tensor([0, 1, 1])],
            False,
        ),
        (
            "nn.functional.max_pool1d",
            _sample(torch.tensor([[2.0, 2, 1, 3]]), 2),
            [torch.tensor([[2.0, 3]]), torch.tensor([[1, 3]])],
            [torch.tensor([[2.0, 3]]), torch.tensor([[0, 3]])],
            True,
        ),
        ("add", _sample(torch.tensor([1, 2])), [torch.tensor([3])], [torch.tensor([4])], False),
    ],
)
def test_an_index_is_right_when_it_points_at_the_same_value(
    name: str, sample: Sample, actual: list[torch.Tensor], expected: list[Any], right: bool
) -> None:
    assert _settled(name, sample, actual, expected) is right


PAIRS = torch.tensor([1 + 2j, 1 - 2j, -0.5 + 0j])
VECTORS = torch.tensor([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]])


@pytest.mark.parametrize(
    ("order", "values", "right"),
    [
        ([0, 1, 2], PAIRS, True),
        ([2, 0, 1], PAIRS, True),
        # Another pair has changed beside the order: it must still be found.
        ([2, 0, 1], torch.tensor([1 + 2j, 1 - 2j, 0.5 + 0j]), False),
        ([1, 0, 2], torch.tensor([1 + 2j, 1 + 2j, -0.5 + 0j]), False),
        ([2, 0, 1], torch.tensor([1 + 2j, complex("nan"), -0.5 + 0j]), False),
    ],
)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_eigenvalues_are_right_in_any_order_with_their_vectors(
    order: list[int], values: torch.Tensor, right: bool, batch: tuple[int, ...]
) -> None:
    matrix = _sample(torch.zeros(*batch, 3, 3))
    actual = [values[order].expand(*batch, 3), VECTORS[:, order].expand(*batch, 3, 3)]
    expected = [PAIRS.expand(*batch, 3), VECTORS.expand(*batch, 3, 3)]
    assert _settled("linalg.eig", matrix, actual, expected) is right


def test_vectors_that_do_not_follow_their_eigenvalues_are_wrong() -> None:
    matrix = _sample(torch.zeros(3, 3))
    actual = [PAIRS[[2, 0, 1]], VECTORS]
    assert not _settled("linalg.eig", matrix, actual, [PAIRS, VECTORS])
