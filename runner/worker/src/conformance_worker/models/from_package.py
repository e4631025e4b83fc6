"""Source `package`: trained weights that an installed Python package carries.

The id is the distribution's name. The package's directory must hold `config.json` beside
`model.safetensors`; the class is the configuration's first architecture.
"""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import torch
import transformers

from conformance_worker.failures import InfraError, SkipCaseError
from conformance_worker.messages import ModelSpec
from conformance_worker.models.base import BuiltModel, Inputs
from conformance_worker.models.from_transformers import inputs_for, uses_sdpa
from conformance_worker.words import SkipReason

WEIGHTS = "model.safetensors"

SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "A fast auburn animal leapt across a sleepy hound.",
    "Interest rates were left unchanged by the central bank.",
    "Measured values are compared with the reference, element by element.",
)
"""Real text, so that trained weights see what they were trained for."""


def build(spec: ModelSpec, seed: int) -> BuiltModel:
    """Loads the weights; sizes do not apply, a trained model is what it is."""
    folder = find_folder(spec.id)
    configuration = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    name = configuration["architectures"][0]
    model_class: Any = getattr(transformers, name, None)
    if model_class is None:
        raise InfraError(f"`{name}` is not a class of transformers {transformers.__version__}")
    model = model_class.from_pretrained(folder, local_files_only=True, **spec.overrides).eval()
    return BuiltModel(
        module=model,
        make_inputs=_text_inputs(folder) or inputs_for(model, seed),
        uses_attention=uses_sdpa(model),
        notes=[f"weights: {spec.id} {importlib.metadata.version(spec.id)}"],
        repro=[
            "import transformers, importlib.metadata",
            f"files = importlib.metadata.files({spec.id!r})",
            f"folder = next(f.locate().parent for f in files if f.name == {WEIGHTS!r})",
            f"model = transformers.{name}.from_pretrained(folder, local_files_only=True).eval()",
        ],
    )


def find_folder(distribution: str) -> Path:
    """The directory with the weights inside an installed distribution."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise SkipCaseError(
            SkipReason.DEPENDENCY_MISSING, f"the package `{distribution}` is not installed"
        ) from error
    for file in files:
        folder = Path(str(file.locate())).parent
        if file.name == WEIGHTS and (folder / "config.json").is_file():
            return folder
    raise InfraError(f"the package `{distribution}` holds no `{WEIGHTS}` beside a `config.json`")


def _text_inputs(folder: Path) -> Any:
    """A maker of tokenised sentences, where the package carries its tokenizer."""
    if not (folder / "tokenizer.json").is_file():
        return None
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)

    def make_inputs(batch: int, sequence: int) -> Inputs:
        texts = [SENTENCES[index % len(SENTENCES)] for index in range(batch)]
        encoded = tokenizer(
            texts, padding="max_length", truncation=True, max_length=sequence, return_tensors="pt"
        )
        tensors = {n: value for n, value in encoded.items() if isinstance(value, torch.Tensor)}
        return Inputs(kwargs=tensors)

    return make_inputs
