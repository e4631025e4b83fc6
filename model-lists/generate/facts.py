"""Reads and writes the facts folder. `facts/README.md` says where each file comes from."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent.parent / "facts"


class TransformersClass(NamedTuple):
    """A model class in one of the Auto mappings of transformers."""

    mapping: str
    model_type: str
    model_class: str


class TransformersConfig(NamedTuple):
    """Where the configuration of a class holds the geometry of its text model."""

    model_class: str
    part: str
    """Field with the text model's own configuration; empty when it is the outermost one."""
    fields: tuple[str, ...]
    """Those of `GEOMETRY_FIELDS` that it has."""


GEOMETRY_FIELDS = (
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "num_experts_per_tok",
)


class TimmModel(NamedTuple):
    """A name of `timm.list_models()`."""

    name: str
    module: str
    pretrained_tags: int


class TorchvisionModel(NamedTuple):
    """A name of `torchvision.models.list_models()`."""

    name: str
    module: str


class HubModel(NamedTuple):
    """A Hugging Face id, how often it was downloaded by whose count, and its geometry."""

    name: str
    task: str
    kind: str
    """A model type or a class of transformers, or what else its configuration says."""
    kind_from: str
    """`recorded`, or `name` when it was guessed from the id."""
    downloads: int | None
    snapshot: str
    source: str
    revision: str
    layers: int | None
    heads: int | None
    key_value_heads: int | None
    head_size: int | None
    hidden: int | None
    experts: int | None
    experts_chosen: int | None


class BuildKey(NamedTuple):
    """What is built: a model of a source with overrides as JSON, empty for none."""

    source: str
    name: str
    overrides: str


class Build(NamedTuple):
    """What came of building a model tiny."""

    source: str
    name: str
    overrides: str
    outcome: str
    """`ok`, `failed`, `timeout`, `crash`."""
    tried: str
    """`forward` for building and one forward call, `build` for building on the meta device."""
    inputs: str
    """Names and shapes of the inputs of its forward call; empty when none was made."""
    recipe: str
    signature: str
    parameters: str
    detail: str

    @property
    def key(self) -> BuildKey:
        """What was built."""
        return BuildKey(self.source, self.name, self.overrides)


def transformers_classes() -> list[TransformersClass]:
    """Sorted by mapping, model type and class."""
    return [TransformersClass(*row) for row in _read("transformers_classes.tsv")]


def transformers_configs() -> dict[str, TransformersConfig]:
    """By class."""
    return {
        name: TransformersConfig(name, part, tuple(fields.split()))
        for name, part, fields in _read("transformers_configs.tsv")
    }


def libraries() -> dict[str, str]:
    """Versions of the libraries whose listings are recorded."""
    return {name: version for name, version in _read("libraries.tsv")}


def timm_models() -> list[TimmModel]:
    """Sorted by name."""
    return [TimmModel(name, module, int(tags)) for name, module, tags in _read("timm_models.tsv")]


def torchvision_models() -> list[TorchvisionModel]:
    """Sorted by name."""
    return [TorchvisionModel(*row) for row in _read("torchvision_models.tsv")]


def hub_models() -> list[HubModel]:
    """Most downloaded first, the youngest snapshot before the older ones."""
    return [
        HubModel(*row[:4], _number(row[4]), *row[5:8], *map(_number, row[8:]))  # type: ignore[arg-type]
        for row in _read("hub_models.tsv")
    ]


def builds() -> list[Build]:
    """Sorted by key; empty before the first measurement."""
    return [Build(*row) for row in _read("builds.tsv")]


def write_builds(rows: Iterable[Build]) -> None:
    """Replaces what was measured."""
    write("builds.tsv", Build._fields, rows)


def write(file: str, fields: tuple[str, ...], rows: Iterable[Iterable[object]]) -> None:
    """Writes one file of facts whole."""
    lines = ["\t".join(fields), *("\t".join(map(_text, row)) for row in rows)]
    partial = FOLDER / f"{file}.partial"
    partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    partial.replace(FOLDER / file)


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _number(text: str) -> int | None:
    return int(text) if text else None


def _read(file: str) -> list[list[str]]:
    path = FOLDER / file
    if not path.exists() and file == "builds.tsv":
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        reader = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        return list(reader)[1:]
