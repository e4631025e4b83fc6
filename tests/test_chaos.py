"""Workers, the fork server and the runner are killed at random, and nothing is lost or changed.

The short form, on `faulty` with some of its faults. `scripts/chaos` runs the full one.
"""

from __future__ import annotations

from pathlib import Path

from chaos import RETRIES, Chaos, attempts
from conftest import PROGRAMS

FAULTS = {
    "abs": "wrong-value",
    "floor": "abort",
    "tan": "poison",
    "exp": "nan",
    "neg": "abort-inside",
}


def test_a_run_whose_processes_are_killed_ends_as_an_undisturbed_one(
    python: str, tmp_path: Path
) -> None:
    entries = ["add", "sub", "mul", "sin", "cos", "sqrt", "log", "atan", "sigmoid", "tanh", *FAULTS]
    selection = tmp_path / "selection.txt"
    selection.write_text("\n".join(entries))
    arguments = ["--suite", "operators", "--device", "faulty", "--jobs", "2", "--python", python]
    arguments += ["--selection", str(selection), "--samples", "2", "--retries", str(RETRIES)]
    arguments += ["--dtype", "float32", "--dtype", "float16"]
    arguments += [f"--fault={entry}={rule}" for entry, rule in FAULTS.items()]
    chaos = Chaos(
        program=PROGRAMS / "runner",
        folder=tmp_path / "runs",
        arguments=arguments,
        seed=11,
        # Most kills fall between two cases, which take milliseconds: one of so many hits one.
        workers_killed=18,
        fork_servers_killed=1,
        runners_killed=1,
    )
    chaos.folder.mkdir()
    report = chaos.run()
    assert report.problems() == [], report.words()
    assert report.kills["runner"] == 1, report.words()
    assert report.kills["worker"] >= 9, report.words()
    lost = [attempt for attempt in attempts(report.storm) if attempt["outcome"] == "infra"]
    assert lost, "no kill hit a case: this test has tested nothing"
