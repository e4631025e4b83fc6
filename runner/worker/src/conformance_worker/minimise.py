"""Makes the script of a failure smaller while it fails in the same way.

Every candidate is executed in a process of its own, forked from this one, which has imported the
backend and made no client: a crash costs the candidate and nothing else. How a script ended is its
*end*: the exception's class and first line, the signal and the fatal line, or nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from conformance_worker import repro_call
from conformance_worker.devices.base import Device
from conformance_worker.failures import first_line
from conformance_worker.messages import Execute, OperatorTask
from conformance_worker.repro_call import Call, Tolerance
from conformance_worker.words import Dtype, Mode

CANDIDATE_SECONDS = 60.0
"""How long one candidate may take."""

_FATAL = re.compile(r"(?P<line>\S+\.(cc|cpp|h):\d+\].*|.*Check failed.*|.*terminate called.*)")
_VARYING = re.compile(r"0x[0-9a-f]+|-?\d+(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True)
class End:
    """How a script ended; two ends are the same when kind and line are."""

    kind: str
    """An exception's class, `SIGABRT`, `timeout`; empty where the script found nothing wrong."""

    line: str
    """First line of what was said, with numbers replaced."""

    said: str = field(default="", compare=False)
    """The same as it was said."""

    def __bool__(self) -> bool:
        return bool(self.kind)


@dataclass(frozen=True)
class Minimised:
    """The smallest script found."""

    script: str
    end: End
    tried: int
    steps: int


def normalised(line: str) -> str:
    """A line without what varies: numbers and addresses."""
    return _VARYING.sub("N", line.strip())[:300]


def execute(script: str) -> End:
    """Executes a script in a forked process."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    with tempfile.TemporaryFile() as log:
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            _child(script, writer)
        os.close(writer)
        text = _read(reader, pid)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if text:
            told = json.loads(text)
            return End(told["kind"], told["line"], told["said"])
        if code == -signal.SIGKILL:
            return End("timeout", "")
        log.seek(0)
        fatal = _FATAL.findall(log.read().decode(errors="replace"))
        said = fatal[-1][0] if fatal else ""
        name = signal.Signals(-code).name if code < 0 else f"exit-{code}"
        return End(name, normalised(said), said)


def _child(script: str, writer: int) -> None:
    end, said = End("", ""), ""
    names: dict[str, object] = {}
    try:
        exec(compile(script, "repro.py", "exec"), names)
    except BaseException as error:
        # What is raised before the device has been asked is no failure of the device.
        if "expected" in names:
            said = first_line(error)
            end = End(type(error).__name__, normalised(said))
    with contextlib.suppress(OSError):
        os.write(writer, json.dumps({"kind": end.kind, "line": end.line, "said": said}).encode())
    os._exit(0)


def _read(reader: int, pid: int) -> bytes:
    """What the child told before it ended; kills one that takes too long."""
    deadline = time.monotonic() + CANDIDATE_SECONDS
    told = b""
    while True:
        left = deadline - time.monotonic()
        ready = left > 0 and bool(select.select([reader], [], [], left)[0])
        part = os.read(reader, 65536) if ready else b""
        if not ready:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        if not part:
            os.close(reader)
            return told
        told += part


def begin(call: Call, run: Callable[[str], End] = execute) -> tuple[Call, End] | None:
    """The first form of the call whose script fails: drawn values, given values, a wider reference,
    what the call writes to its arguments.

    Nothing where none does, or where the call has no script.
    """
    for candidate in (
        call,
        replace(call, exact=True),
        replace(call, wide=True),
        replace(call, exact=True, wide=True),
        replace(call, exact=True, written=True),
    ):
        try:
            text = repro_call.script(candidate)
        except ValueError:
            return None
        if end := run(text):
            return candidate, end
    return None


def minimise(
    call: Call, end: End, budget_seconds: float, run: Callable[[str], End] = execute
) -> Minimised:
    """Takes every step that keeps the end, until none does or the time is used up."""
    deadline = time.monotonic() + budget_seconds
    script = repro_call.script(call)
    tried = steps = 0
    seen = {script}
    progress = True
    while progress and time.monotonic() < deadline:
        progress = False
        for candidate in _candidates(call):
            if time.monotonic() >= deadline:
                break
            try:
                text = repro_call.script(candidate)
            except (ValueError, RuntimeError):
                continue
            if text in seen:
                continue
            seen.add(text)
            tried += 1
            ended = run(text)
            if ended == end:
                call, script, end, progress = candidate, text, ended, True
                steps += 1
                break
    return Minimised(script, end, tried, steps)


def _candidates(call: Call) -> list[Call]:
    try:
        return list(repro_call.smaller(call))
    except RuntimeError:
        return []  # a tensor of a kind that cannot be cut


def answer(request: dict[str, Any], device: Device) -> dict[str, Any]:
    """The smallest script of a case that fails, or why there is none.

    `request` has the words of the case key taken apart, the tolerance of its comparison, and how
    many seconds the search may take.
    """
    task = OperatorTask(request["entry"], request["sample"], request["error_input"])
    execute_request = Execute(
        case=request["case"],
        task=task,
        dtype=Dtype(request["dtype"]),
        mode=Mode(request["mode"]),
        train=request["train"],
        layout=request["layout"],
        seed=0,
        exchange="",
        breadcrumb=None,
        record_operators=False,
    )
    tolerance = Tolerance(request["rtol"], request["atol"])
    call = repro_call.of_case(execute_request, task, device, tolerance)
    if call is None:
        return {"problem": "it is no call of a function, so its script is the one kept with it"}
    begun = begin(replace(call, refused=request["refused"]))
    if begun is None:
        return {"problem": "a script of this call alone does not fail, or cannot be written"}
    found = minimise(*begun, budget_seconds=request["seconds"])
    return {
        "script": found.script,
        "kind": found.end.kind,
        "said": found.end.said,
        "tried": found.tried,
        "steps": found.steps,
    }
