"""A model's weights, saved elsewhere, loaded onto the device: which keys arrive, and as what.

The file is one that the model list names, or one that is saved here on the host after a step of an
optimiser, so that it holds that optimiser's state too. It is read with `torch.load` straight onto
the device. A key that finds no place, a parameter that finds no key, and a value that is another
one on the device than in the file are mismatches; that a value was reshaped or recast is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from conformance_worker import model_case, reference, tensors
from conformance_worker.case import CaseRun
from conformance_worker.failures import InfraError, MismatchError, first_line
from conformance_worker.messages import ModelTask
from conformance_worker.models.base import Inputs
from conformance_worker.tensors import Leaf
from conformance_worker.words import Rule, Stage, ToleranceClass

LAYOUT = "checkpoint"
"""Last part of the variant of a case whose weights come from a file."""
FILE = "checkpoint.pt"
WRAPPERS = ("module.", "_orig_mod.", "model.")
"""Prefixes that parallel training, compiling and saving a larger module leave on names."""
LARGEST_WITH_OPTIMISER = 20_000_000
"""Parameters beyond which no optimiser's state is made: it is twice as large as the model."""
SHOWN = 5
LEARNING_RATE = 1e-3


@dataclass
class Contents:
    """What a checkpoint holds."""

    weights: dict[str, torch.Tensor]
    optimiser: dict[str, Any] | None = None
    others: list[str] = field(default_factory=list)
    """Keys that are neither, such as the number of an epoch."""


@dataclass
class Mapped:
    """Which weights go where."""

    state: dict[str, torch.Tensor] = field(default_factory=dict)
    unmapped: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    renamed: int = 0
    reshaped: list[str] = field(default_factory=list)
    recast: list[str] = field(default_factory=list)

    def describe(self) -> str:
        """Counts, in words."""
        return (
            f"checkpoint: {len(self.state)} keys mapped ({self.renamed} under another name), "
            f"{len(self.unmapped)} unmapped, {len(self.missing)} missing, "
            f"{len(self.reshaped)} reshaped, {len(self.recast)} recast"
        )


def observe(run: CaseRun, task: ModelTask) -> None:
    """Executes the case and fills in what was observed."""
    run.enter(Stage.BUILD)
    built = model_case.build(run, task.model)
    inputs = model_case.cast(built.make_inputs(task.model.batch, task.model.sequence), run)
    run.enter(Stage.REFERENCE)
    path = Path(task.model.checkpoint or Path(run.request.exchange) / FILE)
    if task.model.checkpoint is None:
        save(path, built.module, inputs)
    saved = contents_of(_read(path, torch.device("cpu")))
    host = reference.copied(built.module)
    place = fit(saved.weights, host.state_dict())
    host.load_state_dict(place.state, strict=False)
    built.module = host
    expected, structure, reference_dtype, _ = model_case.expected_of(
        run, built, inputs, model_case.forward, wide=False
    )

    run.enter(Stage.TRANSFER)
    loaded = contents_of(_read(path, run.device.torch_device()))
    elsewhere = [name for name, one in loaded.weights.items() if not run.device.is_here(one)]
    if elsewhere:
        raise MismatchError(
            f"`torch.load` left {len(elsewhere)} of {len(loaded.weights)} tensors on the host: "
            f"{', '.join(elsewhere[:SHOWN])}"
        )
    module = reference.copied(built.module)
    _spoil(module)
    run.device.move_module(module)
    mapped = fit(loaded.weights, module.state_dict())
    module.load_state_dict(mapped.state, strict=False)
    run.device.synchronize()
    run.observed.notes.append(mapped.describe())
    if loaded.others:
        run.observed.notes.append(f"neither weights nor optimiser: {', '.join(loaded.others)}")
    if loaded.optimiser is not None:
        _load_optimiser(run, module, loaded.optimiser, saved)
    _demand_all(mapped)

    leaves = _forward(run, module, inputs)
    run.note_places(leaves)
    run.enter(Stage.TRANSFER)
    _compare_weights(run, module, host)
    actual = run.fetch(leaves)
    model_case.demand_finite(actual[0], expected)
    run.compare(
        actual,
        (expected, structure),
        rule=Rule.CLOSE,
        reference=f"cpu {reference_dtype}",
        tolerance_class=ToleranceClass.MODEL,
        label="outputs",
    )


def _forward(run: CaseRun, module: torch.nn.Module, inputs: Inputs) -> list[Leaf]:
    args, kwargs = run.device.move((inputs.args, inputs.kwargs))
    run.seed()
    run.enter(Stage.EXECUTE)
    with run.on_device():
        moved = Inputs(args=args, kwargs=kwargs)
        result = run.device.call(model_case.forward, (module, moved), {})
        run.device.synchronize()
    return tensors.flatten(result)


def save(path: Path, module: torch.nn.Module, inputs: Inputs) -> None:
    """Saves a model as training does: weights, the optimiser's state after a step, an epoch."""
    trained = reference.copied(module)
    checkpoint: dict[str, Any] = {"epoch": 1}
    if sum(parameter.numel() for parameter in trained.parameters()) <= LARGEST_WITH_OPTIMISER:
        optimiser = torch.optim.AdamW(trained.parameters(), lr=LEARNING_RATE)
        model_case.train_step(trained, inputs, optimiser=optimiser)
        checkpoint["optimizer_state_dict"] = optimiser.state_dict()
    checkpoint["model_state_dict"] = trained.state_dict()
    torch.save(checkpoint, path)


def _read(path: Path, device: torch.device) -> Any:
    """Reads a checkpoint onto a device; code in it is never executed."""
    if not path.is_file():
        raise InfraError(f"there is no checkpoint `{path}`")
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path, device=str(device))
    try:
        return torch.load(path, map_location=device, weights_only=True)
    except Exception as error:
        if device.type != "cpu":
            raise
        raise InfraError(f"the checkpoint `{path}` cannot be read: {first_line(error)}") from error


def contents_of(checkpoint: Any) -> Contents:
    """Tells weights from an optimiser's state, wherever the two are in a checkpoint."""
    if not isinstance(checkpoint, Mapping):
        raise InfraError(f"a checkpoint is a mapping, and this is a {type(checkpoint).__name__}")
    if weights := _tensors_of(checkpoint):
        return Contents(weights)
    contents = Contents({})
    for key, value in checkpoint.items():
        if not isinstance(value, Mapping):
            contents.others.append(str(key))
        elif {"state", "param_groups"} <= set(value):
            contents.optimiser = dict(value)
        elif len(found := _tensors_of(value)) > len(contents.weights):
            contents.weights = found
        else:
            contents.others.append(str(key))
    if not contents.weights:
        raise InfraError(f"the checkpoint holds no weights, only {', '.join(map(str, checkpoint))}")
    return contents


def _tensors_of(mapping: Mapping[Any, Any]) -> dict[str, torch.Tensor]:
    """The mapping, if it holds tensors by name and nothing else."""
    if not all(isinstance(value, torch.Tensor) for value in mapping.values()):
        return {}
    return {str(name): tensor for name, tensor in mapping.items()}


def fit(weights: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]) -> Mapped:
    """Finds the place of each weight in a module's state."""
    mapped = Mapped()
    for name, tensor in weights.items():
        target = _target(name, state)
        if target is None or state[target].numel() != tensor.numel():
            mapped.unmapped.append(name)
            continue
        wanted = state[target]
        mapped.renamed += target != name
        mapped.reshaped += [name] if tensor.shape != wanted.shape else []
        mapped.recast += [name] if tensor.dtype != wanted.dtype else []
        mapped.state[target] = tensor.reshape(wanted.shape)
    mapped.missing = [name for name in state if name not in mapped.state]
    return mapped


def _target(name: str, state: Mapping[str, torch.Tensor]) -> str | None:
    if name in state:
        return name
    for prefix in WRAPPERS:
        for candidate in (name.removeprefix(prefix), prefix + name):
            if candidate in state:
                return candidate
    return None


def _demand_all(mapped: Mapped) -> None:
    for what, names in (
        ("of the checkpoint have no place in the model", mapped.unmapped),
        ("of the model are not in the checkpoint", mapped.missing),
    ):
        if names:
            raise MismatchError(f"{len(names)} keys {what}: {', '.join(names[:SHOWN])}")


def _spoil(module: torch.nn.Module) -> None:
    """Fills a module with what is surely not in the checkpoint, so that a key that was not loaded
    cannot go unseen."""
    with torch.no_grad():
        for tensor in module.state_dict().values():
            tensor.fill_(1)


def _load_optimiser(
    run: CaseRun, module: torch.nn.Module, state: dict[str, Any], saved: Contents
) -> None:
    """Loads an optimiser's state onto the device and compares it with the file's."""
    assert saved.optimiser is not None
    optimiser = torch.optim.AdamW(module.parameters(), lr=LEARNING_RATE)
    try:
        optimiser.load_state_dict(state)
    except ValueError as error:
        note = f"the optimiser's state is not of AdamW for these parameters: {first_line(error)}"
        run.observed.notes.append(note)
        return
    parameters = len(state["state"])
    run.observed.notes.append(f"checkpoint: optimiser's state of {parameters} parameters")
    actual = tensors.flatten(optimiser.state_dict()["state"], "optimizer")
    _compare_exactly(run, actual, tensors.flatten(saved.optimiser["state"], "optimizer"))


def _compare_weights(run: CaseRun, module: torch.nn.Module, host: torch.nn.Module) -> None:
    actual = [Leaf(name, tensor) for name, tensor in module.state_dict().items()]
    expected = [Leaf(name, tensor) for name, tensor in host.state_dict().items()]
    _compare_exactly(run, actual, expected)


def _compare_exactly(run: CaseRun, actual: list[Leaf], expected: list[Leaf]) -> None:
    label = "weights" if actual and not actual[0].path.startswith("optimizer") else "optimiser"
    run.compare(
        run.fetch(actual),
        reference.describe(expected),
        rule=Rule.EXACT,
        reference="the checkpoint",
        tolerance_class=ToleranceClass.MODEL,
        label=label,
    )
