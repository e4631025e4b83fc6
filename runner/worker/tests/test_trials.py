"""Symptoms reported of tools like this one, as cases for the worker; each by its number.

What is sent to the comparator is looked at here; how it judges that, in `runner/tests/compare`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from cases import differences, read, run_case
from conformance_worker import accumulation, draws, operators
from conformance_worker.devices import cpu, faults
from conformance_worker.messages import OperatorTask
from conformance_worker.observed import Observed
from conformance_worker.operators import Sample
from conformance_worker.words import Dtype

Change = Callable[[Any], Any]


class Broken(cpu.TheDevice):
    """A processor that changes what a case gives."""

    def __init__(self, change: Change, flushed: tuple[str, ...] = ()) -> None:
        self._change = change
        self.flushed_dtypes = flushed

    def call(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Executes, and changes the output only."""
        result = function(*args, **kwargs)
        return result | {"output": self._change(result["output"])}


class Given(Sample):
    """A sample under PyTorch's name of its processing too."""

    @property
    def output_process_fn_grad(self) -> Any:
        return self.process_output


@pytest.fixture(autouse=True)
def _no_samples_of_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples go on where the last case of an entry was, whoever has replaced them since."""
    monkeypatch.setattr(operators, "_reader", operators.SampleReader())


def honest(output: Any) -> Any:
    return output


def give(
    monkeypatch: pytest.MonkeyPatch, name: str, tensor: Any, *args: Any, **kwargs: Any
) -> None:
    """Makes an entry's only sample of these arguments."""
    sample = Given(tensor, args, kwargs, honest)
    monkeypatch.setattr(operators.entries()[name], "sample_inputs", lambda *_, **__: iter([sample]))
    monkeypatch.setattr(operators, "_reader", operators.SampleReader())


def observe(name: str, change: Change, folder: Path, **changes: Any) -> Observed:
    observed, _, _ = run_case(Broken(change), folder, OperatorTask(name, 0), **changes)
    assert observed.failure is None, observed.failure
    return observed


# --- N15: subnormal numbers ---------------------------------------------------------------------


@pytest.mark.parametrize("declared", [(), ("float32",)])
def test_subnormal_inputs_reach_the_comparator_with_the_devices_policy(
    declared: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N15: what a device declares to flush goes with what it gave."""
    give(monkeypatch, "neg", torch.tensor([1e-40, 1.0]))
    device = Broken(faults.CHANGES["flush-subnormals"], declared)
    observed, _, _ = run_case(device, tmp_path, OperatorTask("neg", 0))
    (compare,) = observed.to_compare
    assert compare.flushed_dtypes == list(declared)
    assert read(compare.actual)[1]["output"].tolist() == [0, -1]
    assert read(compare.expected)[1]["output"][0] == torch.tensor(-1e-40)


# --- N17: factors that are not unique -----------------------------------------------------------


def flip_both(factors: Any) -> Any:
    u, values, v = (factor.clone() for factor in factors)
    u[..., 0] *= -1
    v[..., 0, :] *= -1
    return u, values, v


def flip_left(factors: Any) -> Any:
    u, values, v = (factor.clone() for factor in factors)
    u[..., 0] *= -1
    return u, values, v


def rotate(factors: Any) -> Any:
    """Another basis of the first two singular vectors."""
    u, values, v = (factor.clone() for factor in factors)
    turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]])
    u[..., :2] = u[..., :2] @ turn
    v[..., :2, :] = turn.mT @ v[..., :2, :]
    return u, values, v


def stretch(factors: Any) -> Any:
    """Vectors that multiply to the matrix again and are not of length 1."""
    u, values, v = factors
    return u * 2, values, v / 2


@pytest.mark.parametrize(
    ("diagonal", "change", "found"),
    [
        ((3.0, 2.0), honest, []),
        ((3.0, 2.0), flip_both, []),
        ((3.0, 2.0), flip_left, ["output.product: values"]),
        ((3.0, 2.0), rotate, ["output.product: values"]),
        ((3.0, 2.0), stretch, ["output.U-orthonormal: values", "output.V-orthonormal: values"]),
        ((3.0, 3.0), rotate, []),
        ((3.0, 3.0, 1.0), rotate, []),
        ((3.0, 2.0), lambda usv: (usv[0], usv[1] * 1.01, usv[2]), None),
        ((3.0, 2.0), lambda usv: (usv[0].double(), usv[1], usv[2]), None),
    ],
)
def test_singular_vectors_are_right_up_to_what_is_free(
    diagonal: tuple[float, ...],
    change: Change,
    found: list[str] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """N17: a flipped pair passes, a flipped side does not; equal values leave the basis free."""
    give(monkeypatch, "linalg.svd", torch.diag(torch.tensor(diagonal)))
    observed = observe("linalg.svd", change, tmp_path)
    differ = differences(observed.to_compare[0])
    assert differ if found is None else differ == found


def test_a_side_that_is_flipped_alone_is_found_in_every_sample_of_the_database(
    tmp_path: Path,
) -> None:
    """N17: the entry's own processing takes absolute values, which hides it in most of them."""
    entry = operators.entries()["linalg.svd"]
    for number, sample in enumerate(operators.samples(entry, Dtype.FLOAT32, train=False)):
        if number % 7 or not sample.input.numel():
            continue
        task = OperatorTask("linalg.svd", number)
        for change, is_right in ((flip_both, True), (flip_left, False)):
            folder = tmp_path / f"{number}-{is_right}"
            observed, _, _ = run_case(Broken(change), folder, task)
            assert observed.failure is None, observed.failure
            assert (differences(observed.to_compare[0]) == []) is is_right, number


@pytest.mark.parametrize("upper", ["L", "U"])
def test_eigenvectors_and_orthogonal_factors_are_right_up_to_their_sign(
    upper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N17, the same in other decompositions; of a symmetric matrix one half is not read."""
    matrix = torch.rand(4, 4)
    give(monkeypatch, "linalg.eigh", matrix, UPLO=upper)
    give(monkeypatch, "linalg.qr", matrix)

    def flip_all(pair: Any) -> Any:
        return pair[0], -pair[1]

    assert differences(observe("linalg.eigh", flip_all, tmp_path / "1").to_compare[0]) == []
    both = observe("linalg.qr", lambda pair: (-pair[0], -pair[1]), tmp_path / "2")
    assert differences(both.to_compare[0]) == []
    one = observe("linalg.qr", flip_all, tmp_path / "3")
    assert differences(one.to_compare[0]) == ["output.product: values"]


# --- N18: the order of adding -------------------------------------------------------------------


def give_many_addends(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    index, source = torch.zeros(64, dtype=torch.int64), torch.randn(64).half()
    give(monkeypatch, "index_add", torch.zeros(4, dtype=torch.float16), 0, index, source)


def test_the_spread_of_a_device_is_measured_apart_from_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N18: ten executions, and how many numbers are added up; both go with the result."""
    give_many_addends(monkeypatch)
    steady = observe("index_add", honest, tmp_path / "1", dtype=Dtype.FLOAT16).to_compare[0]
    assert (steady.addends, steady.reference) == (65, "cpu float64")
    assert steady.spread is not None
    assert (steady.spread.repeats, steady.spread.max_abs) == (accumulation.REPEATS, 0)

    executions = []

    def unsteady(output: torch.Tensor) -> torch.Tensor:
        executions.append(1)
        return output + 0.25 * (len(executions) % 2)

    shaken = observe("index_add", unsteady, tmp_path / "2", dtype=Dtype.FLOAT16).to_compare[0]
    assert len(executions) == accumulation.REPEATS
    assert shaken.spread is not None
    assert shaken.spread.max_abs == pytest.approx(0.25, abs=0.01)
    wide = observe("index_add", honest, tmp_path / "3").to_compare[0]
    assert (wide.addends, wide.spread) == (None, None), "float32 has room for it"


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "addends"),
    [
        ("index_add", (0, torch.tensor([1, 1, 1, 0]), torch.rand(4)), {"alpha": 2}, 4),
        ("index_add", (0, torch.tensor([0, 1, 2]), torch.rand(3)), {}, None),
        ("scatter_add", (0, torch.tensor([2, 2, 0]), torch.rand(3)), {}, 3),
        ("scatter_reduce", (0, torch.tensor([2, 2, 0]), torch.rand(3), "sum"), {}, 3),
        ("scatter_reduce", (0, torch.tensor([2, 2, 0]), torch.rand(3), "amax"), {}, None),
        ("index_reduce", (0, torch.tensor([2, 2, 2]), torch.rand(3), "mean"), {}, 4),
        ("index_put", ((torch.tensor([1, 1]),), torch.rand(2)), {"accumulate": True}, 3),
        ("index_put", ((torch.tensor([1, 1]),), torch.rand(2)), {}, None),
        ("put", (torch.tensor([1, 1]), torch.rand(2), True), {}, 3),
        ("add", (torch.rand(4),), {}, None),
    ],
)
def test_addends_are_counted_by_the_index(
    name: str, args: Any, kwargs: dict[str, Any], addends: int | None
) -> None:
    """N18: the number that lands in the fullest place, with what is there already."""
    entry = next(entry for entry in operators.entries().values() if entry.name == name)
    sample = Sample(torch.rand(4), args, kwargs, honest)
    assert accumulation.most_addends(entry, sample) == addends


# --- N19: random numbers ------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1000,), (5,), ()])
def test_a_random_operator_is_drawn_until_its_distribution_shows(
    shape: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N19: five elements of a dropout tell nothing, so they are drawn again with other seeds."""
    give(monkeypatch, "nn.functional.dropout", torch.ones(shape), p=0.5, training=True)
    observed = observe("nn.functional.dropout", honest, tmp_path)
    (compare,) = observed.to_compare
    assert compare.rule == "statistical"
    for path in (compare.actual, compare.expected):
        structure, stored = read(path)
        drawn = stored["output"]
        assert structure[0]["shape"] == list(drawn.shape)
        assert drawn.numel() >= min(draws.WANTED_ELEMENTS, draws.MOST_EXECUTIONS)
        assert set(drawn.unique().tolist()) == {0, 2}
        assert 0.3 < float((drawn == 0).double().mean()) < 0.7
    again = observe("nn.functional.dropout", honest, tmp_path / "again").to_compare[0]
    assert torch.equal(read(again.actual)[1]["output"], read(compare.actual)[1]["output"]), (
        "the seed of the case decides every draw"
    )


@pytest.mark.parametrize("seed", range(4))
def test_one_toss_of_a_coin_is_random_though_the_next_may_come_out_alike(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N19: whether a case is random is not decided by a single second draw."""
    give(monkeypatch, "bernoulli", torch.tensor(0.5))
    observed = observe("bernoulli", honest, tmp_path, seed=seed)
    assert observed.to_compare[0].rule == "statistical"


def test_what_a_device_gives_every_time_is_not_drawn_by_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N19: each of the executions is the device's own, so that one that is right hides nothing."""
    give(monkeypatch, "nn.functional.dropout", torch.ones(5), p=0.5, training=True)
    executions = []

    def only_first_is_right(output: torch.Tensor) -> torch.Tensor:
        executions.append(1)
        return output if len(executions) == 1 else torch.ones_like(output)

    observed = observe("nn.functional.dropout", only_first_is_right, tmp_path)
    drawn = read(observed.to_compare[0].actual)[1]["output"]
    assert len(executions) == drawn.shape[0] == draws.WANTED_ELEMENTS / 5
    assert bool((drawn[1:] == 1).all())


# --- N22: writing through a view ----------------------------------------------------------------


def test_a_write_through_an_expanded_view_changes_one_element(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N22: the input is compared after the call, so that a device that adds to the rest is seen."""

    def write(tensor: torch.Tensor) -> Any:
        rows = tensor.expand(2, 6)
        rows[0, 0] = 5
        return tensor.clone(), rows.clone()

    def write_each_row(output: Any) -> Any:
        (given,) = moved
        given[1:] *= 2
        return output

    moved: list[torch.Tensor] = []
    give(monkeypatch, "fill", torch.arange(6.0))
    monkeypatch.setattr(operators.entries()["fill"], "op", write)
    right = observe("fill", honest, tmp_path / "1").to_compare[0]
    assert differences(right) == []
    assert read(right.expected)[1]["inputs.0"].tolist() == [5, 1, 2, 3, 4, 5]

    class Watched(Broken):
        def move(self, tree: Any) -> Any:
            there = super().move(tree)
            tensors = [leaf for leaf in pytree.tree_leaves(there) if isinstance(leaf, torch.Tensor)]
            moved[:] = [tensor for tensor in tensors if tensor.numel() == 6] or moved
            return there

    observed, _, _ = run_case(Watched(write_each_row), tmp_path / "2", OperatorTask("fill", 0))
    assert observed.failure is None, observed.failure
    wrong = observed.to_compare[0]
    assert read(wrong.actual)[1]["inputs.0"].tolist() == [5, 2, 4, 6, 8, 10]
    assert differences(wrong) == ["inputs.0: values"]


# --- N25: dimensions without elements -----------------------------------------------------------


def test_an_inner_dimension_without_elements_leaves_the_bias(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N25: an empty sum is 0, and the result has elements all the same."""
    bias = torch.randn(5)
    give(monkeypatch, "nn.functional.linear", torch.randn(3, 4, 0), torch.randn(5, 0), bias)
    (compare,) = observe("nn.functional.linear", honest, tmp_path / "1").to_compare
    assert torch.equal(read(compare.expected)[1]["output"], bias.expand(3, 4, 5))
    assert differences(compare) == []
    rubbish = observe("nn.functional.linear", lambda output: output * 0, tmp_path / "2")
    assert differences(rubbish.to_compare[0]) == ["output: values"]

    give(monkeypatch, "dot", torch.empty(0), torch.empty(0))
    (compare,) = observe("dot", honest, tmp_path / "3").to_compare
    assert read(compare.expected)[1]["output"].tolist() == 0
    assert differences(compare) == []
    rubbish = observe("dot", lambda output: output + torch.nan, tmp_path / "4")
    assert differences(rubbish.to_compare[0]) == ["output: values"]
