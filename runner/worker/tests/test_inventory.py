"""What the dispatcher is asked, on the CPU; the build of the backend is asked on `tpu-sim`."""

from __future__ import annotations

import pytest

from conformance_worker import devices, inventory, messages, worker
from conformance_worker.devices import tpu_sim


def test_the_dispatcher_tells_kernels_schema_tags_and_delegates() -> None:
    device = devices.find("cpu")
    inventory.remember(device)
    taken = worker.take_inventory(device)
    assert isinstance(taken, messages.Inventory)
    assert taken.dispatch_key == "CPU"
    by_name = {overload.name: overload for overload in taken.overloads}
    assert len(by_name) == len(taken.overloads) > 2500
    assert [overload.name for overload in taken.overloads] == sorted(by_name)
    assert all(overload.added == [] for overload in taken.overloads), "nothing was loaded"

    add = by_name["aten::add.Tensor"]
    assert add.schema.startswith("(Tensor self, Tensor other, *, Scalar alpha=1)")
    assert {"core", "pointwise"} <= set(add.tags)
    assert "CPU" in add.kernels
    assert add.structured_delegate == "aten::add.out"
    assert not add.view
    assert by_name["aten::view"].view
    assert "CompositeImplicitAutograd" in by_name["aten::matmul"].kernels
    assert "nondeterministic_seeded" in by_name["aten::bernoulli"].tags


def test_only_what_was_not_there_before_counts_as_added() -> None:
    device = devices.find("cpu")
    inventory._before.clear()  # as if nothing had been seen before
    taken = inventory.take(device)
    add = next(overload for overload in taken.overloads if overload.name == "aten::add.Tensor")
    assert add.added == add.kernels
    inventory.remember(device)


def test_a_device_that_is_not_there_gives_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(tpu_sim.LIBRARY_VARIABLE, raising=False)
    answer = worker.take_inventory(devices.find("tpu-sim"))
    assert isinstance(answer, messages.ProbeFailed)
    assert answer.error_class == "DeviceUnavailableError"
