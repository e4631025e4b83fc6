"""Operator cases on the CPU: what is listed, how samples are made, and what is compared."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from cases import differences, read, run_case
from conformance_worker import listing, operator_rules, operators
from conformance_worker.messages import ListOperators, OperatorCase, OperatorTask
from conformance_worker.words import (
    Dtype,
    FailureKind,
    Form,
    Mode,
    Rule,
    SkipReason,
    ToleranceClass,
)


def entry(name: str) -> Any:
    return operators.entries()[name]


def test_the_database_has_every_entry_once_by_its_full_name() -> None:
    names = operators.entries()
    assert len(names) > 700
    assert {"add", "std.unbiased", "nn.functional.relu", "_foreach_add"} <= set(names)


@pytest.mark.parametrize("name", ["add", "nn.functional.conv2d", "_foreach_add", "linalg.eigh"])
def test_a_sample_is_a_function_of_its_number_alone(name: str) -> None:
    torch.manual_seed(1)
    left = operators.find_sample(entry(name), Dtype.FLOAT32, 3, train=False)
    torch.manual_seed(2)
    torch.rand(5)
    list(operators.samples(entry("mul"), Dtype.FLOAT32, train=False))
    right = operators.find_sample(entry(name), Dtype.FLOAT32, 3, train=False)
    assert left is not None
    assert right is not None
    assert len(left.tensors()) == len(right.tensors()) > 0
    for mine, theirs in zip(left.tensors(), right.tensors(), strict=True):
        assert torch.equal(mine, theirs)


def test_making_samples_leaves_the_generators_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    list(operators.samples(entry("add"), Dtype.FLOAT32, train=False))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("non_empty", "total", "wanted", "chosen"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7, 8], 9, 3, [0, 4, 8]),
        ([5, 6], 7, 3, [5, 6]),
        ([2, 3, 4], 9, 1, [2]),
        ([], 4, 2, [0, 3]),
        ([1], 3, 0, [0, 1, 2]),
        ([], 0, 3, []),
    ],
)
def test_a_quick_run_takes_the_first_and_evenly_spaced_samples(
    non_empty: list[int], total: int, wanted: int, chosen: list[int]
) -> None:
    assert listing.choose(non_empty, total, wanted) == chosen


def test_listing_is_sorted_and_names_what_does_not_exist() -> None:
    listed = listing.list_cases(
        ListOperators(
            ["nosuch", "add", "argmax"],
            [Dtype.INT64, Dtype.FLOAT32],
            samples=2,
            gradients=True,
            forms=[Form.FUNCTION],
        )
    )
    assert listed.unknown == ["nosuch"]
    assert listed.problems == {}
    assert listed.cases == sorted(listed.cases)
    kinds = {(case.entry, case.dtype.value, case.train) for case in listed.cases}
    assert kinds == {
        ("add", "float32", False),
        ("add", "float32", True),  # integers have no gradient, and argmax has none at all
        ("add", "int64", False),
        ("argmax", "float32", False),
        ("argmax", "int64", False),
    }
    assert all(isinstance(case, OperatorCase) for case in listed.cases)


@pytest.mark.parametrize(
    ("name", "sample", "changes"),
    [
        ("add", 0, {}),
        ("add", 1, {"train": True}),
        ("add", 0, {"layout": "out"}),
        ("add", 0, {"layout": "inplace"}),
        ("add", 0, {"layout": "noncontiguous"}),
        ("add", 0, {"dtype": Dtype.COMPLEX64}),
        ("add", 0, {"dtype": Dtype.INT32}),
        ("matmul", 3, {"dtype": Dtype.FLOAT64}),
        ("sort", 3, {}),
        ("svd", 2, {}),
        ("linalg.eigh", 2, {"train": True}),
        ("_foreach_add", 0, {}),
        ("index_reduce.mean", 2, {"train": True}),
        ("nn.functional.relu", 0, {"mode": Mode.COMPILE}),
        ("nn.functional.batch_norm", 0, {"train": True}),
        ("arange", 2, {}),
        ("tensor_split", 2, {}),
    ],
)
def test_the_cpu_agrees_with_itself(
    name: str, sample: int, changes: dict[str, Any], tmp_path: Path
) -> None:
    observed, stages, _ = run_case("cpu", tmp_path, OperatorTask(name, sample), **changes)
    assert observed.failure is None, observed.failure
    assert observed.device_used == "cpu"
    assert stages[:4] == ["import", "build", "reference", "transfer"]
    assert "execute" in stages
    (compare,) = observed.to_compare
    assert differences(compare) == []
    assert observed.repro.count("\n") >= 8


def test_float32_is_compared_with_float64_rounded_once(tmp_path: Path) -> None:
    observed, _, _ = run_case("cpu", tmp_path, OperatorTask("exp", 0))
    (compare,) = observed.to_compare
    assert (compare.reference, compare.rule) == ("cpu float64", "close")
    assert compare.tolerance_class == "transcendental"
    _, expected = read(compare.expected)
    sample = operators.find_sample(entry("exp"), Dtype.FLOAT32, 0, train=False)
    assert sample is not None
    assert torch.equal(expected["output"], sample.input.double().exp().float())


def test_low_precision_starts_from_the_rounded_inputs(tmp_path: Path) -> None:
    observed, _, _ = run_case("cpu", tmp_path, OperatorTask("matmul", 3), dtype=Dtype.BFLOAT16)
    (compare,) = observed.to_compare
    assert (compare.reference, compare.tolerance_class) == ("cpu float64", "matmul")
    structure, expected = read(compare.expected)
    assert {leaf["dtype"] for leaf in structure} == {"bfloat16"}
    sample = operators.find_sample(entry("matmul"), Dtype.BFLOAT16, 3, train=False)
    assert sample is not None
    left, right = (tensor.double() for tensor in sample.tensors())
    assert torch.equal(expected["output"], (left @ right).bfloat16())


def test_inputs_that_are_written_to_are_compared_too(tmp_path: Path) -> None:
    observed, _, _ = run_case("cpu", tmp_path, OperatorTask("add", 0), layout="inplace")
    structure, stored = read(observed.to_compare[0].expected)
    assert [leaf["path"] for leaf in structure] == ["output", "inputs.0"]
    assert torch.equal(stored["output"], stored["inputs.0"])


def test_gradients_are_leaves_of_their_own(tmp_path: Path) -> None:
    observed, _, _ = run_case("cpu", tmp_path, OperatorTask("mul", 0), train=True)
    structure, stored = read(observed.to_compare[0].expected)
    paths = [leaf["path"] for leaf in structure]
    assert paths == ["output", "gradients.0", "gradients.1"]
    sample = operators.find_sample(entry("mul"), Dtype.FLOAT32, 0, train=True)
    assert sample is not None
    # d(a*b)/da = weight * b, and the weight is at least a half.
    ratio = stored["gradients.0"] / sample.tensors()[1].detach()
    assert ((ratio > 0.49) & (ratio < 1.51)).all()


@pytest.mark.parametrize(
    ("name", "sample", "rule"),
    [
        ("nn.functional.relu", 0, "close"),
        ("nn.functional.dropout", 2, "statistical"),
        ("randn_like", 1, "statistical"),
        ("empty_like", 0, "metadata"),
        ("argmax", 1, "exact"),
    ],
)
def test_the_rule_fits_the_operator(name: str, sample: int, rule: str, tmp_path: Path) -> None:
    observed, _, _ = run_case("cpu", tmp_path, OperatorTask(name, sample))
    assert observed.failure is None
    assert observed.to_compare[0].rule == rule


@pytest.mark.parametrize(
    ("name", "shape", "left"),
    [
        ("nn.functional.dropout2d", (5, 4, 3, 2), (5, 4)),
        ("nn.functional.dropout2d", (5, 4, 3), (5, 4)),
        ("nn.functional.dropout1d", (5, 4), (5,)),
        ("nn.functional.dropout3d", (5, 4, 3, 2), (5,)),
        ("nn.functional.dropout3d", (6, 5, 4, 3, 2), (6, 5)),
        ("nn.functional.feature_alpha_dropout.with_train", (5, 4, 3, 2), (5, 4)),
        ("module:nn.Dropout2d", (5, 4, 3, 2), (5, 4)),
        ("nn.functional.dropout", (5, 4, 3), (5, 4, 3)),
    ],
)
def test_a_channel_that_is_dropped_as_a_whole_counts_once(
    name: str, shape: tuple[int, ...], left: tuple[int, ...]
) -> None:
    assert operator_rules.independent(name, torch.rand(shape)).shape == left


def test_dropout_that_does_not_drop_is_compared_exactly(tmp_path: Path) -> None:
    """N19: in evaluation nothing is computed."""
    samples = list(operators.samples(entry("nn.functional.dropout"), Dtype.FLOAT32, train=False))
    number = next(n for n, sample in enumerate(samples) if sample.kwargs.get("training") is False)
    observed, _, _ = run_case("cpu", tmp_path, OperatorTask("nn.functional.dropout", number))
    assert observed.to_compare[0].rule == Rule.EXACT


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("add", ToleranceClass.DEFAULT),
        ("matmul", ToleranceClass.MATMUL),
        ("linalg.svd", ToleranceClass.MATMUL),
        ("nn.functional.conv2d", ToleranceClass.MATMUL),
        ("nn.functional.linear", ToleranceClass.MATMUL),
        ("sum", ToleranceClass.REDUCTION),
        ("_foreach_norm", ToleranceClass.REDUCTION),
        ("softmax", ToleranceClass.REDUCTION),
        ("fft.fft", ToleranceClass.REDUCTION),
        ("exp", ToleranceClass.TRANSCENDENTAL),
        ("_foreach_exp", ToleranceClass.TRANSCENDENTAL),
        ("special.zeta", ToleranceClass.TRANSCENDENTAL),
        ("nn.functional.gelu", ToleranceClass.TRANSCENDENTAL),
        ("expand", ToleranceClass.DEFAULT),
        ("sign", ToleranceClass.DEFAULT),
    ],
)
def test_every_family_has_its_row_of_tolerances(name: str, expected: ToleranceClass) -> None:
    assert operator_rules.tolerance_class(name, train=False) is expected


@pytest.mark.parametrize(
    ("task", "changes", "kind", "words"),
    [
        (OperatorTask("nosuch", 0), {}, FailureKind.INFRA, "no operator entry `nosuch`"),
        (OperatorTask("add", 9999), {}, FailureKind.INFRA, "has no sample 9999"),
        (
            OperatorTask("argmax", 0),
            {"train": True},
            FailureKind.SKIPPED,
            "does not take float32",
        ),
        (OperatorTask("matmul", 0), {"layout": "inplace"}, FailureKind.SKIPPED, "in-place form"),
        (OperatorTask("add", 0), {"layout": "odd"}, FailureKind.INFRA, "not a layout"),
    ],
)
def test_what_cannot_be_executed_says_why(
    task: OperatorTask, changes: dict[str, Any], kind: FailureKind, words: str, tmp_path: Path
) -> None:
    observed, _, _ = run_case("cpu", tmp_path, task, **changes)
    assert observed.failure is not None
    assert observed.failure.kind is kind
    assert words in observed.failure.message
    assert (observed.failure.skip_reason is None) == (kind is not FailureKind.SKIPPED)
    assert observed.failure.skip_reason in (
        None,
        SkipReason.BY_DESIGN,
        SkipReason.DTYPE_NOT_APPLICABLE,
    )


def test_both_sides_raising_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ValueError("never")

    monkeypatch.setattr(entry("add"), "op", refuse)
    observed, _, _ = run_case("cpu", tmp_path, OperatorTask("add", 0))
    assert observed.failure is None
    assert observed.both_raised is not None
    assert (observed.both_raised.actual, observed.both_raised.expected) == (
        "ValueError",
        "ValueError",
    )
    assert observed.to_compare == []


def test_an_expected_error_that_does_not_come_is_a_mismatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def refuse_first(tensor: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("only the reference sees this")
        return tensor

    monkeypatch.setattr(entry("add"), "op", refuse_first)
    observed, _, _ = run_case("cpu", tmp_path, OperatorTask("add", 0))
    assert observed.failure is not None
    assert observed.failure.kind is FailureKind.MISMATCH
    assert "expected error" in observed.failure.message


def test_recording_counts_overloads_in_an_execution_of_its_own(tmp_path: Path) -> None:
    observed, _, run = run_case("cpu", tmp_path, OperatorTask("nn.functional.relu", 0), train=True)
    before = read(observed.to_compare[0].actual)
    counts = run.count_operators()
    assert counts is not None
    assert counts.pop("aten::relu") == 1
    assert "aten::threshold_backward" in counts
    assert not any(name.startswith("aten::rand") for name in counts), "only the case's own"
    assert read(observed.to_compare[0].actual)[0] == before[0]


def test_a_breadcrumb_names_the_last_operator_entered(tmp_path: Path) -> None:
    path = tmp_path / "breadcrumb"
    observed, _, _ = run_case(
        "cpu", tmp_path / "x", OperatorTask("add", 0), breadcrumb=str(path), mode=Mode.COMPILE
    )
    assert observed.failure is None
    assert observed.graphs is None, "a rerun that names operators compiles nothing"
    file = os.open(path, os.O_RDONLY)
    with mmap.mmap(file, 0, prot=mmap.PROT_READ) as page:
        assert bytes(page).split(b"\0")[0] == b"aten::add.Tensor"
    os.close(file)


def test_the_script_of_a_case_runs_by_itself(tmp_path: Path) -> None:
    observed, _, _ = run_case("cpu", tmp_path, OperatorTask("add", 0))
    names: dict[str, Any] = {}
    exec(observed.repro, names)
    assert torch.equal(names["expected"], names["actual"])


def test_a_case_leaves_no_call_behind_for_backends_that_are_not_used(tmp_path: Path) -> None:
    """Each would hold a formatted traceback for ever, and cost more than the operator."""
    run_case("cpu", tmp_path / "first", OperatorTask("add", 0))
    before = len(torch.cuda._queued_calls)
    run_case("cpu", tmp_path / "second", OperatorTask("add", 1))
    assert len(torch.cuda._queued_calls) == before
