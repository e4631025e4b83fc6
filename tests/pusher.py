"""Pushes a run message by message, for what no honest runner would send, or not yet."""

from __future__ import annotations

import hashlib
import json
import time
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from conftest import Service

SOURCE = {"journal": "4f1c2a9be07d4c55", "shard": 1, "shards": 1}


@dataclass
class PushedRun:
    """A run with its plan; what it says is up to the test."""

    service: Service
    run_key: str
    device_profile: str
    cases: list[str]
    attempts: int = 0
    token: str = field(init=False)

    def __post_init__(self) -> None:
        self.token = self.service.token(f"pusher-{time.time_ns()}")

    def _send(self, method: str, path: str, body: dict[str, Any]) -> None:
        request = urllib.request.Request(
            f"{self.service.url}/api/v1/runs{path}",
            data=json.dumps(body).encode(),
            method=method,
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status < 300

    def announce(self, **claims: Any) -> None:
        """With the manifest."""
        body = {
            "protocol_version": 1,
            "run_key": self.run_key,
            "suites": sorted({case.split("/")[0] for case in self.cases}),
            "device_profile": self.device_profile,
            "device_kind": "pushed by a test",
            "simulated": False,
            "versions": {"torch": "2.15.0"},
            "host": "test",
            "started_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "labels": {},
        }
        self._send("POST", "", body | claims)
        text = "".join(f"{case}\n" for case in self.cases)
        manifest = {"hash": hashlib.sha256(text.encode()).hexdigest(), "cases": self.cases}
        self._send("PUT", f"/{self.run_key}/manifest", manifest)

    def deliver(self, results: list[dict[str, Any]]) -> None:
        self.attempts += len(results)
        self._send("POST", f"/{self.run_key}/results", {"source": SOURCE, "results": results})

    def seal(self) -> None:
        finished_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        body = {"source": SOURCE, "attempts": self.attempts, "finished_at": finished_at}
        self._send("POST", f"/{self.run_key}/seal", body)


def attempt(case: str, outcome: str, **changes: Any) -> dict[str, Any]:
    """A plain attempt at a case."""
    passed = outcome == "pass"
    body = {
        "case": case,
        "attempt": 1,
        "outcome": outcome,
        "stage": None if passed else "execute",
        "error_class": "" if passed else "RuntimeError",
        "message": "" if passed else "it broke",
        "started_at": "2026-11-30T05:12:00Z",
        "seconds": 0.25,
        "evidence": {
            "device_used": "cpu",
            "fallback_operators": [],
            "stage_seconds": {},
            "comparisons": [],
            "reference": "",
            "seed": 7,
            "substitutions": [],
            "notes": [],
            "log": {"head": "", "tail": "", "dropped_bytes": 0},
        },
    }
    return body | changes
