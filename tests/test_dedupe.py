"""Models of one graph: one is executed, each has its own result, and a list's claim is checked."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

from conftest import PROGRAMS, ROOT


def entries_of_one_graph() -> list[dict[str, Any]]:
    """Hub models of the list whose graph is small and shared by three of them."""
    graphs = defaultdict(list)
    for entry in tomllib.loads((ROOT / "model-lists/dynamism.toml").read_text())["models"]:
        if entry["class"] == "GPT2LMHeadModel" and "signature" in entry:
            graphs[entry["signature"]].append({k: v for k, v in entry.items() if k != "dynamic"})
    return next(entries[:3] for entries in graphs.values() if len(entries) >= 3)


def results(tmp_path: Path, entries: list[dict[str, Any]], *more: str) -> dict[str, Any]:
    """Executed as, by name of the model; every one must have passed."""
    models = tmp_path / "mine.jsonl"
    models.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    runs = tmp_path / "runs"
    command = (PROGRAMS / "runner", "--tier", "1", "--device", "cpu", "--model-list", models)
    process = subprocess.run(
        [*map(str, command), "--runs-dir", str(runs), "--run-key", "dedupe", *more],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )
    assert process.returncode == 0, process.stdout + process.stderr
    summary = json.loads((runs / "dedupe" / "summary.json").read_text())
    assert [case["result"] for case in summary["cases"]] == ["pass"] * len(entries)
    return {
        case["case"].split(":", 1)[1].split("@")[0]: case.get("executed_as", "")
        for case in summary["cases"]
    }


def test_one_of_several_models_of_a_graph_is_executed_and_each_has_a_result(tmp_path: Path) -> None:
    entries = entries_of_one_graph()
    first, *others = (entry["id"].removeprefix("hub:") for entry in entries)
    executed_as = results(tmp_path, entries)
    assert executed_as[first] == ""
    assert all(f"tier1/hub:{first}@" in executed_as[other] for other in others)


def test_every_model_is_executed_when_asked(tmp_path: Path) -> None:
    assert set(results(tmp_path, entries_of_one_graph(), "--no-dedupe").values()) == {""}


def test_a_graph_that_is_not_what_the_list_says_is_shared_with_nobody(tmp_path: Path) -> None:
    entries = [entry | {"signature": "0" * 16} for entry in entries_of_one_graph()]
    assert set(results(tmp_path, entries).values()) == {""}
