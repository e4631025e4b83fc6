"""Symptoms reported of tools like this one, by their numbers, through the real runner, worker and
comparator: broken devices on operators of PyTorch's own database."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import Runner, Service, make_runner

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


DROPOUT = "nn.functional.dropout"
SUMS = ("index_add", "scatter_add", "index_put")
FACTORS = ("linalg.svd", "linalg.eigh", "linalg.qr")
OPTIONS = ("--device", "faulty", "--samples", "8", "--dtype", "float16,float32")


@pytest.fixture(scope="module")
def honest(service: Service, python: str, tmp_path_factory: pytest.TempPathFactory) -> Attempts:
    folder = tmp_path_factory.mktemp("honest")
    runner = make_runner(service, python, folder)
    return run(runner, "e2e-trials", folder, [DROPOUT, *SUMS, *FACTORS], *OPTIONS)


def test_a_right_device_passes(honest: Attempts) -> None:
    """N17, N18, N19: signs, orders of adding and random numbers are a device's own."""
    wrong = [a for attempts in honest.values() for a in attempts if a["outcome"] != "pass"]
    assert wrong == []
    for entry in FACTORS:
        paths = {t["path"] for a in honest[entry] for t in only(a)["tensors"]}
        assert "output.product" in paths
    rules = {only(attempt)["rule"] for attempt in honest[DROPOUT]}
    assert {"statistical", "exact"} <= rules, "in evaluation nothing is dropped"
    assert {attempt["evidence"]["seed"] for attempt in honest[DROPOUT]} == {7}


def test_the_addends_and_the_spread_of_a_sum_are_evidence(honest: Attempts) -> None:
    """N18: in half precision, where the tolerance grows with them and is stored as it was used."""
    comparisons = [only(attempt) for entry in SUMS for attempt in honest[entry]]
    grown = [comparison for comparison in comparisons if "addends" in comparison]
    assert grown, "no sample of the database adds up in one place"
    for comparison in grown:
        assert comparison["spread"] == {"repeats": 10, "max_abs": 0}
        assert comparison["tensors"][0]["dtype"] == "float16"
        assert comparison["tensors"][0]["tolerance"]["rtol"] > 2e-3


@pytest.mark.parametrize("fault", ["identity", "zeros", "half-scale"])
def test_a_wrong_device_is_found(runner: Runner, tmp_path: Path, fault: str) -> None:
    """N19: a dropout that drops nothing, drops all, or does not make up for it. N18: sums that are
    5 % off. N17: factors that are 1 % off. In every sample that has an element to tell by."""
    broken = {DROPOUT: fault}
    if fault == "identity":
        broken |= dict.fromkeys(SUMS, "five-percent") | dict.fromkeys(FACTORS, "one-percent")
    faults = [f"--fault={entry}={rule}" for entry, rule in broken.items()]
    attempts = run(runner, f"e2e-trials-{fault}", tmp_path, list(broken), *OPTIONS, *faults)
    told = 0
    for attempt in (one for of_entry in attempts.values() for one in of_entry):
        comparison = only(attempt)
        is_random = comparison["rule"] == "statistical"
        elements = sum(tensor["figures"]["elements"] for tensor in comparison["tensors"])
        if elements and (is_random or DROPOUT not in attempt["case"]):
            told += 1
            assert attempt["outcome"] == "mismatch", attempt
    assert told >= 3 * len(broken)


def only(attempt: dict[str, Any]) -> dict[str, Any]:
    """Its comparison."""
    (comparison,) = attempt["evidence"]["comparisons"]
    return dict(comparison)
