"""A model whose outputs are recorded, and compared with what was recorded."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from cases import read, run_case
from conformance_worker import fingerprint
from conformance_worker.messages import Golden, ModelSpec, ModelTask
from conformance_worker.models.base import Inputs
from conformance_worker.observed import Observed
from conformance_worker.words import FailureKind

MODEL = ModelTask(ModelSpec("timm", "resnet18", size="tiny", batch=2, sequence=16), compare=True)


def recorded(folder: Path) -> tuple[Observed, Golden]:
    observed, _, _ = run_case("cpu", folder, MODEL, record=True)
    assert observed.failure is None, observed.failure
    assert observed.fingerprint is not None
    (compare,) = observed.to_compare
    return observed, Golden("golden cpu 0", compare.actual, compare.wide, observed.fingerprint)


def test_recording_leaves_the_outputs_the_same_in_float64_and_a_fingerprint(tmp_path: Path) -> None:
    observed, golden = recorded(tmp_path / "record")
    (compare,) = observed.to_compare
    assert (compare.rule, compare.reference) == ("close", "cpu float64")
    assert golden.wide is not None
    structure, wide = read(golden.wide)
    _, native = read(golden.outputs)
    assert {leaf["dtype"] for leaf in structure} == {"float64"}
    for path, tensor in wide.items():
        error = (tensor - native[path].double()).abs().max()
        assert 0 < error < 1e-4, "more digits, and the same numbers"


def test_with_a_golden_nothing_is_computed_on_the_host(tmp_path: Path) -> None:
    _, golden = recorded(tmp_path / "record")
    observed, stages, _ = run_case("cpu", tmp_path / "use", MODEL, golden=golden)
    assert observed.failure is None, observed.failure
    (compare,) = observed.to_compare
    assert (compare.rule, compare.reference) == ("gpu-relative", "golden cpu 0")
    assert (compare.expected, compare.wide) == (golden.outputs, golden.wide)
    assert not (tmp_path / "use" / "0.expected.safetensors").exists()
    assert stages.count("reference") == 1


def test_a_golden_without_float64_is_compared_by_closeness_alone(tmp_path: Path) -> None:
    _, golden = recorded(tmp_path / "record")
    golden = Golden(golden.id, golden.outputs, None, golden.fingerprint)
    observed, _, _ = run_case("cpu", tmp_path / "use", MODEL, golden=golden)
    assert observed.to_compare[0].rule == "close"


def test_other_weights_or_inputs_than_the_goldens_are_no_evidence(tmp_path: Path) -> None:
    _, golden = recorded(tmp_path / "record")
    observed, stages, _ = run_case("cpu", tmp_path / "use", MODEL, golden=golden, seed=8)
    assert observed.failure is not None
    assert observed.failure.kind is FailureKind.INFRA
    assert observed.failure.error_class == "StaleGoldenError"
    assert "execute" not in stages
    assert observed.to_compare == []


@pytest.mark.parametrize("change", ["weight", "buffer", "input", "dtype", "shape"])
def test_a_fingerprint_knows_every_byte(change: str) -> None:
    torch.manual_seed(0)
    module = torch.nn.BatchNorm1d(4)
    inputs = Inputs(args=(torch.randn(3, 4),), kwargs={"extra": torch.arange(3)})
    before = fingerprint.of(module, inputs)
    assert fingerprint.of(copy.deepcopy(module), copy.deepcopy(inputs)) == before
    with torch.no_grad():
        if change == "weight":
            module.weight[0] += 1e-6
        elif change == "buffer":
            module.running_mean[3] += 1e-6
        elif change == "input":
            inputs.kwargs["extra"][1] += 1
        elif change == "dtype":
            module.to(torch.float64)
        else:
            inputs = Inputs(args=(inputs.args[0].reshape(4, 3),), kwargs=inputs.kwargs)
    assert fingerprint.of(module, inputs) != before
