"""Source `hub`: a Hugging Face id at a pinned revision.

`tiny` takes the configuration from the local Hugging Face cache where it holds it at that
revision; otherwise the class and the geometry that the model list recorded are enough, and
nothing is fetched. `full` needs configuration and weights: from the cache, else over the network
where the hub's own settings allow it. The class travels as the configuration's own word for it,
`architectures`. Code that comes with a repository is never executed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub import try_to_load_from_cache

from conformance_worker.failures import InfraError, SkipCaseError
from conformance_worker.messages import ModelSpec
from conformance_worker.models import shrink
from conformance_worker.models.base import BuiltModel
from conformance_worker.models.from_transformers import inputs_for, tiny, uses_sdpa
from conformance_worker.words import SkipReason

CLASS = "architectures"
"""Override that names the class, as configurations do: a list with one name."""
NO_COMMIT = "facts-"
"""A revision that begins so is the date of recorded facts: no commit is known."""


def build(spec: ModelSpec, seed: int) -> BuiltModel:
    """Builds the model shrunk with random weights, or with its own weights."""
    overrides = dict(spec.overrides)
    recorded = (overrides.pop(CLASS, None) or [None])[0]
    if spec.size != "tiny":
        return _full(spec, recorded, overrides, seed)
    cached = _cached_config(spec)
    if cached is not None:
        model_class = _class(recorded or _named_class(cached, spec), spec)
        built = tiny(model_class, _maker(model_class, cached), overrides, seed)
        built.notes.append(f"configuration: {spec.id} at {spec.revision}, from the local cache")
        return built
    if recorded is None:
        raise InfraError(
            f"the configuration of `{spec.id}` at `{spec.revision}` is not in the local Hugging "
            "Face cache, and the model list does not say its class"
        )
    model_class = _class(recorded, spec)
    built = tiny(model_class, model_class.config_class, overrides, seed)
    geometry = "and recorded geometry" if overrides else "with its default geometry"
    built.notes.append(f"configuration: class {recorded} {geometry}, not fetched")
    return built


def _cached_config(spec: ModelSpec) -> dict[str, Any] | None:
    if _has_no_commit(spec):
        return None
    path = try_to_load_from_cache(spec.id, "config.json", revision=spec.revision)
    if not isinstance(path, str):
        return None
    try:
        config: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InfraError(f"`{path}` in the Hugging Face cache cannot be read: {error}") from error
    return config


def _maker(model_class: Any, cached: dict[str, Any]) -> Any:
    """Gives the cached configuration with changes, as a configuration's class would."""
    return lambda **changes: model_class.config_class.from_dict({**cached, **changes})


def _named_class(config: dict[str, Any], spec: ModelSpec) -> str:
    names = config.get(CLASS) or []
    if not names:
        raise InfraError(f"the configuration of `{spec.id}` names no class")
    return str(names[0])


def _class(name: str, spec: ModelSpec) -> Any:
    model_class = getattr(transformers, name, None)
    if not hasattr(model_class, "config_class"):
        raise SkipCaseError(
            SkipReason.DEPENDENCY_MISSING,
            f"`{name}` of `{spec.id}` is not in transformers {transformers.__version__}, and code "
            "from a repository is not executed",
        )
    return model_class


def _has_no_commit(spec: ModelSpec) -> bool:
    return spec.revision is None or spec.revision.startswith(NO_COMMIT)


def _full(
    spec: ModelSpec, recorded: str | None, overrides: dict[str, Any], seed: int
) -> BuiltModel:
    if _has_no_commit(spec):
        raise InfraError(f"no commit of `{spec.id}` is pinned, so its weights cannot be loaded")
    try:
        config = transformers.AutoConfig.from_pretrained(
            spec.id, revision=spec.revision, trust_remote_code=False
        )
        model_class = _class(recorded or _named_class(config.to_dict(), spec), spec)
        shrink.override(config, overrides)
        torch.manual_seed(seed)
        model = model_class.from_pretrained(spec.id, revision=spec.revision, config=config).eval()
    except (OSError, ValueError) as error:
        line = (str(error).splitlines() or [""])[0]
        raise InfraError(
            f"`{spec.id}` at `{spec.revision}` is not in the local Hugging Face cache and cannot "
            f"be fetched: {line}"
        ) from error
    return BuiltModel(
        module=model,
        make_inputs=inputs_for(model, seed),
        uses_attention=uses_sdpa(model),
        notes=[f"weights: {spec.id} at {spec.revision}"],
        repro=[
            "import transformers",
            f"model = transformers.{model_class.__name__}.from_pretrained({spec.id!r},"
            f" revision={spec.revision!r}).eval()",
        ],
    )
