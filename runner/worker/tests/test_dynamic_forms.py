"""Masks with padding, positions at their limit, and decoding with a cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cases import differences, run_case
from conformance_worker import dynamic_forms
from conformance_worker.messages import DynamicDimension, DynamismTask, ModelSpec
from conformance_worker.words import DynamicForm, FailureKind, Mode

CAUSAL = DynamicDimension("sequence", 2, 12, {"input_ids": 1, "attention_mask": 1})


def task(name: str, sizes: list[int]) -> DynamismTask:
    model = ModelSpec("transformers", name, "tiny", 2, 4)
    return DynamismTask(model, [CAUSAL], [{"sequence": size} for size in sizes])


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("length", [1, 2, 5, 16])
def test_every_row_hides_another_number_of_tokens_and_keeps_one(length: int, left: bool) -> None:
    mask = dynamic_forms.padded(torch.ones(3, length, dtype=torch.int64), left=left)
    kept = mask.sum(1)
    assert bool((kept >= 1).all())
    if length > 3:
        assert len(set(kept.tolist())) == 3
        assert bool((kept < length).all())
    for row, count in zip(mask, kept, strict=True):
        real = row[-count:] if left else row[:count]
        assert bool(real.all()), row


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "GPT2LMHeadModel"])
@pytest.mark.parametrize(
    "form",
    [DynamicForm.PADDED_LEFT, DynamicForm.PADDED_RIGHT, DynamicForm.POSITIONS_AT_LIMIT],
)
def test_one_graph_serves_every_size_in_every_form(
    name: str, form: DynamicForm, tmp_path: Path
) -> None:
    sweep = task(name, [4, 2, 7, 12])
    observed, _, _ = run_case("cpu", tmp_path, sweep, mode=Mode.COMPILE, layout=form.value)
    assert observed.failure is None, observed.failure
    assert [point.graph_count for point in observed.sweep] == [1, 1, 1, 1]
    assert len(observed.to_compare) == 4
    for compare in observed.to_compare:
        assert differences(compare, 1e-4) == []


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "GPT2LMHeadModel"])
@pytest.mark.parametrize("form", [DynamicForm.DYNAMIC_CACHE, DynamicForm.STATIC_CACHE])
def test_a_prefill_and_every_step_after_it_are_two_graphs(
    name: str, form: DynamicForm, tmp_path: Path
) -> None:
    sweep = task(name, list(range(3, 14)))
    observed, _, _ = run_case("cpu", tmp_path, sweep, mode=Mode.COMPILE, layout=form.value)
    assert observed.failure is None, observed.failure
    inside = [point for point in observed.sweep if point.inside]
    assert [point.graph_count for point in inside] == [1] + [2] * (len(inside) - 1)
    assert len(observed.to_compare) == 10
    for compare in observed.to_compare:
        assert differences(compare, 1e-4) == []
    outside = observed.sweep[-1]
    if form is DynamicForm.DYNAMIC_CACHE:
        assert (outside.graph_count, outside.failure) == (3, None), "it grows on, seen"
    else:
        assert outside.failure is not None or outside.graph_count == 3, "there is no room"


def test_a_model_without_what_a_form_needs_is_skipped_with_the_reason(tmp_path: Path) -> None:
    model = ModelSpec("python", "own_models:dynamic", "tiny", 2, 16)
    bounds = DynamicDimension("sequence", 2, 64, {"input_ids": 1})
    for form in DynamicForm:
        if form is DynamicForm.PLAIN:
            continue
        sweep = DynamismTask(model, [bounds], [{"sequence": 16}])
        folder = tmp_path / form
        observed, _, _ = run_case("cpu", folder, sweep, mode=Mode.COMPILE, layout=form.value)
        assert observed.failure is not None
        assert observed.failure.kind is FailureKind.SKIPPED, observed.failure


@pytest.mark.parametrize("form", [form for form in DynamicForm if form is not DynamicForm.PLAIN])
def test_the_script_of_a_form_counts_the_same_graphs(form: DynamicForm, tmp_path: Path) -> None:
    sweep = task("LlamaForCausalLM", [4, 5, 6, 12] if "cache" not in form else [4, 5, 6, 7])
    observed, _, _ = run_case("cpu", tmp_path, sweep, mode=Mode.COMPILE, layout=form.value)
    script = tmp_path / "script.py"
    script.write_text(observed.repro)
    ended = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    lines = [line for line in ended.stdout.splitlines() if "torch.Size" in line]
    counted = [int(line.rsplit(" ", 1)[1]) for line in lines]
    assert counted == [point.graph_count for point in observed.sweep], ended.stdout
