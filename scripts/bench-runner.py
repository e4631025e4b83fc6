"""Figures of the runner, each with its goal: how much it costs beside a loop that does without it.

`bench-runner.py RUNNER PYTHON FIGURES.json` appends {name, value, unit, goal, met} to the list in
FIGURES.json. Ratios are of the same cases in the same run of this program, so that they mean
something on any machine; on one that does something else beside, they wander. Settings:
`BENCH_STRIDE` (of all operator entries each n-th is taken; 1 is all), `BENCH_TRIVIAL` (trivial
cases), `BENCH_ONLY` (names of the parts, with commas).
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAKE_WORKER = ROOT / "runner/tests/it/fake_worker"
CRASHING = "index_reduce.mean"
"""Aborts in torch_tpu, on hardware and simulated alike."""


@dataclass
class Figure:
    name: str
    value: float
    unit: str
    goal: float
    met: bool


@dataclass
class Ended:
    """A run as its journal tells it; times are seconds since the epoch."""

    code: int
    begun: float
    first: float
    last: float
    attempts: list[dict[str, object]]
    peak_mib: float
    folder: Path

    @property
    def per_second(self) -> float:
        return len(self.attempts) / (self.last - self.first)


class Bench:
    def __init__(self, runner: Path, python: str, folder: Path) -> None:
        self.runner, self.python, self.folder = runner, python, folder
        self.figures: list[Figure] = []
        self.runs = 0

    def at_least(self, name: str, value: float, goal: float, unit: str = "times") -> None:
        self.add(Figure(name, value, unit, goal, value >= goal))

    def below(self, name: str, value: float, goal: float, unit: str) -> None:
        self.add(Figure(name, value, unit, goal, value < goal))

    def add(self, figure: Figure) -> None:
        self.figures.append(figure)
        word = "met" if figure.met else "NOT met"
        print(
            f"{figure.name:<55} {figure.value:>8.2f} {figure.unit:<6} "
            f"goal {figure.goal:>6}  {word}",
            flush=True,
        )

    def selection(self, entries: list[str]) -> Path:
        path = self.folder / f"selection-{len(entries)}.txt"
        path.write_text("\n".join(entries) + "\n")
        return path

    def run(self, arguments: list[str], fake: bool = False) -> Ended:
        self.runs += 1
        runs_dir, key = self.folder / "runs", f"bench-{self.runs}"
        environment = os.environ | {
            "CONFORMANCE_RUNS_DIR": str(runs_dir),
            "CONFORMANCE_PYTHON": self.python,
            "CONFORMANCE_SERVER": "",
        }
        if fake:
            environment["CONFORMANCE_WORKER_PACKAGE"] = str(FAKE_WORKER)
            environment["FAKE_STATE"] = str(self.folder)
        command = [str(self.runner), "--suite=operators", f"--run-key={key}", *arguments]
        begun = time.time()
        with (self.folder / f"{key}.log").open("wb") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            peak = Peak(process.pid)
            code = process.wait()
        folder = runs_dir / key
        attempts, first, last = [], float("inf"), 0.0
        if code not in (0, 1):
            sys.exit((self.folder / f"{key}.log").read_text()[-3000:])
        with (folder / "journal.jsonl").open() as journal:
            for line in journal:
                record = json.loads(line)
                if record["record"] == "attempt":
                    start = datetime.fromisoformat(record["started_at"]).timestamp()
                    end = start + record["seconds"]
                    first, last = min(first, start), max(last, end)
                    attempts.append({k: record[k] for k in ("case", "outcome")} | {"end": end})
        return Ended(code, begun, first, last, attempts, peak.mib(), folder)


class Peak:
    """Watches the largest resident memory of one process, without its children."""

    def __init__(self, pid: int) -> None:
        self.pid, self.kib = pid, 0
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self) -> None:
        while True:
            try:
                status = Path(f"/proc/{self.pid}/status").read_text()
            except OSError:
                return
            lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
            if not lines:  # a zombie has none
                return
            self.kib = max(self.kib, int(lines[0].split()[1]))
            time.sleep(0.05)

    def mib(self) -> float:
        self.thread.join()
        return self.kib / 1024


def operators(bench: Bench) -> None:
    """Cases per second on the CPU, beside a bare loop and pytest."""
    stride = int(os.environ.get("BENCH_STRIDE", "4"))
    names = subprocess.run(
        [
            bench.python,
            "-c",
            "from torch.testing._internal.common_methods_invocations import op_db\n"
            "print('\\n'.join(sorted(entry.full_name for entry in op_db)))",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    selection = bench.selection(names[::stride])
    fixed = ["--device=cpu", f"--selection={selection}", "--samples=4", "--retries=0"]
    one = bench.run([*fixed, "--jobs=1"])
    keys = bench.folder / "cases.txt"
    manifest = json.loads((one.folder / "manifest.json").read_text())["cases"]
    keys.write_text("\n".join(manifest) + "\n")
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "BENCH_CASES": str(keys)}
    script = ROOT / "scripts/bench_cases.py"
    bare = json.loads(
        subprocess.run(
            [bench.python, script, keys], env=environment, capture_output=True, check=True
        ).stdout
    )
    tools = subprocess.run(
        [bench.runner, "setup", "--tools"], capture_output=True, text=True, check=True
    ).stdout.strip()
    begun = time.time()
    subprocess.run(
        [
            bench.python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--no-header",
            "--tb=no",
            script,
        ],
        env=environment | {"PYTHONPATH": tools, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    pytest_seconds = time.time() - begun
    two = bench.run([*fixed, "--jobs=2"])
    count = len(manifest)
    print(
        f"{count} cases: bare loop {bare['seconds']:.1f} s, pytest {pytest_seconds:.1f} s, "
        f"one worker {one.last - one.first:.1f} s, two workers {two.last - two.first:.1f} s",
        flush=True,
    )
    bench.at_least(
        "operators on cpu, one worker, of a bare loop",
        one.per_second * bare["seconds"] / count,
        0.8,
    )
    bench.at_least(
        "operators on cpu, one worker, of pytest", one.per_second * pytest_seconds / count, 20
    )
    bench.at_least("operators on cpu, two workers, of one", two.per_second / one.per_second, 1.7)


def replacement(bench: Bench) -> None:
    """From the order to start a worker to its first answered case, after an abort."""
    selection = bench.selection(["add", CRASHING, "mul"])
    ended = bench.run(
        ["--device=tpu-sim", f"--selection={selection}", "--samples=3", "--retries=0", "--jobs=1"]
    )
    cold = min(float(str(attempt["end"])) for attempt in ended.attempts) - ended.begun
    ends = sorted((float(str(a["end"])), str(a["outcome"])) for a in ended.attempts)
    times = []
    for (crashed, outcome), (answered, _) in itertools.pairwise(ends):
        if outcome == "crash":
            births = [
                float(subprocess.check_output(["stat", "-c", "%.6W", log]))
                for log in (ended.folder / "logs").iterdir()
            ]
            started = [birth for birth in births if crashed < birth < answered]
            if started:
                # A worker before it names the operator of the crash; the last one goes on.
                times.append(answered - max(started))
    if not times:
        sys.exit(f"nothing aborted on tpu-sim: {ends}")
    print(
        f"{len(times)} replacements: {', '.join(f'{t:.2f} s' for t in times)}; cold start with the "
        f"listing of cases {cold:.1f} s, {cold / max(times):.0f} times as long",
        flush=True,
    )
    bench.below("replacement worker on tpu-sim, first case", max(times), 1.0, "s")


def trivial(bench: Bench) -> None:
    """Cases that take no time: what is left is the runner, and a worker in plain Python."""
    count = int(os.environ.get("BENCH_TRIVIAL", "100000"))
    selection = bench.selection([f"pass.{number}" for number in range(count)])
    ended = bench.run(
        ["--device=cpu", f"--selection={selection}", "--samples=1", "--recycle-after=1000000"],
        fake=True,
    )
    seconds = (ended.last - ended.first) / len(ended.attempts)
    bench.below("runner memory over trivial cases", ended.peak_mib, 200, "MiB")
    bench.below("one trivial case, worker included", seconds * 1e3, 2.0, "ms")


PARTS = {"operators": operators, "replacement": replacement, "trivial": trivial}


def main() -> None:
    runner, python, path = Path(sys.argv[1]).resolve(), sys.argv[2], Path(sys.argv[3])
    wanted = os.environ.get("BENCH_ONLY", ",".join(PARTS)).split(",")
    with tempfile.TemporaryDirectory(prefix="bench-runner-") as folder:
        bench = Bench(runner, python, Path(folder))
        for name in wanted:
            load = os.getloadavg()[0]
            print(f"\n{name} (load {load:.1f} on {os.cpu_count()} processors)", flush=True)
            PARTS[name](bench)
    known = json.loads(path.read_text()) if path.exists() else []
    names = {figure.name for figure in bench.figures}
    kept = [figure for figure in known if figure["name"] not in names]
    path.write_text(json.dumps(kept + [asdict(figure) for figure in bench.figures], indent=2))


if __name__ == "__main__":
    main()
