"""Goldens from end to end: recorded on the CPU, compared with on devices that are right and wrong,
and refused where they are missing, stale or damaged."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import PROGRAMS

MODELS = """
models = [
    { id = "timm:resnet18", task = "image-classification" },
    { id = "torchvision:squeezenet1_1", task = "image-classification" },
    { id = "transformers:LlamaForCausalLM", task = "text-generation" },
]
"""
SUBJECTS = ["LlamaForCausalLM", "resnet18", "squeezenet1_1"]


class World:
    """A model list, goldens of it, and runs with them."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder, self.python = folder, python
        self.list = folder / "mine.toml"
        self.list.write_text(MODELS)
        self.goldens = folder / "goldens"

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(PROGRAMS / "runner"), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"HF_HUB_OFFLINE": "1"},
        )

    def record(self, key: str) -> subprocess.CompletedProcess[str]:
        return self.run("record", "--device", "cpu", "--out", str(self.goldens), *self.common(key))

    def common(self, key: str) -> list[str]:
        runs = str(self.folder / "runs")
        flags = ["--runs-dir", runs, "--run-key", key, "--python", self.python]
        return [*flags, "--model-list", str(self.list)]

    def tier2(self, key: str, device: str, *more: str) -> tuple[int, dict[str, Any]]:
        """Exit code, and the last attempt of each model by its name."""
        flags = ("--tier", "2", "--device", device, "--golden", str(self.goldens), *more)
        process = self.run(*flags, *self.common(key))
        attempts = {}
        for line in (self.folder / "runs" / key / "journal.jsonl").read_text().splitlines():
            record = json.loads(line)
            if record["record"] == "attempt":
                attempts[record["case"].split(":")[1].split("#")[0]] = record
        assert sorted(attempts) == SUBJECTS, process.stdout + process.stderr
        return process.returncode, attempts

    def verify(self) -> tuple[int, dict[str, Any]]:
        process = self.run("golden", "verify", str(self.goldens), "--json")
        return process.returncode, json.loads(process.stdout)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, python: str) -> World:
    world = World(tmp_path_factory.mktemp("golden"), python)
    process = world.record("record")
    assert process.returncode == 0, process.stdout + process.stderr
    return world


def test_what_was_recorded_is_verified_and_not_recorded_again(world: World) -> None:
    code, found = world.verify()
    assert (code, found["goldens"], found["problems"]) == (0, 3, [])
    process = world.record("again")
    assert process.returncode == 0, process.stdout + process.stderr
    assert "3 of 3 cases are recorded already" in process.stderr
    assert not (world.folder / "runs" / "again").exists()


def test_the_right_device_passes_and_names_the_golden(world: World) -> None:
    code, attempts = world.tier2("right", "cpu")
    assert code == 0
    for attempt in attempts.values():
        assert attempt["outcome"] == "pass"
        (comparison,) = attempt["evidence"]["comparisons"]
        assert comparison["rule"] == "gpu-relative"
        assert comparison["reference"].startswith("golden cpu ")
        assert "reference" in attempt["evidence"]["stage_seconds"]
    run = json.loads((world.folder / "runs" / "right" / "run.json").read_text())
    assert run["labels"]["reference"] == "golden goldens"


def test_one_per_cent_off_in_one_model_is_caught(world: World) -> None:
    fault = ("--fault", "resnet18=one-percent")
    code, attempts = world.tier2("faulty", "faulty", *fault)
    assert code == 1
    outcomes = {name: attempt["outcome"] for name, attempt in attempts.items()}
    assert outcomes == dict.fromkeys(SUBJECTS, "pass") | {"resnet18": "mismatch"}
    (comparison,) = attempts["resnet18"]["evidence"]["comparisons"]
    assert any("not as good as the golden" in finding for finding in comparison["findings"])
    assert comparison["tensors"][0]["figures"]["pcc"] > 0.99999


def test_a_golden_that_is_stale_damaged_or_missing_is_infra(world: World) -> None:
    _, attempts = world.tier2("stale", "cpu", "--seed", "8")
    for attempt in attempts.values():
        assert (attempt["outcome"], attempt["error_class"]) == ("infra", "golden-stale")
        assert attempt["attempt"] == 1, "trying again would not mend it"
        assert "seed 7 and now 8" in attempt["message"]

    entries = {}
    for path in (world.goldens / "cases").iterdir():
        entry = json.loads(path.read_text())
        entries[entry["case"].split(":")[1].split("#")[0]] = (path, entry)
    sha256 = entries["resnet18"][1]["outputs"]["sha256"]
    damaged = world.goldens / "objects" / sha256[:2] / f"{sha256}.safetensors"
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    entries["squeezenet1_1"][0].unlink()
    code, attempts = world.tier2("damaged", "cpu")
    assert code == 1
    seen = {name: (a["outcome"], a.get("error_class", "")) for name, a in attempts.items()}
    assert seen == {
        "LlamaForCausalLM": ("pass", ""),
        "resnet18": ("infra", "golden-corrupt"),
        "squeezenet1_1": ("infra", "golden-missing"),
    }
    code, found = world.verify()
    assert (code, found["goldens"]) == (1, 2)
    assert ["resnet18" in problem["name"] for problem in found["problems"]] == [True]

    # Recording mends what is damaged or missing, and leaves the rest.
    process = world.record("mend")
    assert "1 of 3 cases are recorded already" in process.stderr, process.stderr
    assert world.verify()[0] == 0
    assert world.tier2("mended", "cpu")[0] == 0


def test_goldens_that_cannot_be_used_are_refused_before_anything_runs(world: World) -> None:
    for flags, word in (
        (("--tier", "1", "--golden", str(world.goldens)), "Tier 2"),
        (("--tier", "2", "--golden", "ftp://host/goldens"), "cannot be read from"),
        (("--tier", "2", "--golden", str(world.folder / "none")), "No such file"),
        (("record", "--mode", "compile", "--out", "x"), "eager mode"),
        (("record", "--tier", "1", "--out", "x"), "only Tier 2"),
    ):
        process = world.run(*flags, "--device", "cpu", *world.common("refused"))
        assert process.returncode == 2, process.stderr
        assert word in process.stderr
        assert "hint:" in process.stderr
