"""Tiny models of types that need values of their own, and images of a few patches."""

from __future__ import annotations

from typing import Any

import pytest
import transformers

from conformance_worker import models
from conformance_worker.messages import ModelSpec
from conformance_worker.models import special_values


def tiny(name: str, overrides: dict[str, Any] | None = None) -> Any:
    spec = ModelSpec(
        source="transformers",
        id=name,
        size="tiny",
        batch=2,
        sequence=16,
        overrides=overrides or {},
    )
    return models.build(spec, seed=0)


@pytest.mark.parametrize(
    "name",
    [
        "AutoformerModel",
        "CohereCompassForCausalLM",
        "DbrxForCausalLM",
        "Dots1ForCausalLM",
        "Gemma3nForCausalLM",
        "GraniteMoeHybridForCausalLM",
        "Lfm2MoeForCausalLM",
        "ReformerModelWithLMHead",
        "XmodForCausalLM",
        "ZambaForCausalLM",
        "Zamba2ForCausalLM",
    ],
)
def test_a_type_with_values_of_its_own_is_built_and_called(name: str) -> None:
    model_type = getattr(transformers, name).config_class.model_type
    assert model_type in special_values.BY_TYPE or name in special_values.BY_CLASS
    parameters = sum(p.numel() for p in tiny(name).module.parameters())
    assert parameters < 3_000_000


def test_overrides_win_over_values_of_a_type() -> None:
    built = tiny("XmodForCausalLM", {"default_language": "de_DE", "languages": ["de_DE"]})
    assert built.module.config.default_language == "de_DE"


def test_images_have_a_few_patches() -> None:
    inputs = tiny("ViTForImageClassification").make_inputs(2, 16)
    assert inputs.kwargs["pixel_values"].shape == (2, 3, 64, 64)


def test_a_model_of_any_image_size_gets_a_small_image() -> None:
    inputs = tiny("ResNetForImageClassification").make_inputs(2, 16)
    assert inputs.kwargs["pixel_values"].shape == (2, 3, 64, 64)


@pytest.mark.parametrize("heads", [4, 14])
def test_rotary_sections_fit_the_head_size(heads: int) -> None:
    overrides = {"text_config": {"hidden_size": heads * 32, "num_attention_heads": heads}}
    overrides["text_config"]["num_key_value_heads"] = 2
    built = tiny("Qwen2VLForConditionalGeneration", overrides)
    assert sum(built.module.config.text_config.rope_parameters["mrope_section"]) == 16


def test_a_model_of_two_modalities_gets_both() -> None:
    built = tiny("Aimv2Model")
    assert {"input_ids", "pixel_values"} <= set(built.make_inputs(2, 16).kwargs)
    assert "recipe: shrink 0 with every modality" in built.notes


def test_a_tower_with_a_grid_gets_flat_patches() -> None:
    kwargs = tiny("Cosmos3EdgeVisionModel").make_inputs(2, 16).kwargs
    assert kwargs["grid_thw"].tolist() == [[1, 4, 4]] * 2
    assert kwargs["pixel_values"].shape[0] == 2 * 4 * 4
