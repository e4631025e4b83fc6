"""What a worker process asks of the kernel, by `ctypes` where Python has no word for it.

Linux only, as every device is.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def die_with_parent(parent: int) -> None:
    """Asks for SIGKILL when the parent ends; ends now if it has ended already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Makes this process the new parent of descendants whose own parent has ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children() -> list[int]:
    """Process ids whose parent is this process, the ended ones too."""
    tasks = Path(f"/proc/{os.getpid()}/task")
    found: list[int] = []
    for task in tasks.iterdir():
        try:
            found += [int(pid) for pid in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


def limit_address_space(size_bytes: int) -> None:
    """Sets `RLIMIT_AS`, so that a hungry case meets an error instead of taking the host down."""
    resource.setrlimit(resource.RLIMIT_AS, (size_bytes, size_bytes))


def redirect_output(path: str) -> None:
    """Puts file descriptors 1 and 2 on `path`, appended to; native code writes there too."""
    sys.stdout.flush()
    sys.stderr.flush()
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def kill_group(leader: int) -> None:
    """Sends SIGKILL to a process group and its leader, ended or not."""
    for kill in (os.killpg, os.kill):
        try:
            kill(leader, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
