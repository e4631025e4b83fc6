"""Hub models from recorded facts, from the local cache, and what cannot be had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from conformance_worker import models
from conformance_worker.failures import InfraError, SkipCaseError
from conformance_worker.messages import ModelSpec

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def spec(**changes: Any) -> ModelSpec:
    fields: dict[str, Any] = {
        "source": "hub",
        "id": "someone/model",
        "revision": COMMIT,
        "size": "tiny",
        "batch": 2,
        "sequence": 16,
        "overrides": {"architectures": ["LlamaForCausalLM"]},
    }
    return ModelSpec(**(fields | changes))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Hugging Face cache with one configuration at one commit."""
    folder = tmp_path / "models--someone--model" / "snapshots" / COMMIT
    folder.mkdir(parents=True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    return folder


def test_a_recorded_class_and_geometry_are_enough(cache: Path) -> None:
    geometry = {"num_attention_heads": 6, "num_key_value_heads": 2, "hidden_size": 96}
    built = models.build(spec(overrides=spec().overrides | geometry), seed=0)
    layer = built.module.model.layers[0].self_attn
    assert type(built.module).__name__ == "LlamaForCausalLM"
    assert layer.k_proj.out_features * 3 == layer.q_proj.out_features
    assert "configuration: class LlamaForCausalLM and recorded geometry, not fetched" in built.notes


def test_geometry_of_a_part_goes_into_the_part(cache: Path) -> None:
    overrides = {
        "architectures": ["LlavaForConditionalGeneration"],
        "text_config": {"num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 32},
    }
    text = models.build(spec(overrides=overrides), seed=0).module.config.text_config
    assert (text.num_attention_heads, text.num_key_value_heads, text.hidden_size) == (2, 1, 32)


def test_a_cached_configuration_at_the_revision_is_used(cache: Path) -> None:
    config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "rope_theta": 12345.0}
    (cache / "config.json").write_text(json.dumps(config), encoding="utf-8")
    built = models.build(spec(overrides={}), seed=0)
    assert type(built.module).__name__ == "Qwen3ForCausalLM"
    assert built.module.config.rope_parameters["rope_theta"] == 12345.0
    assert sum(p.numel() for p in built.module.parameters()) < 1_000_000
    assert f"configuration: someone/model at {COMMIT}, from the local cache" in built.notes
    other = spec(revision="f" * 40, overrides={})
    with pytest.raises(InfraError, match="not in the local Hugging Face cache"):
        models.build(other, seed=0)


def test_a_configuration_that_cannot_be_read_is_named(cache: Path) -> None:
    (cache / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(InfraError, match=r"config\.json` in the Hugging Face cache cannot be read"):
        models.build(spec(), seed=0)


def test_a_class_of_foreign_code_is_skipped(cache: Path) -> None:
    with pytest.raises(SkipCaseError, match="`OddForCausalLM` of `someone/model` is not in"):
        models.build(spec(overrides={"architectures": ["OddForCausalLM"]}), seed=0)


@pytest.mark.parametrize(
    ("revision", "message"),
    [("facts-2026-10", "no commit of"), (COMMIT, "not in the local Hugging Face cache and")],
)
def test_full_needs_a_commit_and_its_files(cache: Path, revision: str, message: str) -> None:
    with pytest.raises(InfraError, match=message):
        models.build(spec(size="full", revision=revision), seed=0)


def test_cached_weights_are_loaded(cache: Path) -> None:
    saved = models.build(spec(), seed=3).module
    saved.save_pretrained(cache)
    built = models.build(spec(size="full"), seed=0)
    assert f"weights: someone/model at {COMMIT}" in built.notes
    for name, tensor in saved.state_dict().items():
        assert torch.equal(built.module.state_dict()[name], tensor), name
