"""Every way in which a device can be broken, produced on purpose on the `faulty` device by the real
worker, is called by its name by the real runner, and costs the others nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from chaos import attempts
from conftest import Runner

EXPECTED = {
    "add": ("wrong-value", "mismatch", "values-differ"),
    "sub": ("wrong-dtype", "mismatch", "structure-differs"),
    "mul": ("wrong-shape", "mismatch", "structure-differs"),
    "exp": ("nan", "mismatch", "non-finite"),
    "sin": ("padding-leak", "mismatch", "values-differ"),
    "asin": ("write-input", "mismatch", "MismatchError"),
    "acos": ("write-neighbour", "mismatch", "MemoryCorruptionError"),
    "sinh": ("warned-fallback", "fallback", "FallbackError"),
    "cosh": ("warned-fallback", "fallback", "FallbackError"),
    "cos": ("silent-fallback", "fallback", "FallbackError"),
    "tan": ("poison", "error", "PoisonedError"),
    "abs": ("abort", "crash", "SIGABRT"),
    "neg": ("hang", "timeout", "execute-timeout"),
    "nn.functional.linear": ("abort-inside", "crash", "SIGABRT"),
    "fmod": ("hang-inside", "timeout", "execute-timeout"),
    "floor": ("memory-hog", "oom", "RuntimeError"),
    "round": ("disk-full", "infra", "OSError"),
    "ceil": ("noisy", "pass", ""),
    "sqrt": ("slow", "pass", ""),
    "sigmoid": ("abort-at-exit", "pass", ""),
    "tanh": ("leave-child", "pass", ""),
}
"""Rule, outcome and error class by operator entry; every other entry must pass."""

UNTOUCHED = ("hypot", "atan", "log")


def test_every_fault_is_called_by_its_name(runner: Runner, tmp_path: Path) -> None:
    selection = tmp_path / "selection.txt"
    selection.write_text("\n".join([*EXPECTED, *UNTOUCHED]))
    faults = [f"--fault={entry}={rule}" for entry, (rule, _, _) in EXPECTED.items()]
    command = runner.command(
        "e2e-faulty",
        *("--suite", "operators", "--selection", str(selection), "--samples", "1"),
        *("--device", "faulty", "--retries", "0", "--execute-timeout", "30"),
        *("--address-space-mib", "8000", *faults),
    )
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 1, process.stdout + process.stderr

    attempts = {}
    for line in (runner.runs / "e2e-faulty" / "journal.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["record"] == "attempt":
            entry = record["case"].split(":")[1].split("#")[0]
            assert entry not in attempts, f"`{entry}` was executed twice"
            attempts[entry] = record
    seen = {e: (a["outcome"], a.get("error_class", "")) for e, a in attempts.items()}
    wanted = {entry: (outcome, error) for entry, (_, outcome, error) in EXPECTED.items()}
    assert seen == wanted | dict.fromkeys(UNTOUCHED, ("pass", ""))

    noisy = attempts["ceil"]["evidence"]["log"]
    assert noisy["dropped_bytes"] > 1 << 30, "a GiB was written"
    assert len(noisy["head"]) + len(noisy["tail"]) < 20_000
    stack = attempts["neg"]["evidence"]["log"]
    assert "most recent call first" in stack["head"] + stack["tail"], "no stack of the hanging case"
    for entry, operator in (("nn.functional.linear", "aten::linear"), ("fmod", "aten::fmod")):
        assert attempts[entry]["operator"].startswith(operator), attempts[entry]
    last = attempts["floor"]["evidence"]["last_operator"]
    assert last == {"overload": "aten::ones", "source": "breadcrumb"}, "what ran out of memory"
    repro = attempts["abs"]["evidence"]["repro"]
    assert "torch" in repro, "a crash keeps its repro"


def test_a_case_that_poisons_the_device_and_passes_is_named(runner: Runner, tmp_path: Path) -> None:
    selection = tmp_path / "selection.txt"
    selection.write_text("add\natan\ncos\nmul\nsin\n")
    command = runner.command(
        "e2e-order",
        *("--suite", "operators", "--selection", str(selection), "--samples", "1"),
        *("--device", "faulty", "--fault=cos=poison-later"),
    )
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 1, process.stdout + process.stderr
    culprit = "operators/opinfo:cos#0/float32.eager.forward"
    victim = "operators/opinfo:mul#0/float32.eager.forward"
    finding = f"order: `{victim}` ends as error after `{culprit}` in the same process"
    assert finding in process.stdout
    outcomes: dict[str, list[str]] = {}
    for attempt in attempts(runner.runs / "e2e-order"):
        outcomes.setdefault(attempt["case"].split("#")[0][17:], []).append(attempt["outcome"])
    assert outcomes.pop("mul") == ["error", "pass"]
    assert outcomes == {entry: ["pass"] for entry in ("add", "atan", "cos", "sin")}
