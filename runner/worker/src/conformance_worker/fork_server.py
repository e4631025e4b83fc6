"""The fork server: imports everything once, then forks a worker in milliseconds on demand.

It never creates a device client and runs no tensor operation, because neither survives a fork:
the backend refuses one once its client exists, and OpenMP's threads are not there in the child.
It ends, with everything it started, when the link to the runner ends.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
from dataclasses import dataclass

from conformance_worker import messages, process
from conformance_worker.link import Link
from conformance_worker.messages import Exited, Ready, Spawn, Spawned


@dataclass
class Child:
    """A worker that was forked and has not been reaped."""

    worker: int
    log: str


def serve(link: Link, versions: dict[str, str]) -> Spawn | None:
    """Serves until the link ends; everything has been imported already.

    Returns nothing in the fork server itself. In a forked child it returns the request that the
    child is to serve, so that the child's work, and its exit, happen outside this stack.
    """
    process.adopt_orphans()
    server = _Server(link)
    link.send(Ready(messages.LINK_VERSION, os.getpid(), versions))
    return server.loop()


class _Server:
    def __init__(self, link: Link) -> None:
        self._link = link
        self._children: dict[int, Child] = {}
        self._wakeup, self._wakeup_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wakeup_writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def loop(self) -> Spawn | None:
        selector = selectors.DefaultSelector()
        selector.register(self._link, selectors.EVENT_READ)
        selector.register(self._wakeup, selectors.EVENT_READ)
        try:
            while not self._link.ended:
                ready = {key.fileobj for key, _ in selector.select()}
                if self._wakeup in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wakeup, 4096)
                    self._reap()
                if self._link not in ready:
                    continue
                for message in self._link.receive_ready(messages.ToForkServer):
                    if isinstance(message, messages.Stop):
                        self._end_all()
                        return None
                    if (spawn := self._fork(message)) is not None:
                        selector.close()
                        return spawn
        except BrokenPipeError:
            pass
        self._end_all()
        return None

    def _fork(self, spawn: Spawn) -> Spawn | None:
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        in_session, entered = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os.close(in_session)
            os.close(entered)
            self._become_worker(spawn, parent)
            return spawn
        os.close(entered)
        # The child leads its own group before the runner hears of it and may want to kill it.
        os.read(in_session, 1)
        os.close(in_session)
        self._children[pid] = Child(spawn.worker, spawn.log)
        self._link.send(Spawned(spawn.worker, pid))
        return None

    def _become_worker(self, spawn: Spawn, parent: int) -> None:
        process.die_with_parent(parent)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner decides what an interrupt means
        os.close(self._wakeup)
        os.close(self._wakeup_writer)
        self._link.close()
        process.redirect_output(spawn.log)
        os.environ.update(spawn.environment)
        if spawn.address_space_bytes is not None:
            process.limit_address_space(spawn.address_space_bytes)

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self._children.pop(pid, None)
            if child is None:
                continue
            left = self._kill_left_behind(pid)
            if left:
                _append(child.log, f"conformance: killed {left} process(es) that were left behind")
            code = os.waitstatus_to_exitcode(status)
            self._link.send(
                Exited(
                    worker=child.worker,
                    exit_code=code if code >= 0 else None,
                    signal=-code if code < 0 else None,
                    peak_resident_bytes=usage.ru_maxrss * 1024,
                )
            )

    def _kill_left_behind(self, leader: int) -> int:
        """Kills what a worker left: its group, and orphans that moved to a session of their own."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
        return self._kill_strangers()

    def _kill_strangers(self) -> int:
        killed = 0
        # Killing an orphan hands its own children to us: repeat until there is none.
        while strangers := [pid for pid in process.children() if pid not in self._children]:
            for pid in strangers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    _, status = os.waitpid(pid, 0)
                    killed += os.WIFSIGNALED(status)
        return killed

    def _end_all(self) -> None:
        for pid in list(self._children):
            process.kill_group(pid)
        for pid in list(self._children):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
            del self._children[pid]
        self._kill_strangers()


def _append(path: str, line: str) -> None:
    with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as log:
        log.write(line + "\n")
