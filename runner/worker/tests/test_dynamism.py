"""Sweeps of sizes on the CPU: one graph inside the bounds, and what happens outside them."""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cases import differences, run_case
from conformance_worker import dynamic_operators
from conformance_worker.messages import DynamicDimension, DynamismTask, ModelSpec
from conformance_worker.words import FailureKind, Mode

OPERATORS = [
    name
    for name, function in inspect.getmembers(dynamic_operators, inspect.isfunction)
    if function.__module__ == dynamic_operators.__name__ and not name.startswith("_")
]
BOUNDS = DynamicDimension("sequence", 2, 64, {"input_ids": 1})


def task(
    source: str, name: str, sizes: list[int], dimension: DynamicDimension = BOUNDS, **changes: Any
) -> DynamismTask:
    model = ModelSpec(source, name, "tiny", 2, 16, **changes)
    return DynamismTask(model, [dimension], [{"sequence": size} for size in sizes])


def test_one_graph_of_a_llama_serves_every_size_inside_the_bounds(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    sweep = task("transformers", "LlamaForCausalLM", [16, 2, 33, 64, 3, 65])
    observed, stages, _ = run_case("cpu", tmp_path, sweep, mode=Mode.COMPILE)
    assert observed.failure is None, observed.failure
    assert [point.label for point in observed.sweep][-1] == "sequence=65"
    inside = [point for point in observed.sweep if point.inside]
    assert len(inside) == 5
    assert all(point.graph_count == 1 and point.eager_calls == 0 for point in inside)
    assert [compare.label for compare in observed.to_compare] == [p.label for p in inside]
    for compare in observed.to_compare:
        assert differences(compare, 1e-4) == []
    # Outside, plain PyTorch compiles again without a word.
    outside = observed.sweep[-1]
    assert (outside.inside, outside.graph_count, outside.failure) == (False, 2, None)
    assert "trace" in stages
    assert "compile" in stages


def test_a_size_outside_first_costs_nothing_that_is_counted_inside(tmp_path: Path) -> None:
    sweep = task("python", "own_models:dynamic", [16, 65, 3])
    observed, _, _ = run_case("cpu", tmp_path, sweep, mode=Mode.COMPILE)
    assert observed.failure is None, observed.failure
    assert [point.graph_count for point in observed.sweep] == [1, 2, 2]


def test_a_graph_for_each_size_is_seen(tmp_path: Path) -> None:
    sweep = task("python", "own_models:dynamic", [16, 3, 5], overrides={"specialises": True})
    observed, _, _ = run_case("cpu", tmp_path, sweep, mode=Mode.COMPILE)
    assert observed.failure is not None
    # Declared dynamic, so a guard that splits the range is refused or answered with a new graph.
    assert observed.failure.error_class in ("ConstraintViolationError", "MismatchError")


def test_sizes_past_the_recompile_limit_are_not_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch._dynamo

    monkeypatch.setattr(torch._dynamo, "mark_dynamic", lambda *_, **__: None)
    sweep = task("python", "own_models:dynamic", [16, 3], overrides={"specialises": True})
    with torch._dynamo.config.patch(recompile_limit=1):
        observed, _, _ = run_case("cpu", tmp_path, sweep, mode=Mode.COMPILE)
    last = observed.sweep[-1]
    assert last.eager_calls == 1
    assert last.failure is not None
    assert last.failure.kind is FailureKind.FALLBACK


@pytest.mark.parametrize(
    ("dimension", "sizes", "words"),
    [
        (DynamicDimension("sequence", 2, 64, {"nosuch": 1}), [16], "no input `nosuch`"),
        (DynamicDimension("sequence", 2, 64, {"input_ids": 0}), [16], "is not its `sequence`"),
        (BOUNDS, [65, 16], "first size"),
        (BOUNDS, [], "first size"),
    ],
)
def test_a_sweep_that_makes_no_sense_says_why(
    dimension: DynamicDimension, sizes: list[int], words: str, tmp_path: Path
) -> None:
    sweep = task("python", "own_models:dynamic", sizes, dimension)
    observed, _, _ = run_case("cpu", tmp_path, sweep, mode=Mode.COMPILE)
    assert observed.failure is not None
    assert observed.failure.kind is FailureKind.INFRA
    assert words in observed.failure.message


def test_a_padding_leak_shows_below_the_tile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONFORMANCE_FAULTS", '{"own_models:dynamic": "padding-leak"}')
    sweep = task("python", "own_models:dynamic", [32, 31])
    observed, _, _ = run_case("faulty", tmp_path, sweep, mode=Mode.COMPILE)
    assert len(observed.to_compare) == 2
    assert differences(observed.to_compare[1]) == ["output: values"]


X_BOUNDS = DynamicDimension("sequence", 2, 64, {"x": 1})


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_a_small_graph_is_one_graph_at_every_size_with_poison_behind_it(
    tmp_path: Path, name: str
) -> None:
    batch = DynamicDimension("batch", 2, 8, {"x": 0})
    model = ModelSpec("python", f"conformance_worker.dynamic_operators:{name}", "tiny", 2, 16)
    points = [(2, 16), (2, 2), (2, 33), (3, 16), (8, 64), (8, 8), (2, 2)]
    sweep = [{"batch": b, "sequence": s} for b, s in points]
    task = DynamismTask(model, [batch, X_BOUNDS], sweep)
    observed, _, _ = run_case("cpu", tmp_path, task, mode=Mode.COMPILE)
    assert observed.failure is None, observed.failure
    assert {point.graph_count for point in observed.sweep} == {1}
    assert sum(point.eager_calls for point in observed.sweep) == 0
    assert all(differences(compare) == [] for compare in observed.to_compare)


def test_the_list_of_small_graphs_names_each_of_them_once() -> None:
    path = Path(__file__).parents[3] / "model-lists" / "dynamic-operators.toml"
    entries = tomllib.loads(path.read_text())["models"]
    names = [entry["id"].rpartition(":")[2] for entry in entries]
    assert names == sorted(OPERATORS)
    assert all(set(entry["dynamic"]) == {"batch", "sequence"} for entry in entries)


def test_what_is_read_behind_the_extent_is_poison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = task("python", "own_models:summing", [16, 31], X_BOUNDS)
    observed, _, _ = run_case("faulty", tmp_path / "a", sweep, mode=Mode.COMPILE)
    assert observed.failure is None
    assert all(differences(compare) == [] for compare in observed.to_compare)
    monkeypatch.setenv("CONFORMANCE_FAULTS", '{"own_models:summing": "read-behind"}')
    observed, _, _ = run_case("faulty", tmp_path / "b", sweep, mode=Mode.COMPILE)
    assert observed.failure is not None
    assert "not finite" in observed.failure.message
