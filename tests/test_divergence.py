"""Where a mismatch of a model begins: the module, the operator, and a script of that operator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from conftest import PROGRAMS

MODELS = """
import torch


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(16, 16)
        self.second = torch.nn.Linear(16, 16, bias=False)

    def forward(self, x):
        return torch.exp(self.second(torch.relu(self.first(x))))


def wrong_value():
    return Two(), {"x": torch.randn(8, 16)}


wrong_dtype = infinite = overflowing = right = wrong_value


def overflowing():
    model = Two()
    with torch.no_grad():
        model.second.weight.mul_(10_000)
    return model, {"x": torch.randn(8, 16)}
"""
FAULTS = {
    "mine:wrong_value": "one-percent@aten::mm",
    "mine:wrong_dtype": "wrong-dtype@aten::exp",
    "mine:overflowing": "saturating-inf@aten::exp",
}
EXPECTED = {
    "mine:wrong_value": ("second", "Linear", "aten::mm", "values differ"),
    "mine:wrong_dtype": ("", "Two", "aten::exp", "dtype float16, not float32"),
    "mine:overflowing": ("", "Two", "aten::exp", "finite on one side only"),
}


def test_the_first_module_and_operator_of_a_mismatch_are_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODELS)
    names = [*FAULTS, "mine:right"]
    models = ", ".join(f'{{ id = "python:{name}" }}' for name in names)
    (tmp_path / "mine.toml").write_text(f"models = [{models}]\n")
    faults = [f"--fault={subject}={rule}" for subject, rule in FAULTS.items()]
    process = subprocess.run(
        [
            *(str(PROGRAMS / "runner"), "--tier", "2", "--model-list", "mine.toml"),
            *("--device", "faulty", "--retries", "1", *faults),
            *("--runs-dir", "runs", "--run-key", "e2e-divergence"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert process.returncode == 1, process.stdout + process.stderr
    run = tmp_path / "runs" / "e2e-divergence"
    attempts: dict[str, list[dict[str, object]]] = {}
    for line in (run / "journal.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["record"] == "attempt":
            subject = record["case"].split("#")[0].partition("python:")[2]
            attempts.setdefault(subject, []).append(record)
    assert [a["outcome"] for a in attempts.pop("mine:right")] == ["pass"]
    assert set(attempts) == set(EXPECTED)

    for subject, (module, kind, overload, finding) in EXPECTED.items():
        for attempt in attempts[subject]:
            assert attempt["outcome"] == "mismatch", attempt
            evidence = attempt["evidence"]
            found = evidence["first_divergence"]  # type: ignore[index]
            assert (found["module"], found["kind"]) == (module, kind), found
            assert found["operator"]["overload"] == overload
            assert finding in found["operator"]["finding"]
    begins = "first goes wrong in `aten::mm` in `second` (Linear): "
    assert begins in process.stdout
    page = (run / "report.html").read_text()
    assert "First goes wrong in" in page and "repros/divergence-" in page
    assert "aten::mm" in (run / "summary.json").read_text()

    operator = attempts["mine:wrong_value"][0]["evidence"]["first_divergence"]["operator"]  # type: ignore[index]
    script = run / "repros" / operator["repro_file"]
    assert script.with_suffix(".safetensors").exists(), "its tensors lie beside it"
    # The fault is one of the device `faulty`, which is the CPU: alone, the operator is right.
    alone = subprocess.run([sys.executable, str(script)], check=False)
    assert alone.returncode == 0

    def explain(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(PROGRAMS / "runner"), "explain", "e2e-divergence", *arguments]
        command += ["--runs-dir", str(run.parent)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    told = explain("mine:wrong_value")
    assert told.returncode == 0, told.stderr
    for words in ("rule `close` does not hold", "errors of output:", "worst of output:", " ULP"):
        assert words in told.stdout
    assert "first goes wrong in `aten::mm`" in told.stdout
    value = json.loads(explain("mine:wrong_value", "--json", "--worst", "3").stdout)
    (detail,) = value["details"]
    figures = value["comparisons"][0]["tensors"][0]["figures"]
    assert detail["mismatched"] == figures["mismatched"]
    assert len(detail["worst"]) == 3
    assert detail["worst"][0]["index"] == figures["worst_index"]
    assert sum(detail["decades"].values()) + detail["equal"] == figures["elements"] == 8 * 16
    assert detail["needed_atol"] > value["comparisons"][0]["tensors"][0]["tolerance"]["atol"]
    assert "no tolerance helps" in explain("mine:overflowing").stdout
    assert "no tolerance helps" in explain("mine:wrong_dtype").stdout
    assert "nothing: it passes" in explain("mine:right").stdout
    nothing = explain("nosuch")
    assert nothing.returncode == 2
    assert "has no result for a case like `nosuch`" in nothing.stderr
