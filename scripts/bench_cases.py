"""The same operator cases without the runner: in a bare loop, and as parametrised tests.

`python bench_cases.py CASES` executes the loop and prints its seconds as JSON; pytest collects
`test_case` from this file when `BENCH_CASES` names CASES, a file with one case key per line. Both
execute each sample on the CPU twice and compare with `torch.testing.assert_close`, as a test of an
operator does. Neither survives a crash, keeps evidence, or compares with a wider reference.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

ENTRIES = {entry.full_name: entry for entry in op_db}


def cases(path: str) -> list[tuple[str, int]]:
    """Entry and number of the sample, of `operators/opinfo:ENTRY#N/float32.eager.forward`."""
    subjects = [line.split("/")[1] for line in Path(path).read_text().splitlines()]
    parts = [subject.removeprefix("opinfo:").rsplit("#", 1) for subject in subjects]
    return [(entry, int(number)) for entry, number in parts]


def samples(name: str) -> list[Any]:
    torch.manual_seed(7)
    entry = ENTRIES[name]
    return list(entry.sample_inputs("cpu", torch.float32, requires_grad=False))


def execute(name: str, sample: Any) -> None:
    entry = ENTRIES[name]
    actual = entry(sample.input, *sample.args, **sample.kwargs)
    expected = entry(sample.input, *sample.args, **sample.kwargs)
    torch.testing.assert_close(actual, expected, equal_nan=True)


def loop(path: str) -> dict[str, float]:
    torch.set_num_threads(1)
    wanted = cases(path)
    begun = time.perf_counter()
    made: list[Any] = []
    last, failed = "", 0
    for name, number in wanted:
        if name != last:
            last, made = name, samples(name)
        try:
            execute(name, made[number])
        except Exception:
            failed += 1
    return {"cases": len(wanted), "failed": failed, "seconds": time.perf_counter() - begun}


def pytest_generate_tests(metafunc: Any) -> None:
    metafunc.parametrize(("name", "number"), cases(os.environ["BENCH_CASES"]))


def test_case(name: str, number: int) -> None:
    execute(name, samples(name)[number])


if __name__ == "__main__":
    json.dump(loop(sys.argv[1]), sys.stdout)
