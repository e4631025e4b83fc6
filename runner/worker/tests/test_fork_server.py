"""The life of a fork server and its workers, with real processes."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance_worker import messages
from driver import SOURCE, ForkServer, accept, execute, listen, wait_until_gone


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    own = Path(__file__).parent
    path = {"PYTHONPATH": f"{SOURCE}:{own}"}
    running = ForkServer("cpu", tmp_path_factory.mktemp("f"), path)
    yield running
    running.close()


def test_ready_tells_the_versions(server: ForkServer) -> None:
    assert isinstance(server.first, messages.Ready), server.log.read_text()
    assert server.first.link_version == messages.LINK_VERSION
    assert server.first.pid == server.process.pid
    assert {"python", "torch"} <= set(server.first.versions)


def test_a_worker_leads_its_group_probes_and_stops(server: ForkServer) -> None:
    worker = server.spawn()
    assert os.getpgid(worker.pid) == worker.pid
    assert os.getsid(worker.pid) == worker.pid
    answer, _ = worker.ask(messages.Probe())
    assert isinstance(answer, messages.Probed), answer
    assert answer.device == "cpu"
    assert not answer.simulated
    worker.link.send(messages.Stop())
    exited = server.exit_of(worker)
    assert (exited.worker, exited.exit_code, exited.signal) == (worker.number, 0, None)
    assert exited.peak_resident_bytes > 10_000_000


def test_a_worker_ends_by_itself_when_the_runner_closes_its_link(server: ForkServer) -> None:
    worker = server.spawn()
    worker.link.close()
    assert server.exit_of(worker).exit_code == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV])
def test_a_killed_worker_is_reaped_with_its_signal(
    server: ForkServer, number: signal.Signals
) -> None:
    worker = server.spawn()
    os.kill(worker.pid, number)
    exited = server.exit_of(worker)
    assert (exited.exit_code, exited.signal) == (None, number)
    # The fork server serves on.
    assert isinstance(server.spawn().ask(messages.Probe())[0], messages.Probed)


def test_what_a_worker_left_holds_no_device_when_its_end_is_told(
    server: ForkServer, tmp_path: Path
) -> None:
    lock = tmp_path / "device.lock"
    model = messages.ModelSpec(
        "python", "own_models:leaving", "tiny", 1, 1, overrides={"lock": str(lock)}
    )
    worker = server.spawn()
    observed, _ = worker.ask(execute(tmp_path / "x", messages.ModelTask(model, compare=False)))
    assert observed.failure is None, observed.failure
    with lock.open() as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.kill(worker.pid, signal.SIGABRT)
        assert server.exit_of(worker).signal == signal.SIGABRT
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_output_of_native_code_goes_to_the_log_of_the_worker(server: ForkServer) -> None:
    worker = server.spawn({"CONFORMANCE_TEST": "hello"})
    environment = Path(f"/proc/{worker.pid}/fd/2")
    assert environment.resolve() == worker.log.resolve()
    assert Path(f"/proc/{worker.pid}/fd/1").resolve() == worker.log.resolve()


def test_everything_ends_when_the_link_of_the_fork_server_ends(tmp_path: Path) -> None:
    server = ForkServer("cpu", tmp_path)
    workers = [server.spawn(), server.spawn()]
    assert server.close() == 0
    for worker in workers:
        wait_until_gone(worker.pid)


def test_workers_die_with_a_killed_fork_server(tmp_path: Path) -> None:
    server = ForkServer("cpu", tmp_path)
    worker = server.spawn()
    server.process.kill()
    server.process.wait(timeout=30)
    wait_until_gone(worker.pid)


def test_stop_ends_the_fork_server(tmp_path: Path) -> None:
    server = ForkServer("cpu", tmp_path)
    worker = server.spawn()
    server.link.send(messages.Stop())
    assert server.process.wait(timeout=30) == 0
    wait_until_gone(worker.pid)


def test_a_missing_package_is_a_message_with_a_hint_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    listener = listen(tmp_path / "s")
    process = subprocess.Popen(
        [sys.executable, "-m", "conformance_worker", "fork-server", "--device", "cpu"]
        + ["--link", str(tmp_path / "s")],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{SOURCE}"},
        stderr=subprocess.PIPE,
    )
    failed = accept(listener).receive(messages.FromForkServer)
    assert isinstance(failed, messages.Failed)
    assert failed.error_class == "ModuleNotFoundError"
    assert failed.message == "No module named 'torch'"
    assert "runner setup" in failed.hint
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 3
    assert b"Traceback" not in errors


def test_a_link_that_is_not_there_is_a_message(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "conformance_worker", "fork-server", "--device", "cpu"]
        + ["--link", str(tmp_path / "nosuch")],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert b"cannot connect to" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_worker_needs_no_fork_server(tmp_path: Path) -> None:
    listener = listen(tmp_path / "s")
    process = subprocess.Popen(
        [sys.executable, "-m", "conformance_worker", "worker", "--device", "cpu"]
        + ["--link", str(tmp_path / "s"), "--worker", "9"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    link = accept(listener)
    hello = link.receive(messages.FromWorker)
    assert hello == messages.Hello(messages.LINK_VERSION, 9, process.pid)
    link.send(messages.Stop())
    assert process.wait(timeout=60) == 0


def test_a_worker_holds_no_socket_but_its_own_link(server: ForkServer) -> None:
    worker = server.spawn()
    files = Path(f"/proc/{worker.pid}/fd").iterdir()
    assert sum("socket" in os.readlink(path) for path in files) == 1
