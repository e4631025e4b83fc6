"""A scripted worker for the runner's tests: speaks the real link, needs only the standard library.

The name of an operator entry says what the case does (`pass`, `abort`, `hang`, …); the variable
FAKE says what goes wrong before any case. Nothing here pretends to be a device.
"""

import ctypes
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import time

from conformance_worker.wire import OVERLOADS, Link, list_cases, write_tensors


def fork_server(link):
    fake = os.environ.get("FAKE", "")
    if fake == "import-fails":
        link.send(
            type="failed",
            error_class="ModuleNotFoundError",
            message="No module named 'torch'",
            hint="run `runner setup`",
        )
        sys.exit(3)
    if fake == "import-dies":
        print("Segmentation fault in import", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    libc = ctypes.CDLL(None)
    libc.prctl(36, 1, 0, 0, 0)  # orphans of workers come here
    link.send(
        type="ready", link_version=1, pid=os.getpid(), versions={"torch": "0.0.fake", "python": "3"}
    )
    wakeup, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children = {}
    while True:
        ready, _, _ = select.select([link.socket, wakeup], [], [])
        if wakeup in ready:
            os.read(wakeup, 4096)
            reap(link, children)
        if link.socket in ready:
            message = link.receive()
            if message is None or message["type"] == "stop":
                for pid in children:
                    kill_group(pid)
                return
            parent = os.getpid()
            gate, opened = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.setsid()
                os.close(opened)
                os.read(gate, 1)
                libc.prctl(1, signal.SIGKILL, 0, 0, 0)
                if os.getppid() != parent:
                    os._exit(1)
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                link.socket.close()
                worker(message)
                os._exit(0)
            os.close(gate)
            children[pid] = message["worker"]
            link.send(type="spawned", worker=message["worker"], pid=pid)
            os.close(opened)


def kill_group(pid):
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except OSError:
            pass


def reap(link, children):
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid not in children:
            continue
        kill_group(pid)
        code = os.waitstatus_to_exitcode(status)
        link.send(
            type="exited",
            worker=children.pop(pid),
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            peak_resident_bytes=0,
        )


POISONED = False
WARM = False
CRUMBS = -1
HALF = False


def worker(spawn):
    global CRUMBS
    fake = os.environ.get("FAKE", "")
    log = os.open(spawn["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if fake == "workers-die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if (path := spawn["environment"].get("CONFORMANCE_BREADCRUMB_FILE")) and fake != "no-crumbs":
        CRUMBS = os.open(path, os.O_RDWR)
        os.pwrite(CRUMBS, b"CRUMBS2\n" + struct.pack("<I", os.getpid()), 0)
    link = Link(spawn["link"])
    link.send(type="hello", link_version=1, worker=spawn["worker"], pid=os.getpid())
    while (message := link.receive()) is not None:
        kind = message["type"]
        if kind == "stop":
            return
        if kind == "probe":
            probe(link, fake)
        elif kind == "take_inventory":
            link.send(type="inventory", dispatch_key="CPU", overloads=OVERLOADS)
        elif kind == "name_entries":
            link.send(type="entries_named", entries=["crash", "pass"])
        elif kind == "list_operators":
            link.send(type="operators_listed", **list_cases(message), problems={})
        else:
            execute(link, message)


def is_busy():
    """Whether another process has the device: a file that is locked by who has it."""
    with open(os.path.join(os.environ["FAKE_STATE"], "device"), "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        except OSError:
            return True


def fill(folder):
    """Writes until there is no room, and fails as a case does that finds none."""
    try:
        with open(os.path.join(folder, "filling"), "wb", buffering=0) as file:
            for _ in range(64):
                file.write(bytes(1 << 16))
    except OSError as error:
        return failed("infra") | {"error_class": "OSError", "message": str(error)}
    raise SystemExit("there was room for all of it")


def probe(link, fake):
    broken = (
        fake == "probe-fails"
        or POISONED
        or os.path.exists(os.environ.get("FAKE_BROKEN", "/-"))
        or is_busy()
    )
    if broken:
        link.send(
            type="probe_failed",
            error_class="RuntimeError",
            message="the device does not answer",
            hint="look at its cable",
        )
    else:
        link.send(
            type="probed",
            device_kind="fake device",
            device="cpu",
            count=1,
            simulated=False,
            versions={},
        )


def observed(link, message, actual=None, failure=None, **more):
    to_compare = []
    if actual is not None:
        paths = [os.path.join(message["exchange"], name) for name in ("actual", "expected")]
        write_tensors(paths[0], actual)
        golden = message.get("golden")
        if golden:
            paths[1] = golden["outputs"]
        else:
            write_tensors(paths[1], [1.0, 2.0, 3.0])
        to_compare = [
            {
                "label": "",
                "actual": paths[0],
                "expected": paths[1],
                "rule": "close",
                "reference": golden["id"] if golden else "cpu float64",
                "tolerance_class": "default",
            }
        ]
    answer = dict(
        type="observed",
        case=message["case"],
        failure=failure,
        to_compare=to_compare,
        device_used="cpu" if actual else "",
        repro="import torch\n",
    )
    if message.get("record") or message.get("golden"):
        answer["fingerprint"] = "of these weights and inputs"
    answer.update(more)
    link.send(**answer)
    if message["record_operators"]:
        link.send(type="recorded", case=message["case"], operators={"aten::add.Tensor": 1})


def failed(kind, operator=None, **more):
    return dict(
        kind=kind,
        stage="execute",
        error_class="RuntimeError",
        message=f"it failed as {kind}",
        operator=operator,
        traceback="Traceback",
        **more,
    )


def enter(*names):
    """Writes that this process is inside of these operators, the outermost first."""
    os.pwrite(CRUMBS, struct.pack("<II", os.getpid(), len(names)), 64)
    for level, name in enumerate(names):
        os.pwrite(CRUMBS, name.encode() + b"\0", 64 + 64 + 128 * level)


def once(name):
    """True the first time that it is asked in this test, whichever process asks."""
    path = os.path.join(os.environ["FAKE_STATE"], name)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


def execute(link, message):
    global HALF, POISONED, WARM
    with open(os.path.join(os.environ["FAKE_STATE"], "executed"), "a") as file:
        file.write(message["case"] + "\n")
    if message["breadcrumb"]:
        with open(message["breadcrumb"], "wb") as file:
            file.write(b"aten::scatter_reduce.two".ljust(512, b"\0"))
    with open(os.path.join(message["exchange"], "repro.py"), "w") as file:
        file.write("import torch  # left behind\n")
    entry = message["task"].get("entry", "pass").split(".")[0]
    good = [1.0, 2.0, 3.0]
    link.send(type="entered", stage="execute")
    if POISONED:
        observed(link, message, failure=failed("error", "aten::poisoned"))
    elif entry == "pass":
        observed(link, message, good)
    elif entry == "sleepy":
        time.sleep(float(os.environ.get("FAKE_SLEEP", "0.3")))
        observed(link, message, good)
    elif entry == "mismatch":
        observed(link, message, [1.0, 2.0, 4.0])
    elif entry == "fused":
        observed(link, message, good if message["mode"] == "strict" else [1.0, 2.0, 4.0])
    elif entry == "nan":
        observed(link, message, [1.0, float("nan"), 3.0])
    elif entry == "nonfinite":
        observed(link, message, [float("inf"), float("nan"), -0.0])
    elif entry == "barenan":
        body = b'{"type": "observed", "case": "x", "stage_seconds": {"execute": NaN}}'
        link.socket.sendall(struct.pack("<I", len(body)) + body)
        time.sleep(600)
    elif entry == "coldcache":
        observed(link, message, good if WARM else [9.0, 9.0, 9.0])
        WARM = True
    elif entry == "flaky":
        observed(
            link, message, [9.0, 9.0, 9.0] if once(message["case"].replace("/", "_")) else good
        )
    elif entry == "elsewhere":
        observed(link, message, good, device_used="meta")
    elif entry in ("error", "unsupported", "oom", "infra", "host-limit"):
        observed(link, message, failure=failed(entry, "aten::named" if entry != "error" else None))
    elif entry == "skipped":
        observed(link, message, failure=failed("skipped", skip_reason="dependency-missing"))
    elif entry == "abort":
        print("F1130 06:00:00.1 17 scatter.cc:154] Check failed: rank", file=sys.stderr, flush=True)
        os.abort()
    elif entry in ("inside", "killedinside", "hanginside"):
        # The rerun that names operators does not repeat it.
        if message["breadcrumb"]:
            return observed(link, message, good)
        enter("aten::linear", "aten::addmm.out")
        if entry == "hanginside":
            time.sleep(600)
        os.kill(os.getpid(), signal.SIGABRT if entry == "inside" else signal.SIGKILL)
    elif entry == "exit":
        os._exit(3)
    elif entry == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif entry == "hang":
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
        ctypes.PyDLL(None).pause()  # native, with the interpreter's lock held
    elif entry == "grandchild":
        pid = os.path.join(os.environ["FAKE_STATE"], "grandchild")
        subprocess.Popen(["setsid", "sh", "-c", f"echo $$ > {pid}; exec sleep 600"])
        while not os.path.exists(pid) or not os.path.getsize(pid):
            time.sleep(0.01)
        time.sleep(600)
    elif entry in ("hidden", "hiddenclean") and once(entry):
        # In a session of its own; the second also with an environment of its own.
        pid = os.path.join(os.environ["FAKE_STATE"], f"{entry}.pid")
        command = ["setsid", "sh", "-c", f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 600"]
        subprocess.Popen(command, env={"PATH": os.environ["PATH"]} if "clean" in entry else None)
        time.sleep(600)
    elif entry in ("hidden", "hiddenclean"):
        observed(link, message, good)
    elif entry == "leak":
        subprocess.Popen(["sleep", "600"])
        observed(link, message, failure=failed("error", "aten::leak"))
    elif entry == "heir":
        pid = os.fork()
        if pid == 0:
            os.setsid()  # holds the link and the log of its parent
            time.sleep(600)
        with open(os.path.join(os.environ["FAKE_STATE"], "heir"), "w") as file:
            file.write(str(pid))
        os.abort()
    elif entry == "garbage":
        link.socket.sendall(b"Traceback (most recent call last):\n")
        time.sleep(600)
    elif entry == "toolong":
        link.socket.sendall(struct.pack("<I", 2**31) + b"x")
        time.sleep(600)
    elif entry == "notjson":
        link.socket.sendall(struct.pack("<I", 3) + b"\xff{}")
        time.sleep(600)
    elif entry == "othercase":
        observed(link, dict(message, case="operators/opinfo:other#0/float32.eager.forward"), good)
        time.sleep(600)
    elif entry == "noisy":
        block = b"x" * (1 << 20)
        os.write(2, b"begin\n")
        for _ in range(int(os.environ.get("FAKE_MIB", "200"))):
            os.write(2, block)
        os.write(2, b"\xff\0 end\n")
        observed(link, message, good)
    elif entry == "poison":
        POISONED = True
        observed(link, message, failure=failed("error", "aten::poison"))
    elif entry == "poisonlater":
        observed(link, message, good)
        POISONED = True
    elif entry in ("halfone", "halftwo"):
        # Only both of them, in this order, spoil the process.
        observed(link, message, good)
        POISONED = entry == "halftwo" and HALF
        HALF = True
    elif entry == "plant":
        HALF = True
        observed(link, message, good)
    elif entry == "reap":
        bad = failed("error", "aten::reap") if HALF else None
        observed(link, message, None if HALF else good, failure=bad)
    elif entry == "breaks":
        open(os.environ["FAKE_BROKEN"], "w").close()
        os.abort()
    elif entry == "recordabort":
        message = dict(message, record_operators=False)
        observed(link, message, good)
        os.abort()
    elif entry == "overflow":
        observed(link, message, failure=fill(message["exchange"]))
    elif entry == "fillup":
        observed(link, message, failure=fill(os.path.dirname(message["exchange"])))
    elif entry == "teardown":
        observed(link, message, good)
        link.receive()
        os.abort()
    else:
        raise SystemExit(f"no script for {entry}")


if __name__ == "__main__":
    fork_server(Link(sys.argv[sys.argv.index("--link") + 1]))
