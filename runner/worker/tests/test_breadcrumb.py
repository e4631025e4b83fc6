"""Breadcrumbs: the native observer, read as the runner reads it. `CONFORMANCE_BREADCRUMB` names the
library, which the runner carries."""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance_worker import breadcrumb, messages
from conformance_worker.devices import faulty
from conformance_worker.messages import OperatorTask
from conformance_worker.observed import Observed
from driver import ForkServer, WorkerHandle, execute

LIBRARY = os.environ.get("CONFORMANCE_BREADCRUMB", "")
HEADER_BYTES, THREADS, RECORD_BYTES, NAME_BYTES, LEVELS = 64, 32, 2048, 128, 13

pytestmark = pytest.mark.skipif(
    not LIBRARY, reason="CONFORMANCE_BREADCRUMB does not name the breadcrumb library"
)


def new_file(folder: Path) -> Path:
    path = folder / "crumbs"
    path.write_bytes(bytes(HEADER_BYTES + THREADS * RECORD_BYTES))
    return path


def records(path: Path) -> dict[int, tuple[int, int, list[str]]]:
    """Depth, operators entered, and names by level, per thread id; empty without an observer."""
    data = path.read_bytes()
    found = {}
    if data[:8] != b"CRUMBS2\n":
        return {}
    for index in range(THREADS):
        record = data[HEADER_BYTES + index * RECORD_BYTES :][:RECORD_BYTES]
        thread, depth, entered = struct.unpack("<IIQ", record[:16])
        names = [
            record[64 + NAME_BYTES * level :][:NAME_BYTES].split(b"\0")[0].decode()
            for level in range(LEVELS + 2)
        ]
        if thread:
            found[thread] = (depth, entered, names)
    return found


def in_flight(path: Path, thread: int) -> list[str]:
    depth, _, names = records(path)[thread]
    return [name for name in names[:depth] if "::" in name]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    running = ForkServer("faulty", tmp_path_factory.mktemp("f"))
    assert isinstance(running.first, messages.Ready), running.log.read_text()
    yield running
    running.close()


def variables(path: Path, rules: str) -> dict[str, str]:
    return {
        breadcrumb.LIBRARY_VARIABLE: LIBRARY,
        breadcrumb.FILE_VARIABLE: str(path),
        faulty.VARIABLE: rules,
    }


def spawn(server: ForkServer, path: Path, rules: str) -> WorkerHandle:
    return server.spawn(variables(path, rules))


def test_an_abort_inside_of_an_operator_leaves_its_name(server: ForkServer, tmp_path: Path) -> None:
    path = new_file(tmp_path)
    worker = spawn(server, path, '{"nn.functional.linear": "abort-inside"}')
    worker.link.send(execute(tmp_path / "x", OperatorTask("nn.functional.linear", 0)))
    assert server.exit_of(worker).signal == signal.SIGABRT
    stack = in_flight(path, worker.pid)
    assert stack[0] == "aten::linear", stack
    assert len(stack) > 1, "and what it had got to"


def test_a_killed_worker_leaves_the_operator_that_it_hung_in(
    server: ForkServer, tmp_path: Path
) -> None:
    path = new_file(tmp_path)
    worker = spawn(server, path, '{"add": "hang-inside"}')
    worker.link.send(execute(tmp_path / "x", OperatorTask("add", 0)))
    while (entered := worker.link.receive(messages.FromWorker)).stage.value != "execute":
        assert isinstance(entered, messages.Entered)
    while in_flight(path, worker.pid) != ["aten::add.Tensor"]:
        time.sleep(0.01)
    os.kill(worker.pid, signal.SIGKILL)
    assert server.exit_of(worker).signal == signal.SIGKILL
    assert in_flight(path, worker.pid) == ["aten::add.Tensor"]


def test_the_operator_that_ran_out_of_memory_is_kept_though_the_process_lives_on(
    server: ForkServer, tmp_path: Path
) -> None:
    path = new_file(tmp_path)
    room_bytes = 400 << 20
    worker = server.spawn_with_room(variables(path, '{"add": "memory-hog"}'), room_bytes)
    before = worker.address_space_bytes()
    observed, _ = worker.ask(execute(tmp_path / "x", OperatorTask("add", 0)))
    assert isinstance(observed, Observed), observed
    assert observed.failure is not None
    assert observed.failure.kind.value == "oom", observed.failure
    _, _, names = records(path)[worker.pid]
    assert names[LEVELS + 1] == "aten::ones", "the outermost that the exception left through"
    assert in_flight(path, worker.pid) == []
    assert worker.address_space_bytes() - before < room_bytes // 2, "what it held is given back"
    again, _ = worker.ask(execute(tmp_path / "y", OperatorTask("sub", 0)))
    assert again.failure is None
    assert records(path)[worker.pid][2][LEVELS:] == ["", ""], "another case, another record"


def test_what_runs_is_the_same_with_and_without(server: ForkServer, tmp_path: Path) -> None:
    path = new_file(tmp_path)
    observed = []
    for number, worker in enumerate([spawn(server, path, "{}"), server.spawn()]):
        request = execute(
            tmp_path / str(number),
            OperatorTask("nn.functional.layer_norm", 1),
            train=True,
            record_operators=True,
        )
        worker.link.send(request)
        answers = [worker.link.receive(messages.FromWorker)]
        while not isinstance(answers[-1], messages.Recorded):
            answers.append(worker.link.receive(messages.FromWorker))
        outputs = sorted((tmp_path / str(number)).glob("*.safetensors"))
        observed.append((answers[-1].operators, [file.read_bytes() for file in outputs]))
    assert observed[0] == observed[1]
    assert len(observed[0][1]) == 2
    assert sum(entered for _, entered, _ in records(path).values()) > 10


def test_a_torch_that_lays_its_observers_out_otherwise_is_left_alone(tmp_path: Path) -> None:
    text = breadcrumb.HEADER.read_text(encoding="utf-8")
    assert breadcrumb.unknown_layout(breadcrumb.HEADER) == ""
    changed = tmp_path / "record_function.h"
    for old, new in [
        ("double sampling_prob_ = 1.0;", "float sampling_prob_ = 1.0;"),
        ("  bool needs_ids_ = false;\n};", "  bool needs_ids_ = false;\n  int more_ = 0;\n};"),
        ("  USER_SCOPE,", "  USER_SCOPE,\n  NEW_SCOPE,"),
        ("ObserverContext*);", "ObserverContext&);"),
    ]:
        assert old in text
        changed.write_text(text.replace(old, new), encoding="utf-8")
        assert "another layout" in breadcrumb.unknown_layout(changed), old
    assert "do not tell" in breadcrumb.unknown_layout(tmp_path / "missing.h")
