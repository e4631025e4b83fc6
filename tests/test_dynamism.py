"""Each way in which a device can get bounded sizes wrong is caught, under a name of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from conftest import PROGRAMS

MODEL = """
import torch


class Sums(torch.nn.Module):
    def forward(self, x):
        return x.sum(1, keepdim=True) + x


def make():
    return Sums(), lambda batch, sequence: {"x": torch.ones(batch, sequence)}


right = leaks = pads = ignores = recompiles = eager = accepts = reads = make
"""
RULES = {
    "leaks": "padding-leak",
    "pads": "bound-extent",
    "ignores": "ignore-mark",
    "recompiles": "recompile",
    "eager": "eager",
    "accepts": "accept-outside",
    "reads": "read-behind",
}
FOUND = {
    "right": ("pass", "", ""),
    "leaks": ("mismatch", "values-differ", "sequence=16"),
    "pads": ("mismatch", "structure-differs", "sequence=16"),
    "ignores": ("mismatch", "dynamic-not-honoured", "sequence=2"),
    "recompiles": ("mismatch", "recompiled-per-size", "sequence=2"),
    "eager": ("fallback", "fallback-eager", "sequence=16"),
    "accepts": ("mismatch", "bound-not-enforced", "sequence=65"),
    "reads": ("mismatch", "MismatchError", "sequence=16"),
}
"""Outcome, error class, and the first bad size."""


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "mine.py").write_text(MODEL)
    dynamic = {"sequence": {"min": 2, "max": 64, "inputs": {"x": 1}}}
    entries = [{"id": f"python:mine:{name}", "dynamic": dynamic} for name in FOUND]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(one) + "\n" for one in entries))
    command = [str(PROGRAMS / "runner"), "--suite", "dynamism", "--model-list", "mine.jsonl"]
    return subprocess.run(
        [*command, "--runs-dir", "runs", "--run-key", "sizes", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )


def test_every_fault_of_bounded_sizes_has_its_own_name(tmp_path: Path) -> None:
    faults = [f"--fault=mine:{name}={rule}" for name, rule in RULES.items()]
    process = run(tmp_path, "--device", "faulty", "--retries", "0", *faults)
    assert process.returncode == 1, process.stdout + process.stderr
    summary = json.loads((tmp_path / "runs/sizes/summary.json").read_text())
    found = {}
    for case in summary["cases"]:
        name = case["case"].split(":mine:")[1].split("#")[0]
        why = case.get("why", {"error_class": "", "message": ""})
        found[name] = (case["result"], why["error_class"], why["message"].split(":")[0])
    assert found == FOUND


def test_the_compiler_is_chosen_and_said(tmp_path: Path) -> None:
    process = run(tmp_path, "--device", "cpu", "--backend", "eager")
    assert process.returncode == 0, process.stdout + process.stderr
    assert json.loads((tmp_path / "runs/sizes/run.json").read_text())["labels"] == {
        "backend": "eager"
    }


def test_a_tpu_has_its_own_compiler(tmp_path: Path) -> None:
    process = run(tmp_path, "--device", "tpu-sim", "--backend", "inductor")
    assert process.returncode == 2
    assert "`--backend inductor` is not for `tpu-sim`: a TPU has its own" in process.stderr
