"""Each lie of the `faulty` device, seen through the same path as a real device."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from cases import differences, run_case
from conformance_worker import devices, layouts, messages, operators
from conformance_worker.devices import faults, faulty
from conformance_worker.messages import OperatorTask
from conformance_worker.observed import Observed
from conformance_worker.words import FailureKind, Stage
from driver import ForkServer, execute, wait_until_gone

TASK = OperatorTask("add", 3)


def faults_for(rule: str, subject: str = "add") -> str:
    return json.dumps({subject: rule})


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("wrong-value", "output: values"),
        ("wrong-dtype", "output: dtype"),
        ("wrong-shape", "output: shape"),
        ("wrong-stride", "output: stride"),
        ("nan", "output: values"),
        ("padding-leak", "output: values"),
    ],
)
def test_a_wrong_output_reaches_the_comparison(
    rule: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(faulty.VARIABLE, faults_for(rule))
    observed, _, _ = run_case("faulty", tmp_path, TASK)
    assert observed.failure is None
    assert observed.device_used == "faulty:0"
    assert found in differences(observed.to_compare[0])


def test_only_the_named_case_is_lied_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(faulty.VARIABLE, faults_for("wrong-value", "mul"))
    observed, _, _ = run_case("faulty", tmp_path, TASK)
    assert differences(observed.to_compare[0]) == []


def test_an_infinity_is_saturated() -> None:
    def divide(tensor: torch.Tensor) -> torch.Tensor:
        return tensor / 0

    lied = faults.RULES["saturating-inf"](divide, (torch.tensor([1.0, -1.0]),), {})
    largest = torch.finfo(torch.float32).max
    assert lied.tolist() == [largest, -largest]


def test_a_full_tile_leaks_nothing() -> None:
    leak = faults.RULES["padding-leak"]
    assert leak(torch.zeros, (32, 64), {}).sum() == 0
    assert leak(torch.zeros, (31, 64), {}).sum() > 0


def test_a_silent_fallback_is_an_outcome_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N28: computed on the CPU without a word, it is no pass."""
    monkeypatch.setenv(faulty.VARIABLE, faults_for("silent-fallback"))
    observed, _, _ = run_case("faulty", tmp_path, TASK)
    assert observed.failure is not None
    assert observed.failure.kind is FailureKind.FALLBACK
    assert observed.device_used == "cpu"


@pytest.mark.parametrize("layout", ["", "noncontiguous"])
def test_an_input_that_is_written_to_is_a_mismatch_however_small_the_change(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(faulty.VARIABLE, faults_for("write-input"))
    task = OperatorTask("add", 1)
    observed, _, _ = run_case("faulty", tmp_path, task, layout=layout)
    assert observed.failure is not None
    assert observed.failure.kind is FailureKind.MISMATCH
    assert "input 0 was changed" in observed.failure.message


def test_an_input_that_is_to_be_written_to_and_is_not_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = operators.entries()["add"]
    calls: list[int] = []

    def only_once(tensor: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        calls.append(1)
        on_host = len(calls) < 3  # the reference, and its wider one
        return torch.add(tensor, *args, **kwargs, out=tensor) if on_host else tensor  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(entry, "inplace_variant", only_once)
    observed, _, _ = run_case("faulty", tmp_path, OperatorTask("add", 0), layout="inplace")
    assert observed.failure is None
    assert "inputs.0: values" in differences(observed.to_compare[0])


def test_memory_beside_the_inputs_is_watched_in_the_case_that_wrote_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N24: a write past a buffer is found in its own case, and not in the next one to fail."""
    monkeypatch.setenv(faulty.VARIABLE, faults_for("write-neighbour"))
    device = devices.find("faulty")
    first, _, _ = run_case(device, tmp_path / "1", TASK)
    second, _, _ = run_case(device, tmp_path / "2", OperatorTask("mul", 0))
    assert first.failure is not None
    assert first.failure.kind is FailureKind.MISMATCH
    assert first.failure.error_class == "MemoryCorruptionError"
    assert second.failure is None, "the case after it is not to blame"


def test_a_gap_between_elements_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """N24: `isfinite` of every second element, and what lies between."""

    def write_past(tensor: torch.Tensor) -> torch.Tensor:
        between = layouts.gap(tensor)
        if between is not None and len(calls) == 1:
            between.zero_()
        calls.append(1)
        return tensor.isfinite()

    calls: list[int] = []
    monkeypatch.setattr(operators.entries()["isfinite"], "op", write_past)
    task = OperatorTask("isfinite", 0)
    observed, _, _ = run_case("faulty", tmp_path, task, layout="noncontiguous")
    assert observed.failure is not None
    assert observed.failure.error_class == "MemoryCorruptionError"
    assert "between the elements of input 0" in observed.failure.message


def test_a_fallback_that_warns_once_is_heard_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N28: warned of once in a process, it is the outcome of each case all the same."""
    rules = json.dumps({"add": "warned-fallback", "mul": "warned-fallback"})
    monkeypatch.setenv(faulty.VARIABLE, rules)
    device = devices.find("faulty")
    for number, entry in enumerate(("add", "mul", "add")):
        observed, _, _ = run_case(device, tmp_path / str(number), OperatorTask(entry, 0))
        assert observed.failure is not None
        assert observed.failure.kind is FailureKind.FALLBACK
        assert observed.fallback_operators == ["aten::add"]


def test_an_error_that_does_not_come_is_a_mismatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = OperatorTask("dot", 0, error_input=True)
    honest, _, _ = run_case("faulty", tmp_path / "1", task)
    assert honest.failure is None
    assert honest.both_raised is not None
    monkeypatch.setenv(faulty.VARIABLE, faults_for("never-raises", "dot"))
    observed, _, _ = run_case("faulty", tmp_path / "2", task)
    assert observed.failure is not None
    assert observed.failure.kind is FailureKind.MISMATCH
    assert "expected error: the reference raises" in observed.failure.message


def test_a_poisoned_device_says_so_and_stays_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(faulty.VARIABLE, faults_for("poison"))
    device = devices.find("faulty")
    first, _, _ = run_case(device, tmp_path / "1", TASK)
    second, _, _ = run_case(device, tmp_path / "2", OperatorTask("mul", 0))
    for observed in (first, second):
        assert observed.failure is not None
        assert observed.failure.error_class == "PoisonedError"
        assert observed.poisoned
    fresh, _, _ = run_case("faulty", tmp_path / "3", OperatorTask("mul", 0))
    assert fresh.failure is None


def test_an_unknown_rule_is_an_error_and_not_an_honest_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(faulty.VARIABLE, faults_for("wrong-vlaue"))
    with pytest.raises(ValueError, match="unknown rule `wrong-vlaue`"):
        run_case("faulty", tmp_path, TASK)


# --- lies that need a process of their own ------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    running = ForkServer("faulty", tmp_path_factory.mktemp("f"))
    assert isinstance(running.first, messages.Ready)
    yield running
    running.close()


def test_an_abort_ends_the_worker_with_its_signal_and_its_words(
    server: ForkServer, tmp_path: Path
) -> None:
    worker = server.spawn({faulty.VARIABLE: faults_for("abort")})
    worker.link.send(execute(tmp_path, TASK))
    stages = []
    while (answer := worker.link.receive(messages.FromWorker)) is not None:
        assert isinstance(answer, messages.Entered), answer
        stages.append(answer.stage)
    assert stages[-1] is Stage.EXECUTE
    assert server.exit_of(worker).signal == 6
    assert "check failed in faulty device" in worker.log.read_text()


def test_a_hang_ignores_sigterm_and_ends_by_sigkill(server: ForkServer, tmp_path: Path) -> None:
    worker = server.spawn({faulty.VARIABLE: faults_for("hang")})
    worker.link.send(execute(tmp_path, TASK))
    while worker.link.receive(messages.FromWorker) != messages.Entered(Stage.EXECUTE):
        pass
    time.sleep(0.3)
    os.kill(worker.pid, 15)
    worker.link._socket.settimeout(1.0)
    with pytest.raises(TimeoutError):
        worker.link.receive(messages.FromWorker)
    os.killpg(worker.pid, 9)
    assert server.exit_of(worker).signal == 9


def test_memory_that_runs_out_is_oom_and_not_a_crash(server: ForkServer, tmp_path: Path) -> None:
    worker = server.spawn_with_room({faulty.VARIABLE: faults_for("memory-hog")}, 400 << 20)
    observed, _ = worker.ask(execute(tmp_path, TASK))
    assert isinstance(observed, Observed)
    assert observed.failure is not None
    assert observed.failure.kind is FailureKind.OOM
    worker.link.send(messages.Stop())


def test_a_crash_at_exit_comes_after_the_outcome(server: ForkServer, tmp_path: Path) -> None:
    worker = server.spawn({faulty.VARIABLE: faults_for("abort-at-exit")})
    observed, _ = worker.ask(execute(tmp_path, TASK))
    assert isinstance(observed, Observed)
    assert observed.failure is None
    worker.link.send(messages.Stop())
    assert server.exit_of(worker).signal == 6


def test_a_child_that_was_left_behind_is_killed(server: ForkServer, tmp_path: Path) -> None:
    worker = server.spawn({faulty.VARIABLE: faults_for("leave-child")})
    observed, _ = worker.ask(execute(tmp_path, TASK))
    assert observed.failure is None
    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
    assert len(children) == 1
    worker.link.send(messages.Stop())
    assert server.exit_of(worker).exit_code == 0
    wait_until_gone(int(children[0]))
    assert "left behind" in worker.log.read_text()


def test_a_hundred_killed_cases_leave_neither_a_child_nor_a_zombie(
    server: ForkServer, tmp_path: Path
) -> None:
    hidden = []
    for number in range(100):
        worker = server.spawn({faulty.VARIABLE: faults_for("leave-child")})
        observed, _ = worker.ask(execute(tmp_path / str(number), TASK))
        assert observed.failure is None
        children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
        hidden.append(int(children[0]))
        os.kill(worker.pid, signal.SIGKILL)
        assert server.exit_of(worker).signal == signal.SIGKILL
    for pid in hidden:
        wait_until_gone(pid)
    left = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()
    assert left == "", "the fork server has a child, or one that was not reaped"


def test_noise_goes_to_stderr_and_the_answer_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(faults, "NOISE_BYTES", 4 << 20)
    monkeypatch.setenv(faulty.VARIABLE, faults_for("noisy"))
    observed, _, _ = run_case("faulty", tmp_path, TASK)
    assert differences(observed.to_compare[0]) == []
    assert len(capfd.readouterr().err) > 3 << 20


def test_slowness_is_seen_in_the_seconds_of_its_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "SLOW_SECONDS", 0.5)
    monkeypatch.setenv(faulty.VARIABLE, faults_for("slow"))
    observed, _, _ = run_case("faulty", tmp_path, TASK)
    assert observed.stage_seconds["execute"] >= 0.5
