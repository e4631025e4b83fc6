"""The runner's side of the link in a few lines, for tests."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from conformance_worker import codec, messages
from conformance_worker.link import Link
from conformance_worker.words import Dtype, Mode, Stage

SOURCE = Path(__file__).parent.parent / "src"
START_DEADLINE_S = 400.0
CASE_DEADLINE_S = 300.0


def listen(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(str(path))
    sock.listen(1)
    return sock


def accept(listener: socket.socket, deadline_s: float = START_DEADLINE_S) -> Link:
    listener.settimeout(deadline_s)
    sock, _ = listener.accept()
    sock.settimeout(CASE_DEADLINE_S)
    return Link(sock)


class WorkerHandle:
    """One forked worker."""

    def __init__(self, number: int, pid: int, link: Link, log: Path) -> None:
        self.number = number
        self.pid = pid
        self.link = link
        self.log = log

    def address_space_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[0])
        return pages * resource.getpagesize()

    def ask(self, request: codec.Tagged) -> tuple[Any, list[Stage]]:
        """Sends a request; gives the answer and the stages entered before it."""
        self.link.send(request)
        stages: list[Stage] = []
        while True:
            answer = self.link.receive(messages.FromWorker)
            if isinstance(answer, messages.Built):
                continue
            if not isinstance(answer, messages.Entered):
                return answer, stages
            stages.append(answer.stage)


class ForkServer:
    """A real fork server process and its workers."""

    def __init__(
        self, device: str, folder: Path | None = None, environment: dict[str, str] | None = None
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="cw", dir=folder))
        listener = listen(self.folder / "fork.sock")
        self.log = self.folder / "fork-server.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "conformance_worker",
                    "fork-server",
                    "--device",
                    device,
                    "--link",
                    str(self.folder / "fork.sock"),
                ],
                env={**os.environ, "PYTHONPATH": str(SOURCE), **(environment or {})},
                stdout=log,
                stderr=log,
            )
        self.link = accept(listener)
        self.first = self.link.receive(messages.FromForkServer)
        self._number = 0
        self._exits: list[messages.Exited] = []

    def spawn(
        self, environment: dict[str, str] | None = None, address_space_bytes: int | None = None
    ) -> WorkerHandle:
        self._number += 1
        path = self.folder / f"w{self._number}.sock"
        log = self.folder / f"w{self._number}.log"
        listener = listen(path)
        self.link.send(
            messages.Spawn(
                self._number, str(path), str(log), environment or {}, address_space_bytes
            )
        )
        while isinstance(spawned := self.link.receive(messages.FromForkServer), messages.Exited):
            self._exits.append(spawned)
        assert isinstance(spawned, messages.Spawned), spawned
        link = accept(listener)
        hello = link.receive(messages.FromWorker)
        assert isinstance(hello, messages.Hello), hello
        assert hello.pid == spawned.pid
        return WorkerHandle(self._number, spawned.pid, link, log)

    def spawn_with_room(self, environment: dict[str, str], room_bytes: int) -> WorkerHandle:
        """A worker whose address space may grow by that much beyond what the imports take."""
        measured = self.spawn(environment)
        size_bytes = measured.address_space_bytes()
        os.kill(measured.pid, signal.SIGKILL)
        self.exit_of(measured)
        return self.spawn(environment, size_bytes + room_bytes)

    def exit_of(self, worker: WorkerHandle) -> messages.Exited:
        """Waits for the end of a worker; those of others are kept."""
        while True:
            for exited in self._exits:
                if exited.worker == worker.number:
                    return exited
            answer = self.link.receive(messages.FromForkServer)
            assert isinstance(answer, messages.Exited), answer
            self._exits.append(answer)

    def close(self) -> int:
        self.link.close()
        return self.process.wait(timeout=30)


def execute(folder: Path, task: messages.Task, **changes: Any) -> messages.Execute:
    """A request with the usual settings."""
    folder.mkdir(parents=True, exist_ok=True)
    fields: dict[str, Any] = {
        "case": "operators/opinfo:test#0/float32.eager.forward",
        "task": task,
        "dtype": Dtype.FLOAT32,
        "mode": Mode.EAGER,
        "train": False,
        "layout": "",
        "seed": 7,
        "exchange": str(folder),
        "breadcrumb": None,
        "record_operators": False,
    }
    return messages.Execute(**(fields | changes))


def wait_until_gone(pid: int, deadline_s: float = 20.0) -> None:
    """Fails where the process is still there after the deadline; zombies count as gone."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} is still running")
