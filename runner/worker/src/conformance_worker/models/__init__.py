"""Where models come from: one module per source, each with `build`.

Adding a source is adding one module and its line here.
"""

from __future__ import annotations

import importlib

from conformance_worker.failures import SkipCaseError
from conformance_worker.messages import ModelSpec
from conformance_worker.models.base import BuiltModel
from conformance_worker.words import SkipReason

SOURCES = {
    "transformers": "conformance_worker.models.from_transformers",
    "hub": "conformance_worker.models.from_hub",
    "timm": "conformance_worker.models.from_timm",
    "torchvision": "conformance_worker.models.from_torchvision",
    "package": "conformance_worker.models.from_package",
    "python": "conformance_worker.models.from_python",
}
"""Module of each source."""


def build(spec: ModelSpec, seed: int) -> BuiltModel:
    """Builds the model on the host in its own dtype, with inputs."""
    if spec.source not in SOURCES:
        raise SkipCaseError(
            SkipReason.DEPENDENCY_MISSING,
            f"models of source `{spec.source}` cannot be built here: it must be one of "
            f"{', '.join(SOURCES)}",
        )
    try:
        module = importlib.import_module(SOURCES[spec.source])
    except ModuleNotFoundError as error:
        raise SkipCaseError(
            SkipReason.DEPENDENCY_MISSING, f"`{error.name}` is not installed"
        ) from error
    built: BuiltModel = module.build(spec, seed)
    return built
