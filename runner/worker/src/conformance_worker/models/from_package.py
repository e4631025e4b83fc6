"""Source `package`: trained weights that an installed Python package carries.

The id is the distribution's name. The package must hold `config.json` beside `model.safetensors`,
where the class is the configuration's first architecture, or one GGUF file, which says everything
itself and whose quantised weights are widened to float32.
"""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Weights:
    """Trained weights on disk."""

    folder: Path
    gguf: str = ""
    """Name of the GGUF file in it; empty where it holds safetensors and a configuration."""

    @property
    def arguments(self) -> dict[str, Any]:
        """What `from_pretrained` takes beside the folder."""
        named = {"gguf_file": self.gguf} if self.gguf else {}
        return {"local_files_only": True, **named}


def build(spec: ModelSpec, seed: int) -> BuiltModel:
    """Loads the weights; sizes do not apply, a trained model is what it is."""
    weights = find_weights(spec.id)
    config = transformers.AutoConfig.from_pretrained(weights.folder, **weights.arguments)
    name = (config.architectures or [""])[0]
    if weights.gguf and not name:
        name = transformers.AutoModelForCausalLM._model_mapping[type(config)].__name__
    model_class: Any = getattr(transformers, name, None)
    if model_class is None:
        raise InfraError(f"`{name}` is not a class of transformers {transformers.__version__}")
    model = model_class.from_pretrained(
        weights.folder, **weights.arguments, **spec.overrides
    ).eval()
    file = weights.gguf or WEIGHTS
    arguments = "".join(f", {key}={value!r}" for key, value in weights.arguments.items())
    return BuiltModel(
        module=model,
        make_inputs=_text_inputs(weights) or inputs_for(model, seed),
        uses_attention=uses_sdpa(model),
        notes=[f"weights: {spec.id} {importlib.metadata.version(spec.id)}"],
        repro=[
            "import transformers, importlib.metadata",
            f"files = importlib.metadata.files({spec.id!r})",
            f"folder = next(f.locate().parent for f in files if f.name == {file!r})",
            f"model = transformers.{name}.from_pretrained(folder{arguments}).eval()",
        ],
    )


def find_weights(distribution: str) -> Weights:
    """The weights inside an installed distribution."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise SkipCaseError(
            SkipReason.DEPENDENCY_MISSING, f"the package `{distribution}` is not installed"
        ) from error
    for file in files:
        path = Path(str(file.locate()))
        if path.name == WEIGHTS and (path.parent / "config.json").is_file():
            return Weights(path.parent)
        if path.suffix == ".gguf":
            return Weights(path.parent, path.name)
    raise InfraError(
        f"the package `{distribution}` holds no `{WEIGHTS}` beside a `config.json` and no GGUF file"
    )


def _text_inputs(weights: Weights) -> Any:
    """A maker of tokenised sentences, where the package carries its tokenizer."""
    if not weights.gguf and not (weights.folder / "tokenizer.json").is_file():
        return None
    tokenizer = transformers.AutoTokenizer.from_pretrained(weights.folder, **weights.arguments)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token

    def make_inputs(batch: int, sequence: int) -> Inputs:
        texts = [SENTENCES[index % len(SENTENCES)] for index in range(batch)]
        encoded = tokenizer(
            texts, padding="max_length", truncation=True, max_length=sequence, return_tensors="pt"
        )
        tensors = {n: value for n, value in encoded.items() if isinstance(value, torch.Tensor)}
        return Inputs(kwargs=tensors)

    return make_inputs
