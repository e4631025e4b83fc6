"""The real TorchTPU on the simulated device. Needs the wrapper library that the runner carries.

`CONFORMANCE_SIM_WRAPPER` names it. The environment is the one that the runner sets.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cases import differences
from conformance_worker import breadcrumb as crumbs
from conformance_worker import messages
from conformance_worker.messages import (
    DynamicDimension,
    DynamismTask,
    ModelSpec,
    ModelTask,
)
from conformance_worker.messages import OperatorTask as Operator
from conformance_worker.observed import Observed
from conformance_worker.words import FailureKind, Mode
from driver import SOURCE, ForkServer, WorkerHandle, execute
from test_breadcrumb import LIBRARY, in_flight, new_file, records

WRAPPER = os.environ.get("CONFORMANCE_SIM_WRAPPER", "")
PLUGIN_MODULE = "lammps_jax_pjrt_cpu"

pytestmark = [
    pytest.mark.tpu_sim,
    pytest.mark.skipif(
        not WRAPPER or importlib.util.find_spec(PLUGIN_MODULE) is None,
        reason="CONFORMANCE_SIM_WRAPPER does not name the wrapper library, or no PJRT plugin",
    ),
]


def environment() -> dict[str, str]:
    found = importlib.util.find_spec(PLUGIN_MODULE)
    assert found is not None
    assert found.origin is not None
    return {
        "PYTHONPATH": f"{SOURCE}:{Path(__file__).parent}",
        "TPU_LIBRARY_PATH": WRAPPER,
        "CONFORMANCE_SIM_PLUGIN": str(Path(found.origin).parent / "pjrt_c_api_cpu_plugin.so"),
        "CONFORMANCE_SIM_STABLEHLO": "1.13.7",
        "TPU_SKIP_MDS_QUERY": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "XLA_FLAGS": "--xla_cpu_enable_fast_min_max=false --xla_cpu_prefer_vector_width=128 "
        "--xla_backend_optimization_level=0 "
        "--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters",
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    running = ForkServer("tpu-sim", tmp_path_factory.mktemp("f"), environment())
    assert isinstance(running.first, messages.Ready), running.log.read_text()
    yield running
    running.close()


@pytest.fixture(scope="module")
def worker(server: ForkServer) -> WorkerHandle:
    return server.spawn()


def observe(worker: WorkerHandle, folder: Path, task: messages.Task, **changes: Any) -> Observed:
    observed, _ = worker.ask(execute(folder, task, **changes))
    assert isinstance(observed, Observed), observed
    return observed


def test_the_probe_says_that_it_is_simulated(worker: WorkerHandle) -> None:
    probed, _ = worker.ask(messages.Probe())
    assert isinstance(probed, messages.Probed), probed
    assert (probed.device_kind, probed.device, probed.simulated) == ("XLA:CPU", "tpu:0", True)
    assert "xla" in probed.versions


@pytest.mark.parametrize("mode", list(Mode))
def test_an_operator_is_executed_on_the_device(
    worker: WorkerHandle, tmp_path: Path, mode: Mode
) -> None:
    observed = observe(worker, tmp_path, Operator("nn.functional.relu", 0), mode=mode)
    assert observed.failure is None, observed.failure
    assert observed.device_used == "tpu:0"
    assert differences(observed.to_compare[0]) == []
    assert "enable_cpu_fallback: off" in observed.notes


def test_a_gradient_agrees(worker: WorkerHandle, tmp_path: Path) -> None:
    observed = observe(worker, tmp_path, Operator("mul", 3), train=True)
    assert observed.failure is None, observed.failure
    assert differences(observed.to_compare[0]) == []


def test_an_operator_that_is_not_implemented_is_named(worker: WorkerHandle, tmp_path: Path) -> None:
    failure = observe(worker, tmp_path, Operator("nextafter", 0)).failure
    assert failure is not None
    assert failure.kind is FailureKind.UNSUPPORTED
    assert failure.operator == "aten::nextafter.out"


@pytest.mark.parametrize(("name", "sample"), [("linalg.inv", 0), ("linalg.inv", 4), ("cumsum", 0)])
def test_a_limit_of_the_host_is_not_held_against_torch_tpu(
    worker: WorkerHandle, tmp_path: Path, name: str, sample: int
) -> None:
    observed = observe(worker, tmp_path, Operator(name, sample))
    assert observed.failure is not None
    assert observed.failure.kind is FailureKind.HOST_LIMIT
    assert not observed.poisoned


def test_attention_is_substituted_and_the_record_says_so(
    worker: WorkerHandle, tmp_path: Path
) -> None:
    task = Operator("nn.functional.scaled_dot_product_attention", 0)
    observed = observe(worker, tmp_path, task)
    assert observed.failure is None, observed.failure
    assert "scaled_dot_product_attention: math" in observed.substitutions
    plain = observe(worker, tmp_path, Operator("add", 0))
    assert plain.substitutions == []


def test_an_abort_of_torch_tpu_costs_its_worker_and_a_breadcrumb_names_the_operator(
    server: ForkServer, tmp_path: Path
) -> None:
    for breadcrumb in (None, tmp_path / "breadcrumb"):
        aborting = server.spawn()
        path = str(breadcrumb) if breadcrumb else None
        aborting.link.send(
            execute(tmp_path / "x", Operator("index_reduce.mean", 4), breadcrumb=path)
        )
        while (answer := aborting.link.receive(messages.FromWorker)) is not None:
            assert isinstance(answer, messages.Entered), answer
        assert server.exit_of(aborting).signal == 6
    name = (tmp_path / "breadcrumb").read_bytes().split(b"\0")[0]
    assert name == b"aten::index_reduce"


@pytest.mark.skipif(not LIBRARY, reason="CONFORMANCE_BREADCRUMB does not name the library")
@pytest.mark.parametrize("mode", [Mode.EAGER, Mode.STRICT])
def test_an_abort_of_torch_tpu_leaves_the_name_of_its_operator_in_the_execution_that_decides(
    server: ForkServer, tmp_path: Path, mode: Mode
) -> None:
    path = new_file(tmp_path)
    variables = {crumbs.LIBRARY_VARIABLE: LIBRARY, crumbs.FILE_VARIABLE: str(path)}
    aborting = server.spawn(variables)
    aborting.link.send(execute(tmp_path / "x", Operator("index_reduce.mean", 4), mode=mode))
    assert server.exit_of(aborting).signal == 6
    _, _, names = records(path)[aborting.pid]
    assert names[0].startswith("aten::index_reduce"), names
    # By default the backend executes later than it is asked: the operator has been left by then.
    assert bool(in_flight(path, aborting.pid)) is (mode is Mode.STRICT)


@pytest.mark.parametrize("mode", [Mode.EAGER, Mode.COMPILE])
def test_a_tiny_llama_agrees_with_the_reference(
    worker: WorkerHandle, tmp_path: Path, mode: Mode
) -> None:
    model = ModelSpec("transformers", "LlamaForCausalLM", "tiny", 2, 16)
    observed = observe(worker, tmp_path, ModelTask(model, compare=True), mode=mode)
    assert observed.failure is None, observed.failure
    assert observed.device_used == "tpu:0"
    assert differences(observed.to_compare[0], 1e-4) == []


def test_bounded_dynamism_compiles_and_meets_the_limit_of_the_host(
    worker: WorkerHandle, tmp_path: Path
) -> None:
    model = ModelSpec("python", "own_models:dynamic", "tiny", 2, 16)
    bounds = DynamicDimension("sequence", 2, 64, {"input_ids": 1})
    task = DynamismTask(model, [bounds], [{"sequence": size} for size in (16, 3, 65)])
    observed = observe(worker, tmp_path, task, mode=Mode.COMPILE)
    assert observed.failure is not None
    assert observed.failure.kind is FailureKind.HOST_LIMIT, observed.failure
    assert observed.graphs is not None
    assert observed.graphs.graph_count >= 1


def test_an_input_that_is_written_to_is_compared(worker: WorkerHandle, tmp_path: Path) -> None:
    """TorchTPU 0.2.0 leaves the running statistics of a batch norm as they were."""
    observed = observe(worker, tmp_path, Operator("nn.functional.batch_norm", 0))
    assert observed.failure is None, observed.failure
    found = differences(observed.to_compare[0])
    assert found == ["inputs.1: values", "inputs.2: values"]


def test_a_gradient_in_a_fresh_worker_finds_the_backend(server: ForkServer, tmp_path: Path) -> None:
    fresh = server.spawn()
    observed = observe(fresh, tmp_path, Operator("mul", 3), train=True)
    assert observed.failure is None, observed.failure


def test_operators_behind_the_first_one_that_is_refused_are_found(
    server: ForkServer, tmp_path: Path
) -> None:
    """On a worker of its own: whether an operator ends the process is the backend's business."""
    spec = ModelSpec("python", "own_models:hindered", "tiny", 2, 16)
    folder = tmp_path / "x"
    ordinary = execute(folder, ModelTask(spec, compare=False))
    observed, _ = server.spawn().ask(ordinary)
    assert observed.failure is not None
    assert observed.blockers is None, "nothing was looked for"
    diagnosed = execute(
        folder,
        ModelTask(spec, compare=False),
        breadcrumb=str(folder / "crumb"),
        continue_past=["aten::cumsum"],
    )
    observed, _ = server.spawn().ask(diagnosed)
    assert observed.failure is None, observed.failure
    assert [blocker.overload for blocker in observed.blockers] == ["aten::special_bessel_j0"]


def test_the_inventory_tells_what_the_backend_brought(worker: WorkerHandle) -> None:
    """The counts are those of torch 2.15.0 with torch_tpu 0.2.0; a new pair changes them here."""
    taken, _ = worker.ask(messages.TakeInventory())
    assert isinstance(taken, messages.Inventory), taken
    assert taken.dispatch_key == "PrivateUse1"
    aten = [overload for overload in taken.overloads if overload.name.startswith("aten::")]
    native = [overload for overload in aten if "PrivateUse1" in overload.kernels]
    assert (len(aten), len(native)) == (3121, 674)
    assert all("PrivateUse1" in overload.added for overload in native)
    assert len({overload.name.partition(".")[0] for overload in native}) == 483
    assert sum("AutocastPrivateUse1" in overload.added for overload in aten) == 135
    neither = [
        overload
        for overload in aten
        if overload not in native and not any(k.startswith("Composite") for k in overload.kernels)
    ]
    assert len(neither) == 406
    assert sum("CPU" in overload.kernels for overload in neither) == 249
    assert any(overload.name.startswith("tpu::") for overload in taken.overloads)
