#!/usr/bin/env python3
"""Re-dates real runs over many nights, to see a long trend before there were so many nights.

    server export --run GOOD --run BAD | scripts/redate.py 90 | server import

Reads what `server export` writes and writes the runs again, one for each of the last N nights: the
first run for every second stretch of nights, the others in turn for those between. Every result is
one that was really observed; only keys and dates are new, and the label `redated_from` says so in
each run.
"""

from __future__ import annotations

import datetime
import json
import sys
from typing import Any

STRETCH = 9
"""Nights after which something changes, and changes back."""


def read_runs(lines: list[str]) -> list[list[dict[str, Any]]]:
    """The messages of each run, in the order in which they came."""
    runs: list[list[dict[str, Any]]] = []
    for line in lines:
        message = json.loads(line)
        if "run" in message:
            runs.append([])
        runs[-1].append(message)
    return runs


def moved(value: Any, by: datetime.timedelta) -> Any:
    """The same with every `started_at` and `finished_at` moved."""
    if isinstance(value, list):
        return [moved(one, by) for one in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for name, own in value.items():
        if name in ("started_at", "finished_at") and isinstance(own, str):
            time = datetime.datetime.fromisoformat(own) + by
            result[name] = time.isoformat().replace("+00:00", "Z")
        else:
            result[name] = moved(own, by)
    return result


def main() -> None:
    arguments = sys.argv[1:]
    if len(arguments) != 1 or not arguments[0].isdecimal() or int(arguments[0]) == 0:
        sys.exit("error: the one argument is a number of nights\n\nhint: `scripts/redate.py 90`")
    nights = int(arguments[0])
    runs = read_runs([line for line in sys.stdin if line.strip()])
    if not runs:
        sys.exit("error: no run on standard input\n\nhint: `server export --run KEY` writes one")
    today = datetime.datetime.now(datetime.UTC).replace(hour=2, minute=0, second=0, microsecond=0)
    for night in range(nights):
        stretch = night // STRETCH
        others = runs[1:] or runs
        # Every second stretch is that of the first run.
        chosen = runs[0] if stretch % 2 == 0 else others[stretch // 2 % len(others)]
        began = today - datetime.timedelta(days=nights - 1 - night)
        announced = chosen[0]["run"]
        by = began - datetime.datetime.fromisoformat(announced["started_at"])
        for message in chosen:
            fresh = moved(message, by)
            if "run" in fresh:
                fresh["run"]["labels"] |= {"redated_from": announced["run_key"]}
                fresh["run"]["run_key"] = f"redated-{began:%Y-%m-%d}"
            print(json.dumps(fresh))


if __name__ == "__main__":
    main()
