"""Scripts of single calls: that they stand alone, how they end, and how they become smaller."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from conformance_worker import devices, minimise, operators, repro_call
from conformance_worker.messages import OperatorTask
from conformance_worker.minimise import End
from conformance_worker.repro_call import Call, Tolerance
from conformance_worker.words import Dtype, Mode
from driver import execute

NOTHING = End("", "")


def call_of(name: str, sample: int, folder: Path, **changes: Any) -> Call:
    task = OperatorTask(name, sample)
    request = execute(folder, task, case=f"operators/opinfo:{name}#{sample}/x", **changes)
    call = repro_call.of_case(request, task, devices.find("cpu"), Tolerance(1e-5, 1e-5))
    assert call is not None
    return call


@pytest.mark.parametrize(
    ("name", "sample", "changes"),
    [
        ("add", 1, {}),
        ("add", 1, {"train": True}),
        ("add", 1, {"layout": "out"}),
        ("add", 1, {"layout": "inplace"}),
        ("add", 1, {"layout": "noncontiguous"}),
        ("matmul", 3, {"layout": "transposed"}),
        ("sum", 4, {"layout": "expanded"}),
        ("sum", 4, {"dtype": Dtype.COMPLEX64}),
        ("cat", 1, {}),
        ("sort", 3, {}),
        ("arange", 2, {}),
        ("nn.functional.conv2d", 1, {}),
        ("_foreach_add", 1, {}),
        ("polygamma.polygamma_n_4", 0, {}),
        ("nn.functional.relu", 0, {"mode": Mode.EAGER}),
    ],
)
def test_the_script_of_a_call_that_is_right_finds_nothing_wrong(
    name: str, sample: int, changes: dict[str, Any], tmp_path: Path
) -> None:
    call = call_of(name, sample, tmp_path, **changes)
    for form in (call, replace(call, exact=True), replace(call, written=True)):
        script = repro_call.script(form)
        assert "conformance" not in script
        assert script.count("\n") <= 20
        names: dict[str, Any] = {}
        exec(compile(script, "repro.py", "exec"), names)
        assert "actual" in names


def test_a_script_that_names_a_wrong_value_fails_by_itself(tmp_path: Path) -> None:
    script = repro_call.script(call_of("add", 1, tmp_path))
    script = script.replace("actual = torch.add", "actual = torch.sub")
    assert minimise.execute(script).kind == "AssertionError"
    assert minimise.execute(script.replace("torch.sub", "torch.add")) == NOTHING


def test_a_call_that_is_to_be_refused_fails_where_it_is_taken(tmp_path: Path) -> None:
    call = replace(call_of("add", 1, tmp_path), refused=True, function="torch.nosuch")
    script = repro_call.script(call)
    taken = script.replace("actual = torch.nosuch", "actual = torch.add")
    assert minimise.execute(taken).kind == "AssertionError"
    assert minimise.execute(script).kind == "AttributeError", "it is refused there too"


@pytest.mark.parametrize(
    ("script", "end"),
    [
        ("expected = 1\nraise ValueError('row 7 of 12')", End("ValueError", "row N of N")),
        ("raise ValueError('before the device was asked')", NOTHING),
        ("expected = 1\nimport os\nos.abort()", End("SIGABRT", "")),
        ("expected = 1\nimport os\nos._exit(3)", End("exit-3", "")),
        (
            "import os\nos.write(2, b'F0 x.cc:9] Check failed: a\\n')\nos.abort()",
            End("SIGABRT", "x.cc:N] Check failed: a"),
        ),
        ("expected = 1", NOTHING),
    ],
)
def test_how_a_script_ends_is_told_from_outside(script: str, end: End) -> None:
    ended = minimise.execute(script)
    assert ended.kind == end.kind
    assert end.line in ended.line


def test_a_script_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minimise, "CANDIDATE_SECONDS", 0.5)
    assert minimise.execute("import time\ntime.sleep(60)") == End("timeout", "")


def test_every_step_keeps_the_end_and_the_rest_is_dropped(tmp_path: Path) -> None:
    value = torch.rand(6, 4, 5)
    value[0, 0, 0] = torch.inf
    call = replace(
        call_of("sum", 4, tmp_path, train=True),
        args=(value.requires_grad_(), value.detach().double()),
        kwargs={"keepdim": True, "dim": 2},
        layout="noncontiguous",
        compiled=True,
        exact=True,
    )
    tried: list[str] = []

    def run(script: str) -> End:
        tried.append(script)
        return End("X", "inf") if "inf," in script or "inf]" in script else NOTHING

    begun = minimise.begin(call, run)
    assert begun is not None
    found = minimise.minimise(*begun, budget_seconds=60, run=run)
    assert run(found.script) == found.end
    assert "args = (torch.tensor([inf" in found.script or "torch.tensor([[" in found.script
    assert "kwargs = {}" in found.script
    assert "compile" not in found.script
    assert "lay" not in found.script
    assert "float64" not in found.script
    assert found.steps >= 5
    assert len(set(tried)) >= found.tried


def test_a_call_that_does_not_fail_alone_has_no_smaller_script(tmp_path: Path) -> None:
    assert minimise.begin(call_of("add", 1, tmp_path), lambda _: NOTHING) is None


def test_modules_keep_their_own_script(tmp_path: Path) -> None:
    task = OperatorTask("module:nn.Linear", 0)
    request = execute(tmp_path, task)
    device = devices.find("cpu")
    assert repro_call.of_case(request, task, device, Tolerance(0, 0)) is None
    assert operators.entries()["module:nn.Linear"] is not None
