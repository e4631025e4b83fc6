"""Records what transformers, timm and torchvision list, as facts.

    python model-lists/generate/record.py

Run it after a change of their versions; nothing else in this folder imports them but `measure`.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections import Counter
from typing import Any

import facts


def main() -> int:
    """Writes the three listings and their versions."""
    facts.write("transformers_classes.tsv", facts.TransformersClass._fields, transformers())
    facts.write("transformers_configs.tsv", facts.TransformersConfig._fields, configurations())
    facts.write("timm_models.tsv", facts.TimmModel._fields, timm())
    facts.write("torchvision_models.tsv", facts.TorchvisionModel._fields, torchvision())
    names = ("timm", "torchvision", "transformers")
    versions = [(name, importlib.metadata.version(name).split("+")[0]) for name in names]
    facts.write("libraries.tsv", ("library", "version"), versions)
    return 0


def transformers() -> list[facts.TransformersClass]:
    """Every pair of model type and class in an Auto mapping."""
    from transformers.models.auto import modeling_auto

    rows = set()
    for name in dir(modeling_auto):
        if not (name.startswith("MODEL_") and name.endswith("MAPPING_NAMES")):
            continue
        mapping = name.removeprefix("MODEL_").removesuffix("MAPPING_NAMES").rstrip("_")
        mapping = mapping.removeprefix("FOR_").lower().replace("_", "-") or "base"
        for model_type, classes in getattr(modeling_auto, name).items():
            for one in (classes,) if isinstance(classes, str) else classes:
                rows.add(facts.TransformersClass(mapping, model_type, one))
    return sorted(rows)


def configurations() -> list[tuple[str, str, str]]:
    """Where each class keeps its geometry; nothing for a class whose default cannot be made."""
    import transformers as library

    rows = []
    for name in sorted({row.model_class for row in transformers()}):
        try:
            config = getattr(library, name).config_class()
            part, text = _text_part(config)
            fields = [field for field in facts.GEOMETRY_FIELDS if _has(text, field)]
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        rows.append((name, part, " ".join(fields)))
    return rows


def _has(config: Any, field: str) -> bool:
    try:
        getattr(config, field)
    except Exception:  # a field that differs by layer refuses to be read
        return False
    return True


def _text_part(config: Any) -> tuple[str, Any]:
    text = config.get_text_config()
    if text is config:
        return "", config
    part = next((name for name, value in vars(config).items() if value is text), None)
    return (part, text) if part else ("", config)


def timm() -> list[facts.TimmModel]:
    """Every architecture with its module and the number of its pretrained tags."""
    import timm as library

    tags = Counter(name.split(".")[0] for name in library.list_pretrained())
    return [
        facts.TimmModel(name, library.model_entrypoint(name).__module__.split(".")[-1], tags[name])
        for name in sorted(library.list_models())
    ]


def torchvision() -> list[facts.TorchvisionModel]:
    """Every name with its module."""
    from torchvision import models

    return [
        facts.TorchvisionModel(
            name, models.get_model_builder(name).__module__.removeprefix("torchvision.models.")
        )
        for name in sorted(models.list_models())
    ]


if __name__ == "__main__":
    sys.exit(main())
