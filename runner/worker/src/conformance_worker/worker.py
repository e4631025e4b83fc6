"""A worker: answers the runner's requests one after the other until told to stop.

It knows no deadline of its own: a clock in here could be blocked by the very case it watches.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys

import torch

from conformance_worker import breadcrumb, execute, listing, messages
from conformance_worker.devices.base import Device, DeviceUnavailableError
from conformance_worker.failures import first_line
from conformance_worker.link import Link
from conformance_worker.messages import (
    Execute,
    Hello,
    ListOperators,
    NameEntries,
    Probe,
    Probed,
    ProbeFailed,
    TakeInventory,
)


def serve(link: Link, worker: int, device: Device) -> None:
    """Serves until `stop` or until the runner has gone."""
    torch.set_num_threads(1)
    # The runner asks a case that has used up its time where it is, before it ends it. Written by a
    # signal handler in C, so that native code that holds the interpreter's lock is no obstacle.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    if problem := breadcrumb.install():
        print(f"conformance: no breadcrumbs: {problem}", file=sys.stderr, flush=True)
    link.send(Hello(messages.LINK_VERSION, worker, os.getpid()))
    while True:
        request = link.receive(messages.ToWorker)
        match request:
            case Probe():
                link.send(probe(device))
            case TakeInventory():
                link.send(take_inventory(device))
            case NameEntries():
                link.send(listing.name_entries())
            case ListOperators():
                link.send(listing.list_cases(request))
            case Execute():
                _execute(link, request, device)
            case _:
                return


def _execute(link: Link, request: Execute, device: Device) -> None:
    run = execute.begin(request, device, link.send)
    link.send(run.observed)
    if request.record_operators:
        link.send(run.record_operators())


def take_inventory(device: Device) -> messages.Inventory | ProbeFailed:
    """Opens the device and asks the dispatcher."""
    from conformance_worker import inventory

    try:
        device.check_present()
        device.open()
        return inventory.take(device)
    except Exception as error:
        return ProbeFailed(type(error).__name__, first_line(error), "see the worker's log")


def probe(device: Device) -> Probed | ProbeFailed:
    """Opens the device and lets it prove itself."""
    try:
        device.check_present()
        device.open()
        device.prove()
        return device.describe()
    except DeviceUnavailableError as error:
        return ProbeFailed(type(error).__name__, str(error), error.hint)
    except Exception as error:
        return ProbeFailed(
            type(error).__name__,
            first_line(error),
            f"the `{device.profile}` device does not work here; see the worker's log",
        )
