"""What breadcrumbs cost: the same operator cases, and one small operator, with and without them.

`bench-breadcrumb.py LIBRARY FIGURES.json`, with the worker package on PYTHONPATH. An observer is
never taken out again, so each side is a process of its own; the sides take turns, and the best of
several rounds counts. It is processor time: what else the machine does is no cost of theirs.
Figures are added to the file as {name, value, unit, goal, met}.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

ROUNDS = 3
ENTRIES = 400
CALLS = 20_000
FILE_BYTES = 64 + 32 * 2048
GOAL_RATIO = 0.95
GOAL_NANOSECONDS = 1000.0


def measure() -> None:
    """Prints seconds of the cases, and seconds per small operator, of this process."""
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    import torch
    from conformance_worker import breadcrumb, operators

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    wanted = breadcrumb.LIBRARY_VARIABLE in os.environ
    if wanted and (problem := breadcrumb.install()):
        sys.exit(f"no breadcrumbs: {problem}")
    entries = list(operators.entries().values())
    calls = []
    for entry in entries[:: max(1, len(entries) // ENTRIES)]:
        if torch.float32 in getattr(entry, "dtypes", ()):
            samples = list(entry.sample_inputs("cpu", torch.float32))[:4]
            calls += [(entry.op, s.input, s.args, s.kwargs) for s in samples]
    usable = []
    for operator, first, args, kwargs in calls:
        try:
            output = operator(first, *args, **kwargs)
            torch.testing.assert_close(output, output, equal_nan=True)
            usable.append((operator, first, args, kwargs))
        except Exception:  # a sample that does not run says nothing about cost
            continue
    begun = time.process_time()
    for operator, first, args, kwargs in usable:
        output = operator(first, *args, **kwargs)
        torch.testing.assert_close(output, output, equal_nan=True)
    cases = time.process_time() - begun
    small = torch.ones(4)
    begun = time.process_time()
    for _ in range(CALLS):
        torch.add(small, small)
    print(json.dumps([cases, (time.process_time() - begun) / CALLS, len(usable)]))


def best(library: str | None) -> list[float]:
    environment = dict(os.environ)
    with tempfile.NamedTemporaryFile() as file:
        if library is not None:
            file.write(bytes(FILE_BYTES))
            file.flush()
            environment["CONFORMANCE_BREADCRUMB_LIBRARY"] = library
            environment["CONFORMANCE_BREADCRUMB_FILE"] = file.name
        command = [sys.executable, __file__, "measure"]
        output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    return [float(number) for number in json.loads(output.stdout.splitlines()[-1])]


def main() -> None:
    library, figures = sys.argv[1], Path(sys.argv[2])
    without, having = [], []
    for _ in range(ROUNDS):
        without.append(best(None))
        having.append(best(library))
    plain, crumbs = (
        [min(column) for column in zip(*side, strict=True)] for side in (without, having)
    )
    ratio, cost = plain[0] / crumbs[0], (crumbs[1] - plain[1]) * 1e9
    found = [
        ("breadcrumbs: operator cases per second, with / without", ratio, "ratio", GOAL_RATIO),
        ("breadcrumbs: cost of one operator", cost, "ns", GOAL_NANOSECONDS),
    ]
    written = json.loads(figures.read_text()) if figures.exists() else []
    for name, value, unit, goal in found:
        met = value <= goal if unit == "ns" else value >= goal
        bound = "at most" if unit == "ns" else "at least"
        print(f"{name}: {value:.3g} {unit} (goal: {bound} {goal:g}, {'met' if met else 'NOT met'})")
        figure = {"name": name, "value": value, "unit": unit, "goal": goal, "met": met}
        written = [other for other in written if other["name"] != name] + [figure]
    figures.write_text(json.dumps(written, indent=2) + "\n")


if __name__ == "__main__":
    measure() if sys.argv[1:] == ["measure"] else main()
