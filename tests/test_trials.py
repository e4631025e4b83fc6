"""Symptoms reported of tools like this one, by their numbers, through the real runner, worker and
comparator: broken devices on operators of PyTorch's own database."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import Runner

Attempts = dict[str, list[dict[str, Any]]]


def run(runner: Runner, name: str, folder: Path, selection: list[str], *options: str) -> Attempts:
    """The attempts by operator entry."""
    file = folder / "selection.txt"
    file.write_text("\n".join(selection))
    command = runner.command(
        name, "--suite", "operators", "--selection", str(file), "--retries", "0", *options
    )
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    attempts: Attempts = {entry: [] for entry in selection}
    for line in (runner.runs / name / "journal.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["record"] == "attempt":
            attempts[record["case"].split(":", 1)[1].split("#")[0]].append(record)
    assert all(attempts.values()), "an entry has no case"
    return attempts


@pytest.mark.parametrize("fault", ["", "identity", "zeros", "half-scale"])
def test_dropout_is_compared_as_a_distribution(runner: Runner, tmp_path: Path, fault: str) -> None:
    """N19: a device that does not drop, drops all, or does not make up for it, on each sample."""
    faults = [f"--fault=nn.functional.dropout={fault}"] if fault else []
    attempts = run(
        runner,
        f"e2e-dropout-{fault or 'honest'}",
        tmp_path,
        ["nn.functional.dropout"],
        *("--device", "faulty", "--samples", "100", *faults),
    )["nn.functional.dropout"]
    rules: set[str] = set()
    for attempt in attempts:
        (comparison,) = attempt["evidence"]["comparisons"]
        rules.add(comparison["rule"])
        assert attempt["evidence"]["seed"] == 7
        # In evaluation the input is the right answer, and so is nothing where all is dropped.
        is_random = comparison["rule"] == "statistical"
        right = not fault or (not is_random and fault == "identity")
        assert right is (attempt["outcome"] == "pass") or comparison["rule"] == "close", attempt
    assert {"statistical", "exact"} <= rules


def test_half_precision_sums_have_room_for_their_addends_and_no_more(
    runner: Runner, tmp_path: Path
) -> None:
    """N18: with the number of addends and the spread in the evidence; 5 % off is wrong."""
    entries = ["index_add", "scatter_add", "index_put"]
    options = ["--device", "faulty", "--dtype", "float16", "--samples", "20"]
    honest = run(runner, "e2e-addends", tmp_path, entries, *options)
    broken = run(
        runner,
        "e2e-addends-off",
        tmp_path,
        entries,
        *(*options, *(f"--fault={entry}=five-percent" for entry in entries)),
    )
    grown = 0
    for entry in entries:
        for right, wrong in zip(honest[entry], broken[entry], strict=True):
            (comparison,) = right["evidence"]["comparisons"]
            assert right["outcome"] == "pass", right["message"]
            if comparison.get("addends") is None:
                continue
            grown += 1
            assert comparison["spread"] == {"repeats": 10, "max_abs": 0}
            assert comparison["tensors"][0]["tolerance"]["rtol"] > 2e-3
            assert wrong["outcome"] == "mismatch", wrong
    assert grown >= 3


def test_singular_vectors_of_a_right_device_hold(runner: Runner, tmp_path: Path) -> None:
    """N17: what is compared is what makes factors right, and says so."""
    entries = ["linalg.svd", "svd", "linalg.eigh", "linalg.qr"]
    options = ["--device", "faulty", "--samples", "8"]
    honest = run(runner, "e2e-factors", tmp_path, entries, *options)
    broken = run(
        runner,
        "e2e-factors-off",
        tmp_path,
        entries,
        *(*options, *(f"--fault={entry}=one-percent" for entry in entries)),
    )
    for entry in entries:
        for right, wrong in zip(honest[entry], broken[entry], strict=True):
            assert right["outcome"] == "pass", right["message"]
            tensors = right["evidence"]["comparisons"][0]["tensors"]
            assert any(tensor["path"] == "output.product" for tensor in tensors) or entry == (
                "linalg.qr"
            )
            sizes = [size for tensor in tensors for size in tensor["shape"]]
            assert wrong["outcome"] == "mismatch" or 0 in sizes, wrong["case"]
