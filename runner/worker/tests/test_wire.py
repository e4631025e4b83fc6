"""Every recorded message of the `protocol` crate, read and written as it stands there."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from conformance_worker import codec, messages, words
from conformance_worker.observed import Observed

PROTOCOL = Path(__file__).parents[3] / "protocol"
WIRE = PROTOCOL / "tests" / "wire"
UNIONS = {
    "to_fork_server": messages.ToForkServer,
    "from_fork_server": messages.FromForkServer,
    "to_worker": messages.ToWorker,
    "from_worker": messages.FromWorker,
}
FILES = sorted(path for union in UNIONS for path in WIRE.glob(f"{union}.*.json"))


def union_of(path: Path) -> Any:
    return UNIONS[path.name.split(".")[0]]


def test_there_are_recorded_files_for_every_direction() -> None:
    assert {path.name.split(".")[0] for path in FILES} == set(UNIONS)
    assert len(FILES) >= 20


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_recorded_message_is_written_as_it_is_read(path: Path) -> None:
    body = path.read_bytes()
    message = codec.decode(union_of(path), body)
    assert json.loads(codec.encode(message)) == json.loads(body)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_unknown_field_is_refused_by_name(path: Path) -> None:
    value = json.loads(path.read_text()) | {"surprise": 1}
    with pytest.raises(codec.MessageError, match="surprise"):
        codec.decode(union_of(path), json.dumps(value).encode())


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('{"type": "nosuch"}', "message.type must be one of probe"),
        ('{"type": "probe"', "not JSON"),
        ("[]", "must be an object"),
        ('{"type": "list_operators", "entries": [], "dtypes": [], "samples": 1}', "gradients"),
        (
            '{"type": "list_operators", "entries": [], "dtypes": ["f32"], "samples": 1, '
            '"gradients": true}',
            r"dtypes\[0\] must be one of float64",
        ),
        (
            '{"type": "list_operators", "entries": [], "dtypes": [], "samples": true, '
            '"gradients": true}',
            "samples must be an integer",
        ),
    ],
)
def test_a_bad_message_names_the_field(body: str, problem: str) -> None:
    with pytest.raises(codec.MessageError, match=problem):
        codec.decode(messages.ToWorker, body.encode())


def test_a_bare_nan_is_refused_both_ways() -> None:
    observed = Observed(case="c", stage_seconds={"execute": float("nan")})
    with pytest.raises(ValueError, match="JSON"):
        codec.encode(observed)
    body = codec.encode(Observed(case="c", stage_seconds={"execute": 1.5})).replace(b"1.5", b"NaN")
    with pytest.raises(codec.MessageError, match="NaN"):
        codec.decode(messages.FromWorker, body)


@pytest.mark.parametrize(
    ("enum", "file", "name"),
    [
        (words.Stage, "outcome.rs", "Stage"),
        (words.SkipReason, "outcome.rs", "SkipReason"),
        (words.Mode, "case.rs", "Mode"),
        (words.Dtype, "case.rs", "Dtype"),
        (words.FailureKind, "worker_link/observed.rs", "FailureKind"),
        (words.DynamicForm, "../../runner/src/dynamic_form.rs", "DynamicForm"),
    ],
)
def test_the_words_are_those_of_the_protocol(enum: type[StrEnum], file: str, name: str) -> None:
    source = (PROTOCOL / "src" / file).read_text()
    found = re.search(rf"\b{name} as \"[^\"]+\" \{{(.*?)\n    \}}", source, re.DOTALL)
    assert found is not None
    assert re.findall(r"\w+ = \"([^\"]+)\"", found[1]) == [word.value for word in enum]


def test_the_link_version_is_that_of_the_protocol() -> None:
    source = (PROTOCOL / "src" / "worker_link.rs").read_text()
    assert f"LINK_VERSION: u32 = {messages.LINK_VERSION};" in source
