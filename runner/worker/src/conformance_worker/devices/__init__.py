"""What can execute a case: one module per device profile, all with the interface of `base`.

Adding a device is adding one module with a class `TheDevice` and its line here.
"""

from __future__ import annotations

import importlib

from conformance_worker.devices.base import Device

PROFILES = {
    "tpu": "conformance_worker.devices.tpu",
    "tpu-sim": "conformance_worker.devices.tpu_sim",
    "cuda": "conformance_worker.devices.cuda",
    "cpu": "conformance_worker.devices.cpu",
    "faulty": "conformance_worker.devices.faulty",
}
"""Module of each profile."""


def find(profile: str) -> Device:
    """Makes the device of a profile; imports nothing heavy yet."""
    module = importlib.import_module(PROFILES[profile])
    device: Device = module.TheDevice()
    return device
