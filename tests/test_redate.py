"""`scripts/redate.py`: every night has a run, what was observed stays, and each run says so."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from datetime import datetime, timedelta
from typing import Any

from conftest import ROOT


def redate(nights: str, messages: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "scripts" / "redate.py", nights],
        input="".join(json.dumps(message) + "\n" for message in messages),
        capture_output=True,
        text=True,
        check=False,
    )


def exported(key: str, outcome: str) -> list[dict[str, Any]]:
    start = datetime.fromisoformat("2026-11-01T00:00:00+00:00")
    run = {"run_key": key, "started_at": start.isoformat(), "labels": {"kind": "night"}}
    attempt = {"outcome": outcome, "started_at": (start + timedelta(seconds=7)).isoformat()}
    return [{"run": run}, {"results": [attempt]}]


def test_each_night_is_a_run_that_was_observed_and_says_when_it_really_was() -> None:
    told = redate("20", exported("good", "pass") + exported("bad", "crash"))
    assert told.returncode == 0, told.stderr
    messages = [json.loads(line) for line in told.stdout.splitlines()]
    runs = [message["run"] for message in messages if "run" in message]
    days = [datetime.fromisoformat(run["started_at"]) for run in runs]
    assert {later - day for day, later in itertools.pairwise(days)} == {timedelta(days=1)}
    assert len({run["run_key"] for run in runs}) == 20
    outcome = {"good": "pass", "bad": "crash"}
    for run, results in zip(runs, messages[1::2], strict=True):
        attempt = results["results"][0]
        assert attempt["outcome"] == outcome[run["labels"]["redated_from"]]
        began = datetime.fromisoformat(run["started_at"])
        assert datetime.fromisoformat(attempt["started_at"]) - began == timedelta(seconds=7)
    assert {run["labels"]["redated_from"] for run in runs} == {"good", "bad"}


def test_wrong_use_is_told() -> None:
    for nights, messages, problem in [
        ("0", exported("good", "pass"), "a number of nights"),
        ("many", exported("good", "pass"), "a number of nights"),
        ("3", [], "no run on standard input"),
    ]:
        told = redate(nights, messages)
        assert told.returncode == 1
        assert problem in told.stderr and "hint:" in told.stderr
