"""Command line: `fork-server` and `worker`. Started by the runner, seldom by hand."""

from __future__ import annotations

import argparse
import gc
import json
import sys
from pathlib import Path

from conformance_worker import environment, fork_server
from conformance_worker.link import Link

PROFILES = ("tpu", "tpu-sim", "cuda", "cpu", "faulty")
"""Written out, since `devices` cannot be imported before torch."""

EXIT_USAGE = 2
EXIT_IMPORT_FAILED = 3


def main() -> int:
    """Reads the command line and serves."""
    arguments = _parser().parse_args()
    environment.prepare()
    if arguments.command == "repro":
        return _repro(arguments)
    try:
        link = Link.connect(arguments.link)
    except OSError as error:
        print(f"cannot connect to `{arguments.link}`: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    try:
        device, versions = environment.load(arguments.device)
    except environment.ImportFailedError as error:
        return _say_failed(link, arguments.command, error)
    number: int = getattr(arguments, "worker", 0)
    if arguments.command == "fork-server":
        # What was imported lives for ever: collections in the workers need not walk it, and the
        # pages stay shared.
        gc.collect()
        gc.freeze()
        spawn = fork_server.serve(link, versions)
        if spawn is None:
            return 0
        # From here on this is a forked worker, with a link and a log of its own.
        link, number = Link.connect(spawn.link), spawn.worker
    from conformance_worker import worker

    worker.serve(link, number, device)
    return 0


def _repro(arguments: argparse.Namespace) -> int:
    """Writes the smallest script of a failure; it forks, so there is no link to the runner."""
    try:
        device, _ = environment.load(arguments.device)
    except environment.ImportFailedError as error:
        print(f"{error}\n\nhint: {error.hint}", file=sys.stderr)
        return EXIT_IMPORT_FAILED
    from conformance_worker import minimise

    request = json.loads(arguments.request.read_text(encoding="utf-8"))
    found = minimise.answer(request, device)
    arguments.answer.write_text(json.dumps(found), encoding="utf-8")
    return 0


def _say_failed(link: Link, command: str, error: environment.ImportFailedError) -> int:
    from conformance_worker.messages import Failed

    lines = [line for line in str(error).splitlines() if line.strip()]
    message = lines[0] if lines else type(error.cause).__name__
    if command == "fork-server":
        link.send(Failed(type(error.cause).__name__, message, error.hint))
    else:
        print(f"{message}\n\nhint: {error.hint}", file=sys.stderr)
    return EXIT_IMPORT_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="conformance_worker", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("fork-server", "worker"):
        command = commands.add_parser(name)
        command.add_argument("--device", required=True, choices=PROFILES)
        command.add_argument("--link", required=True, help="Unix socket that the runner listens on")
        if name == "worker":
            command.add_argument("--worker", type=int, default=0, help="its number in the run")
    command = commands.add_parser("repro")
    command.add_argument("--device", required=True, choices=PROFILES)
    command.add_argument("--request", required=True, type=Path, help="JSON file with the case")
    command.add_argument("--answer", required=True, type=Path, help="JSON file to write")
    return parser


if __name__ == "__main__":
    sys.exit(main())
