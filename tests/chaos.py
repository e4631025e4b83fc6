"""A run whose workers, fork server and runner are killed at random, beside one that is left alone.

`test_chaos.py` runs a short form; `scripts/chaos` the full one, which prints what came of it. Which
process dies, and after how many attempts, is decided by a seed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

INCONCLUSIVE = ("infra", "host-limit", "skipped")
"""Outcomes of attempts that count only where a case has no other, as in the runner's summary."""

RETRIES = 8
"""So many that no case loses all its attempts to kills that only hit it by chance."""


@dataclass
class Chaos:
    """What is run, and how often what is killed."""

    program: Path
    folder: Path
    arguments: list[str]
    seed: int
    workers_killed: int
    fork_servers_killed: int
    runners_killed: int
    environment: dict[str, str] = field(default_factory=dict)

    def run(self) -> Report:
        """Runs both; nothing is judged here."""
        begun = time.monotonic()
        code = self._process("calm").wait()
        assert code in (0, 1), f"the undisturbed run ended with {code}: {self._log('calm')}"
        calm_seconds = time.monotonic() - begun
        begun = time.monotonic()
        calm = self._run_folder("calm")
        assert calm is not None, self._log("calm")
        kills = self._storm(len(attempts(calm)))
        storm = self._run_folder("storm")
        assert storm is not None, self._log("storm")
        return Report(
            calm=calm,
            storm=storm,
            kills=kills,
            calm_seconds=calm_seconds,
            storm_seconds=time.monotonic() - begun,
        )

    def _process(self, key: str, *, resume: bool = False) -> subprocess.Popen[bytes]:
        command = [str(self.program)]
        if resume:
            folder = self._run_folder(key)
            assert folder is not None, f"there is nothing to resume: {self._log(key)}"
            command += ["resume", folder.name]
        else:
            command += [*self.arguments, f"--run-key={key}"]
        command += ["--runs-dir", str(self.folder)]
        log = open(self.folder / f"{key}.log", "ab")  # noqa: SIM115, lives as long as the process
        environment = os.environ | self.environment
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def _run_folder(self, key: str) -> Path | None:
        """Folder of a run or of its only shard; nothing before its first case."""
        return next((path.parent for path in self.folder.glob(f"{key}*/manifest.json")), None)

    def _log(self, key: str) -> str:
        return (self.folder / f"{key}.log").read_text(errors="replace")[-2000:]

    def _storm(self, length: int) -> Counter[str]:
        """Kills by plan until the plan is used up, then lets the run come to its end."""
        chance = random.Random(self.seed)
        what = ["worker"] * self.workers_killed + ["fork server"] * self.fork_servers_killed
        what += ["runner"] * self.runners_killed
        chance.shuffle(what)
        moments = sorted(chance.sample(range(1, max(2, length * 9 // 10)), len(what)))
        kills: Counter[str] = Counter()
        process = self._process("storm")
        for moment, victim in zip(moments, what, strict=True):
            while self._attempts_made() < moment and process.poll() is None:
                time.sleep(0.01)
            if process.poll() is not None:
                break
            if victim == "runner":
                process.kill()
                process.wait()
                process = self._process("storm", resume=True)
                kills[victim] += 1
            else:
                kills[victim] += kill_below(process.pid, victim, chance)
        while (code := process.wait()) not in (0, 1):
            assert code == 3, f"the run ended with {code}: {self._log('storm')}"
            before = self._attempts_made()
            kills["resumed after an abort"] += 1
            process = self._process("storm", resume=True)
            assert process.wait() in (0, 1) or self._attempts_made() > before, self._log("storm")
        return kills

    def _attempts_made(self) -> int:
        folder = self._run_folder("storm")
        journal = folder / "journal.jsonl" if folder is not None else None
        if journal is None or not journal.exists():
            return 0
        return journal.read_bytes().count(b'{"record":"attempt"')


def kill_below(runner: int, victim: str, chance: random.Random) -> int:
    """Kills a worker or the fork server of a runner; gives how many there were to kill."""
    fork_servers = children(runner)
    found = fork_servers
    if victim == "worker":
        found = [worker for pid in fork_servers for worker in children(pid)]
    if not found:
        return 0
    try:
        os.kill(chance.choice(found), signal.SIGKILL)
    except ProcessLookupError:
        return 0
    return 1


def children(pid: int) -> list[int]:
    """Process ids of the children, sorted."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(word) for word in path.read_text().split()]
        except OSError:
            continue
    return sorted(found)


def attempts(run: Path) -> list[dict[str, Any]]:
    """Attempts in the journal of a run, in order."""
    found = []
    for line in (run / "journal.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["record"] == "attempt":
            found.append(record)
    return found


def verdicts(run: Path) -> dict[str, str]:
    """What the attempts of each case amount to, as the runner and the server sum them up."""
    by_case: dict[str, list[str]] = {}
    for attempt in attempts(run):
        by_case.setdefault(attempt["case"], []).append(attempt["outcome"])
    result = {}
    for case, outcomes in by_case.items():
        conclusive = [outcome for outcome in outcomes if outcome not in INCONCLUSIVE]
        told = [outcome for outcome in outcomes if outcome != "infra"]
        kinds = sorted(set(conclusive or told or outcomes))
        result[case] = kinds[0] if len(kinds) == 1 else f"flaky {'/'.join(kinds)}"
    return result


@dataclass
class Report:
    """Two runs of one plan."""

    calm: Path
    storm: Path
    kills: Counter[str]
    calm_seconds: float
    storm_seconds: float

    @property
    def planned(self) -> list[str]:
        """Planned case keys, of the shard where it is one."""
        summary = json.loads((self.calm / "summary.json").read_text())
        return [case["case"] for case in summary["cases"]]

    def problems(self) -> list[str]:
        """Everything that is not as it must be, one line each."""
        found = []
        runs = (self.calm, self.storm)
        mine, other = (json.loads((run / "manifest.json").read_text()) for run in runs)
        if mine["hash"] != other["hash"]:
            found.append("the manifests differ")
        times = Counter((a["case"], a["attempt"]) for a in attempts(self.storm))
        found += [f"{case}, attempt {n}: {c} times" for (case, n), c in times.items() if c > 1]
        calm, storm = verdicts(self.calm), verdicts(self.storm)
        for case in self.planned:
            one, two = calm.pop(case, "missing"), storm.pop(case, "missing")
            if one != two or one == "missing":
                found.append(f"{case}: {one} undisturbed, {two} disturbed")
        found += [f"{case}: not planned" for case in [*calm, *storm]]
        return found

    def words(self) -> str:
        """For people."""
        counts = Counter(verdicts(self.calm).values())
        lost = sum(1 for a in attempts(self.storm) if a["outcome"] == "infra")
        lines = [
            f"{len(self.planned)} cases: "
            + ", ".join(f"{count} {word}" for word, count in counts.most_common()),
            f"undisturbed {self.calm_seconds:.0f} s, disturbed {self.storm_seconds:.0f} s",
            "killed: " + ", ".join(f"{count} {word}" for word, count in self.kills.items()),
            f"{lost} attempts were lost to kills and made again",
            f"{len(self.problems())} differences",
        ]
        return "\n".join([*lines, *self.problems()[:50]])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runner", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=30, help="how many workers are killed")
    parser.add_argument("--fork-servers", type=int, default=2)
    parser.add_argument("--runners", type=int, default=3)
    parser.add_argument("arguments", nargs="+", help="after `--`: arguments of the runner")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    chaos = Chaos(
        program=given.runner,
        folder=given.folder,
        arguments=given.arguments,
        seed=given.seed,
        workers_killed=given.workers,
        fork_servers_killed=given.fork_servers,
        runners_killed=given.runners,
    )
    report = chaos.run()
    print(report.words())
    return 1 if report.problems() else 0


if __name__ == "__main__":
    sys.exit(main())
