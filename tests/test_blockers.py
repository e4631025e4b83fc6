"""What stands in a model's way behind the first operator that a device refuses."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from conftest import PROGRAMS

MODELS = """
import torch


class One(torch.nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x)


class Three(torch.nn.Module):
    \"\"\"Missing, ending the process, missing: in this order.\"\"\"

    def forward(self, x):
        rows = torch.arange(4, device=x.device)
        table = torch.zeros(4, 4, device=x.device)
        x = torch.special.bessel_j0(x)
        table = table.index_reduce(0, rows, x.expand(4, 4), "mean")
        return torch.special.bessel_y0(table + 1)


def one():
    return One(), {"x": torch.linspace(0.1, 0.4, 4)}


def three():
    return Three(), {"x": torch.linspace(0.1, 0.4, 4)}


def none():
    return torch.nn.ReLU(), {"input": torch.linspace(0.1, 0.4, 4)}
"""
SOURCE = 'snapshot = "2026-10", source = "a"'
LIST = f"""
models = [
    {{ id = "python:mine:one", popularity = {{ rank = 2, count = 1, {SOURCE} }} }},
    {{ id = "python:mine:three", popularity = {{ rank = 1, count = 90, {SOURCE} }} }},
    {{ id = "python:mine:none" }},
]
"""


def test_every_operator_in_the_way_is_known_after_one_run(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODELS)
    (tmp_path / "mine.toml").write_text(LIST)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}

    def runner(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(PROGRAMS / "runner"), *arguments, "--runs-dir", "runs"]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
        )

    run = runner("--tier", "1", "--model-list", "mine.toml", "--device", "tpu-sim")
    assert run.returncode == 1, run.stdout + run.stderr
    summary = json.loads(next((tmp_path / "runs").glob("*/summary.json")).read_text())
    results = [case["result"] for case in summary["cases"]]
    assert results == ["unsupported", "unsupported", "pass"], run.stdout

    ranking = json.loads(runner("blockers", "--json").stdout)
    assert (ranking["models"], ranking["hindered"], ranking["not_known"]) == (3, 2, [])
    assert [step["operators"] for step in ranking["steps"]] == [
        ["aten::special_bessel_j0"],
        ["aten::index_reduce", "aten::special_bessel_y0"],
    ]
    popular = json.loads(runner("blockers", "--json", "--weight", "popularity").stdout)
    first = popular["steps"][0]
    assert len(first["operators"]) == 3 and first["weight"] == 91

    text = runner("blockers").stdout
    assert "3 model cases, 2 ended by an operator of the backend" in text
    assert "+1            2  aten::index_reduce + aten::special_bessel_y0" in text

    nothing = runner("blockers", "nosuch")
    assert nothing.returncode == 2 and "nosuch" in nothing.stderr
