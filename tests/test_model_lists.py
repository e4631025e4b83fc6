"""The lists that come with the program: what the facts give, of the published size, and honest."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "model-lists"
LISTS = ("smoke", "tier1", "tier2", "dynamism")
PUBLISHED = {"tier1": 4_917, "tier2": 657, "dynamism": 839}
"""Entries of the published figures; ours that are executed must not be fewer."""


def entries(name: str) -> list[dict[str, Any]]:
    text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    models: list[dict[str, Any]] = tomllib.loads(text)["models"]
    return models


def generate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", str(folder / "generate"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_lists_are_what_the_facts_give() -> None:
    checked = generate(FOLDER, "--check")
    assert checked.returncode == 0, checked.stderr


def test_writing_anew_gives_the_same_bytes_and_a_changed_fact_is_noticed(tmp_path: Path) -> None:
    copy = tmp_path / "model-lists"
    shutil.copytree(FOLDER, copy)
    for name in LISTS:
        (copy / f"{name}.toml").write_text("", encoding="utf-8")
    assert generate(copy).returncode == 0
    for name in LISTS:
        file = f"{name}.toml"
        assert (copy / file).read_bytes() == (FOLDER / file).read_bytes(), file
    facts = copy / "facts" / "hub_models.tsv"
    text = facts.read_text(encoding="utf-8")
    facts.write_text(text.replace("\tgpt2\trecorded\t15559744\t", "\tgpt2\trecorded\t15559745\t"))
    checked = generate(copy, "--check")
    assert checked.returncode == 1
    assert "tier1.toml" in checked.stderr


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_list_has_the_published_size_without_what_is_skipped(name: str) -> None:
    executed = [entry for entry in entries(name) if "skip" not in entry]
    assert len(executed) >= PUBLISHED[name]


def test_dynamism_is_made_of_causal_language_models_with_bounds() -> None:
    for entry in entries("dynamism"):
        bounds = entry["dynamic"]["sequence"]
        assert (bounds["min"], bounds["max"]) == (2, 64), entry["id"]
        assert "causal-lm" in entry["tags"], entry["id"]


@pytest.mark.parametrize("name", LISTS)
def test_no_entry_is_a_quantised_repackaging_or_a_tag_of_one_graph(name: str) -> None:
    quantised = re.compile(r"gguf|gptq|awq|mlx|bnb|exl2|[48]-?bit|quantized", re.IGNORECASE)
    for entry in entries(name):
        assert not quantised.search(entry["id"]), entry["id"]
        assert not re.match(r"timm:.*\.", entry["id"]), entry["id"]


def test_an_entry_is_the_same_in_every_list_that_has_it() -> None:
    seen: dict[str, str] = {}
    for name in LISTS:
        ids = set()
        for entry in entries(name):
            text = json.dumps(entry, sort_keys=True)
            assert seen.setdefault(entry["id"], text) == text, entry["id"]
            ids.add(entry["id"])
        assert len(ids) == len(entries(name))


def test_a_hub_model_is_pinned_or_says_of_when_its_facts_are() -> None:
    for entry in entries("tier1"):
        if entry["id"].startswith("hub:"):
            assert re.fullmatch(r"[0-9a-f]{40}|facts-\d{4}-\d{2}(-\d{2})?", entry["revision"])
            assert "class" in entry or entry["skip"]["reason"] == "dependency-missing"
