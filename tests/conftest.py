"""What the end-to-end tests run: a server on a private PostgreSQL, and runners.

Nothing here is a stand-in: the programs are the built ones, the database is a real PostgreSQL, and
the workers execute the installed torch and backend.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from browser import ARGUMENTS, find_chromium

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = Path(os.environ.get("CONFORMANCE_TEST_BIN", ROOT / "target" / "debug"))
PYTHON = os.environ.get("CONFORMANCE_TEST_PYTHON", "")


BROKEN_GATE = """
title = "The device that is broken on purpose"
[[rule]]
name = "operators"
suite = "operators"
device = "faulty"
planned_min = 1
completeness_min = 1.0
pass_rate_min = 0.5
new_fail_max = 0
stale_hours = 26
"""
"""Beside the project's own gates, so that there is one with cases that block it."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Service:
    """A server that can be killed and started again on the same data and address."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        gates = self.folder / "gates"
        shutil.copytree(ROOT / "gates", gates, dirs_exist_ok=True)
        (gates / "broken.toml").write_text(BROKEN_GATE)
        log = open(self.folder / "server.log", "ab")  # noqa: SIM115, lives as long as the process
        self.process = subprocess.Popen(
            [
                PROGRAMS / "server",
                "serve",
                "--listen",
                f"127.0.0.1:{self.port}",
                "--data-dir",
                self.folder / "data",
                "--gates",
                gates,
                "--model-lists",
                ROOT / "model-lists",
            ],
            stdout=log,
            stderr=log,
        )
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        assert self.process is not None
        while True:
            try:
                self.page("/readyz")
                return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                text = (self.folder / "server.log").read_text(errors="replace")
                assert self.process.poll() is None, f"the server ended before it was ready:\n{text}"
                time.sleep(0.1)

    def kill(self, number: int = signal.SIGKILL) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait()

    def token(self, name: str, scope: str = "ingest") -> str:
        command = [PROGRAMS / "server", "token", "create", "--data-dir", self.folder / "data"]
        command += ["--name", name, "--scope", scope]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def page(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return str(answer.read().decode())

    def api(self, path: str) -> Any:
        return json.loads(self.page("/api/v1" + path))

    def all_cases(self, run_key: str) -> list[dict[str, Any]]:
        cases: list[dict[str, Any]] = []
        cursor = ""
        while True:
            answer = self.api(f"/runs/{run_key}/cases?limit=200{cursor}")
            cases += answer["cases"]
            if not answer.get("next"):
                return cases
            cursor = "&cursor=" + urllib.parse.quote(answer["next"], safe="")


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    # PostgreSQL refuses to run as root and drops to another user, who must reach the folder.
    folder = Path(tempfile.mkdtemp(prefix="conformance-e2e-", dir="/var/tmp"))
    folder.chmod(0o755)
    running = Service(folder)
    running.start()
    try:
        yield running
    finally:
        running.kill(signal.SIGTERM)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def python() -> str:
    assert PYTHON, "CONFORMANCE_TEST_PYTHON must name the prepared Python; `make test` sets it"
    return PYTHON


@dataclass
class Runner:
    """Starts the runner with a runs directory and a token of the test's own."""

    service: Service
    python: str
    runs: Path
    token_file: Path

    def command(self, run_key: str, *arguments: str) -> list[str]:
        return [
            str(PROGRAMS / "runner"),
            *arguments,
            "--run-key",
            run_key,
            "--python",
            self.python,
            "--runs-dir",
            str(self.runs),
            "--push",
            self.service.url,
            "--token-file",
            str(self.token_file),
        ]

    def start(self, run_key: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(run_key, *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def again(self, verb: str, run_key: str) -> subprocess.CompletedProcess[str]:
        command = [str(PROGRAMS / "runner"), verb, run_key, "--runs-dir", str(self.runs)]
        command += (
            ["--push", self.service.url] if verb == "resume" else ["--server", self.service.url]
        )
        command += ["--token-file", str(self.token_file)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def finished(self, run_key: str) -> list[tuple[str, int]]:
        """(case, attempt) of every attempt in the journal that is whole."""
        attempts = []
        for line in (self.runs / run_key / "journal.jsonl").read_text().splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            if record.get("record") == "attempt":
                attempts.append((record["case"], record["attempt"]))
        return attempts

    def wait_for_attempts(self, run_key: str, count: int, process: subprocess.Popen[str]) -> None:
        journal = self.runs / run_key / "journal.jsonl"
        while not journal.exists() or len(self.finished(run_key)) < count:
            assert process.poll() is None, process.stdout.read() if process.stdout else ""
            time.sleep(0.02)


def make_runner(service: Service, python: str, folder: Path) -> Runner:
    token_file = folder / "token"
    token_file.write_text(service.token(f"e2e-{time.time_ns()}"))
    return Runner(service, python, folder / "runs", token_file)


@pytest.fixture
def runner(service: Service, python: str, tmp_path: Path) -> Runner:
    return make_runner(service, python, tmp_path)


@dataclass
class Finished:
    """A run that has ended, and what the runner said of it."""

    run_key: str
    runner: Runner
    process: subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def simulated(service: Service, python: str, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """What `make demo` executes, once for every test that looks at it."""
    runner = make_runner(service, python, tmp_path_factory.mktemp("simulated"))
    run_key = "e2e-simulated"
    suites = [f"--suite={suite}" for suite in ("operators", "tier1", "tier2", "dynamism")]
    command = runner.command(
        run_key,
        *suites,
        *("--selection", "smoke", "--samples", "2"),
        *("--model-list", str(ROOT / "model-lists" / "smoke.toml")),
        *("--device", "tpu-sim", "--mode", "eager", "--mode", "compile"),
    )
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    return Finished(run_key, runner, process)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's browser with a throw-away profile; Playwright only drives it."""
    program = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


def descendants(process_id: int) -> list[int]:
    """Process ids below one, nearest first."""
    found = []
    children = Path(f"/proc/{process_id}/task").glob("*/children")
    for child in [int(word) for path in children for word in path.read_text().split()]:
        found += [child, *descendants(child)]
    return found
