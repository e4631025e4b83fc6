"""Executes a case inside the test process, and reads what it wrote for the comparator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from conformance_worker import codec, devices, messages
from conformance_worker import execute as execution
from conformance_worker.case import CaseRun
from conformance_worker.devices.base import Device
from conformance_worker.observed import Observed, ToCompare
from driver import execute


def run_case(
    device: Device | str, folder: Path, task: messages.Task, **changes: Any
) -> tuple[Observed, list[str], CaseRun]:
    """The observation, the stages entered, and the run for a recording afterwards."""
    chosen = devices.find(device) if isinstance(device, str) else device
    sent: list[codec.Tagged] = []
    run = execution.begin(execute(folder, task, **changes), chosen, sent.append)
    # What was observed must survive the wire.
    observed = codec.decode(messages.FromWorker, codec.encode(run.observed))
    stages = [message.stage.value for message in sent if isinstance(message, messages.Entered)]
    return observed, stages, run


def read(path: str) -> tuple[list[dict[str, Any]], dict[str, torch.Tensor]]:
    """Structure and tensors of one file."""
    with safe_open(path, "pt") as file:
        structure = json.loads(file.metadata()["structure"])
        return structure, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def differences(compare: ToCompare, tolerance: float = 1e-5) -> list[str]:
    """A plain comparison, for tests only: what differs in structure or values."""
    actual, actual_tensors = read(compare.actual)
    expected, expected_tensors = read(compare.expected)
    found = []
    for mine, theirs in zip(actual, expected, strict=True):
        found += [f"{mine['path']}: {key}" for key in mine if mine[key] != theirs[key]]
    for name, tensor in expected_tensors.items():
        mine_tensor = actual_tensors[name]
        if mine_tensor.shape != tensor.shape:
            continue
        if not torch.allclose(
            mine_tensor.double(), tensor.double(), rtol=tolerance, atol=tolerance, equal_nan=True
        ):
            found.append(f"{name}: values")
    return found
