"""The documents name only what exists: flags, commands, files."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from conftest import PROGRAMS, ROOT

DOCUMENTS = sorted(
    [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "model-lists/README.md"]
)
CODE = re.compile(r"```(?:sh|console)\n(.*?)```|`([^`\n]+)`", re.DOTALL)


def help_text(*command: str) -> str:
    process = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    text = process.stdout
    for name in re.findall(r"^  ([a-z][a-z-]+) ", text.split("Options:")[0], re.MULTILINE):
        if name != "help":
            text += help_text(*command, name)
    return text


@pytest.fixture(scope="module")
def known_flags() -> set[str]:
    text = help_text(str(PROGRAMS / "runner")) + help_text(str(PROGRAMS / "server"))
    return set(re.findall(r"--[a-z][a-z-]+", text))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_flag_exists(document: Path, known_flags: set[str]) -> None:
    for block, inline in CODE.findall(document.read_text()):
        for line in (block or inline).splitlines():
            if re.search(r"\b(docker|cargo|git|chromium)\b", line):
                continue
            for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", line):
                assert flag in known_flags, f"{document.name}: `{flag}` in `{line.strip()}`"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text()):
        if not re.match(r"https?://", target):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_architecture_names_rooms_that_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    for room in re.findall(
        r"`((?:protocol|runner|server|templates|migrations|gates|model-lists|docs)/[^`*…]*)`", text
    ):
        assert (ROOT / room).exists(), room
