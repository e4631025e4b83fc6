"""Where a model goes wrong on a device that breaks one operator: the module and the operator."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cases import run_case
from conformance_worker import nearness
from conformance_worker.devices import faulty
from conformance_worker.messages import ModelSpec, ModelTask, Tolerance
from conformance_worker.observed import Observed
from conformance_worker.tensors import Leaf

TASK = ModelTask(ModelSpec("python", "own_models:stack", "tiny", 1, 1), compare=True)
TOLERANCE = Tolerance(1e-4, 1e-5)


def search(
    folder: Path,
    rule: str | None,
    patch: pytest.MonkeyPatch,
    task: ModelTask = TASK,
    **changes: object,
) -> Observed:
    patch.setenv(faulty.VARIABLE, json.dumps({task.model.id: rule} if rule else {}))
    request = {"find_divergence": TOLERANCE, "breadcrumb": str(folder / "crumb"), **changes}
    observed, _, _ = run_case("faulty", folder, task, **request)
    assert observed.failure is None
    return observed


@pytest.mark.parametrize(
    ("rule", "module", "finding"),
    [
        ("one-percent@aten::mm", ("blocks.0.up", "Linear"), "values differ"),
        ("one-percent@aten::gelu", ("blocks.0", "Block"), "values differ"),
        ("one-percent@aten::addmm", ("blocks.0.down", "Linear"), "values differ"),
        ("padding-leak@aten::_softmax", ("blocks.0", "Block"), "values differ"),
        ("wrong-dtype@aten::exp", ("", "Stack"), "dtype float16, not float32"),
        ("saturating-inf@aten::exp", ("", "Stack"), "are finite on one side only"),
    ],
)
def test_the_module_and_the_operator_are_named(
    rule: str,
    module: tuple[str, str],
    finding: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = search(tmp_path, rule, monkeypatch).first_divergence
    assert found is not None
    assert (found.module, found.kind, found.call) == (*module, 1)
    operator = found.operator
    assert operator is not None
    assert (operator.overload, operator.call) == (rule.partition("@")[2], 1)
    assert finding in operator.finding
    assert any(given.startswith("float32[16, ") for given in operator.inputs)
    if finding == "values differ":
        assert operator.max_abs_error is not None
        assert operator.max_abs_error > 1e-5


def test_nothing_is_named_where_nothing_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed = search(tmp_path, None, monkeypatch)
    assert observed.first_divergence is None
    (note,) = [note for note in observed.notes if "goes wrong" in note]
    assert "all 8 modules agree" in note
    assert not list(tmp_path.glob("divergence-*"))


def test_what_a_model_writes_over_is_compared_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is ahead of the device, and by then has written over what a module gave."""
    task = ModelTask(ModelSpec("python", "own_models:overwriting", "tiny", 1, 1), compare=True)
    observed = search(tmp_path, None, monkeypatch, task)
    assert observed.first_divergence is None
    assert any("all 21 modules agree" in note for note in observed.notes), observed.notes


def test_an_error_behind_the_model_is_not_put_on_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `wrong-value` breaks is what comes out, after every module."""
    observed = search(tmp_path, "wrong-value", monkeypatch)
    assert observed.first_divergence is None
    assert any("all 8 modules agree" in note for note in observed.notes)


def test_the_script_stands_alone_with_the_saved_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = search(tmp_path, "one-percent@aten::mm", monkeypatch).first_divergence
    assert found is not None
    assert found.operator is not None
    script = tmp_path / found.operator.repro_file
    assert script.read_text() == found.operator.repro
    assert "conformance" not in found.operator.repro
    assert len(found.operator.repro.splitlines()) <= 16
    saved = script.with_suffix(".safetensors")
    assert saved.stat().st_size > 16 * 8 * 4, "the inputs lie beside the script"
    plain = [sys.executable, str(script)]
    ended = subprocess.run(plain, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    broken = found.operator.repro.replace(
        "(*args_there, **kwargs_there)", "(*args_there, **kwargs_there) * 1.01"
    )
    script.write_text(broken)
    ended = subprocess.run(plain, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "Tensor-likes are not close" in ended.stderr


def test_a_compiled_case_says_that_its_operators_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from conformance_worker.words import Mode

    observed = search(tmp_path, None, monkeypatch, mode=Mode.COMPILE)
    assert any("comes of compiling" in note for note in observed.notes)


@pytest.mark.parametrize(
    ("actual", "expected", "finding"),
    [
        (torch.zeros(2), torch.zeros(3), "shape [2], not [3]"),
        (torch.zeros(2), torch.zeros(2).half(), "dtype float32, not float16"),
        (torch.tensor([math.nan]), torch.tensor([1.0]), "1 of 1 are finite on one side only"),
        (torch.tensor([math.inf]), torch.tensor([-math.inf]), "or of another sign"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "1 of 2 values differ"),
        (
            torch.tensor([1.0, 1.01]),
            torch.tensor([1.0, 1.0]),
            "1 of 2 values differ, by up to 0.01",
        ),
        (torch.tensor([1 + 1j]), torch.tensor([1 + 2j]), "1 of 2 values differ, by up to 1"),
    ],
)
def test_differences_are_seen(actual: torch.Tensor, expected: torch.Tensor, finding: str) -> None:
    found = nearness.of_leaves([Leaf("x", actual)], [Leaf("x", expected)], TOLERANCE)
    assert found.difference is not None
    assert finding in found.difference.finding
    assert found.over > 1


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0]),
        torch.zeros(0),
        torch.tensor(1.0),
        torch.tensor([True]),
        torch.tensor([0.5]).to(torch.float8_e4m3fn),
        torch.tensor([1e300], dtype=torch.float64),
    ],
)
def test_equal_tensors_agree(value: torch.Tensor) -> None:
    assert nearness.of_tensors(value, value.clone(), TOLERANCE) == nearness.Nearness(0.0)
    exact = nearness.of_tensors(value, value.clone(), Tolerance(0.0, 0.0))
    assert exact == nearness.Nearness(0.0)
