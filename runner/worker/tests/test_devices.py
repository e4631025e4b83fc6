"""What can be said of each device without having it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from cases import run_case
from conformance_worker import __main__, devices, failures, worker
from conformance_worker.devices import tpu, tpu_sim
from conformance_worker.messages import OperatorTask, Probed, ProbeFailed
from conformance_worker.words import FailureKind, Stage


def test_the_command_line_knows_every_profile() -> None:
    assert tuple(devices.PROFILES) == __main__.PROFILES
    for profile in devices.PROFILES:
        assert devices.find(profile).profile == profile


def test_a_tpu_that_is_not_there_is_said_without_touching_torch_tpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tpu, "PCI_DEVICES", tmp_path)
    monkeypatch.setattr(tpu, "DEVICE_FILES", (str(tmp_path / "vfio"),))
    device = tpu.TheDevice()
    monkeypatch.setattr(device, "open", lambda: pytest.fail("it was opened"))
    answer = worker.probe(device)
    assert isinstance(answer, ProbeFailed)
    assert "no TPU was found" in answer.message
    assert "--device" in answer.hint


def test_google_devices_are_counted_on_the_bus(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, vendor in (("a", "0x1ae0"), ("b", "0x8086"), ("c", "0x1ae0")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(vendor + "\n")
    (tmp_path / "d").mkdir()
    monkeypatch.setattr(tpu, "PCI_DEVICES", tmp_path)
    assert tpu.tpu_devices_on_bus() == 2


def test_cuda_that_is_not_there_is_said() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    answer = worker.probe(devices.find("cuda"))
    assert isinstance(answer, ProbeFailed)
    assert "--device" in answer.hint


def test_a_simulation_without_its_library_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(tpu_sim.LIBRARY_VARIABLE, raising=False)
    answer = worker.probe(devices.find("tpu-sim"))
    assert isinstance(answer, ProbeFailed)
    assert tpu_sim.LIBRARY_VARIABLE in answer.message


def test_a_device_that_computes_wrongly_fails_its_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    device = devices.find("cpu")
    assert isinstance(worker.probe(device), Probed)
    monkeypatch.setattr(device, "call", lambda function, args, _: function(*args) + 1)
    answer = worker.probe(device)
    assert isinstance(answer, ProbeFailed)
    assert "came out wrong" in answer.message
    assert not device.healthy()


@pytest.mark.parametrize(
    ("text", "kind", "operator"),
    [
        (
            "operator 'aten::_fft_r2c' is not implemented for TPU. Please file a feature request",
            FailureKind.UNSUPPORTED,
            "aten::_fft_r2c",
        ),
        ("topk(): not implemented for DT_INT8", FailureKind.UNSUPPORTED, "aten::topk"),
        (
            "unique2(): sorted=False is not yet supported",
            FailureKind.UNSUPPORTED,
            "aten::unique2",
        ),
        (
            "Could not run 'aten::_sparse_mm_reduce_impl' with arguments from the 'SparseCsrtpu' "
            "backend. This could be because",
            FailureKind.UNSUPPORTED,
            "aten::_sparse_mm_reduce_impl",
        ),
        ("RESOURCE_EXHAUSTED: out of HBM", FailureKind.OOM, None),
        ("replication_pad2d(): padding values exceed", FailureKind.ERROR, None),
        ("no FFI handler registered for LuDecomposition", FailureKind.ERROR, None),
    ],
)
def test_the_words_of_torch_tpu_are_typed(
    text: str, kind: FailureKind, operator: str | None
) -> None:
    failure = failures.failure_from(RuntimeError(text), Stage.EXECUTE, tpu.TheDevice())
    assert (failure.kind, failure.operator) == (kind, operator)


@pytest.mark.parametrize(
    "text",
    [
        "failed to compile: no FFI handler registered for LuDecomposition on a platform Host",
        "failed to serialize StableHLO to plugin version 1.13.7;",
        "custom call target PadToStatic is not implemented",
        "to_copy(): host memory allocator is not implemented for this client",
        "failed to compile: hLO opcode `ragged-dot` is not supported by XLA:CPU ThunkEmitter",
    ],
)
def test_limits_of_the_host_are_limits_in_the_simulation_only(text: str) -> None:
    error = RuntimeError(text)
    simulated = failures.failure_from(error, Stage.EXECUTE, tpu_sim.TheDevice())
    real = failures.failure_from(error, Stage.EXECUTE, tpu.TheDevice())
    assert simulated.kind is FailureKind.HOST_LIMIT
    assert real.kind is FailureKind.ERROR


def test_a_graph_that_cannot_be_lowered_is_no_missing_operator_of_whatever_class() -> None:
    """TorchTPU 0.2.0 gives this class to what bounded dynamism cannot broadcast."""
    text = (
        "Failed to lower FX graph with dynamic shapes to MLIR with error: add(): failed to compile"
    )
    failure = failures.failure_from(NotImplementedError(text), Stage.EXECUTE, tpu.TheDevice())
    assert (failure.kind, failure.stage) == (FailureKind.ERROR, Stage.LOWER)
    assert failure.operator is None


def test_the_class_not_implemented_says_it_whatever_its_words() -> None:
    for text, operator in (
        ("grid_sampler_3d(): expected the interpolation mode", "aten::grid_sampler_3d"),
        ("no such thing here", None),
    ):
        failure = failures.failure_from(NotImplementedError(text), Stage.EXECUTE, tpu.TheDevice())
        assert (failure.kind, failure.operator) == (FailureKind.UNSUPPORTED, operator)


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("aten::foo.out is not supported: falling back to the CPU", "aten::foo.out"),
        ("The operator 'aten::bar' will fall back to run on the CPU.", "aten::bar"),
        ("some operators are executed on CPU", "unknown"),
        ("index_reduce() is in beta and the API may change at any time", None),
    ],
)
def test_a_warning_can_tell_of_a_fallback(text: str, operator: str | None) -> None:
    assert devices.find("cpu").fallback_in(text) == operator


def test_what_the_compiler_wraps_is_unwrapped() -> None:
    class WrapperError(Exception):
        def __init__(self, inner: BaseException) -> None:
            super().__init__("backend failed")
            self.inner_exception = inner

    inner = RuntimeError("operator 'aten::i0' is not implemented for TPU")
    failure = failures.failure_from(WrapperError(inner), Stage.COMPILE, tpu.TheDevice())
    assert failure.error_class == "RuntimeError"
    assert failure.operator == "aten::i0"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError(), FailureKind.OOM),
        (torch.OutOfMemoryError("out of memory"), FailureKind.OOM),
        (OSError(28, "No space left on device"), FailureKind.INFRA),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate"), FailureKind.OOM),
        (ValueError("anything"), FailureKind.ERROR),
    ],
)
def test_resources_are_typed_before_anything_else(error: BaseException, kind: FailureKind) -> None:
    assert failures.failure_from(error, Stage.EXECUTE, None).kind is kind


def test_a_traceback_leaves_this_package_out() -> None:
    def raises() -> None:
        raise ValueError("x")

    try:
        devices.find("cpu").call(raises, (), {})
    except ValueError as error:
        text = failures.format_traceback(error)
    assert "in raises" in text
    assert "conformance_worker/devices" not in text


def test_a_case_on_a_device_that_is_not_there_teaches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(tpu_sim.LIBRARY_VARIABLE, raising=False)
    observed, stages, _ = run_case("tpu-sim", tmp_path, OperatorTask("add", 0))
    assert observed.failure is not None
    assert observed.failure.kind is FailureKind.INFRA
    assert stages == ["import"]
    # Once imported in a process, its autograd engine waits for the missing device for minutes.
    assert "torch_tpu" not in sys.modules
