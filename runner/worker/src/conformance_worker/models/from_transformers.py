"""Source `transformers`: any model class with a configuration; the id is the class's name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import transformers

from conformance_worker.failures import InfraError
from conformance_worker.inputs import IMAGE_SIZE, InputBuilder, Wishes
from conformance_worker.messages import ModelSpec
from conformance_worker.models import shrink, special_values
from conformance_worker.models.base import (
    MOST_PARAMETERS_TINY,
    BuiltModel,
    Inputs,
    UnbuildableError,
    first_that_works,
    parameters,
)

PADDING = 0


def build(spec: ModelSpec, seed: int) -> BuiltModel:
    """Builds the class with random weights, shrunk where the size is `tiny`."""
    model_class = getattr(transformers, spec.id, None)
    config_class = getattr(model_class, "config_class", None)
    if config_class is None:
        raise InfraError(
            f"`{spec.id}` is not a model class of transformers {transformers.__version__}"
        )
    if spec.size != "tiny":
        config = config_class()
        shrink.override(config, spec.overrides)
        return _instantiate(model_class, config, seed)
    return tiny(model_class, config_class, spec.overrides, seed)


def tiny(
    model_class: Any, make: Callable[..., Any], overrides: dict[str, Any], seed: int
) -> BuiltModel:
    """Shrinks the configuration that `make` gives, by the first recipe that works."""
    overrides = special_values.BY_CLASS.get(model_class.__name__, {}) | overrides
    return first_that_works(
        [
            (recipe.name, functools.partial(_tiny, model_class, make, overrides, recipe, seed))
            for recipe in shrink.RECIPES
        ]
    )


def _tiny(
    model_class: Any,
    make: Callable[..., Any],
    overrides: dict[str, Any],
    recipe: shrink.Recipe,
    seed: int,
) -> BuiltModel:
    config = shrink.shrunk(make, recipe, overrides)
    with torch.device("meta"):
        size = parameters(model_class(config))
    if size > MOST_PARAMETERS_TINY:
        raise UnbuildableError(f"{size} parameters are left after shrinking")
    # The first instance may have written derived values into its configuration.
    config = shrink.shrunk(make, recipe, overrides)
    if model_class.__name__.endswith("ForSequenceClassification"):
        name_padding(config)
    wishes = Wishes(
        image_size=shrink.SMALL_IMAGE if recipe.small_images else IMAGE_SIZE,
        every_modality=recipe.every_modality,
    )
    return _instantiate(model_class, config, seed, wishes)


def name_padding(config: Any) -> None:
    """Gives a padding token to a configuration without one: a classifier looks for the last token
    before the padding. No input holds it."""
    for part in (config, config.get_text_config()):
        if getattr(part, "pad_token_id", None) is None:
            part.pad_token_id = PADDING


def _instantiate(
    model_class: Any, config: Any, seed: int, wishes: Wishes | None = None
) -> BuiltModel:
    torch.manual_seed(seed)
    model = model_class(config).eval()
    return BuiltModel(
        module=model,
        make_inputs=inputs_for(model, seed, wishes),
        uses_attention=uses_sdpa(model),
        repro=[
            "import transformers",
            f"config = transformers.{type(config).__name__}.from_dict({_changed(config)!r})",
            f"torch.manual_seed({seed})",
            f"model = transformers.{model_class.__name__}(config).eval()",
        ],
    )


def inputs_for(model: Any, seed: int, wishes: Wishes | None = None) -> Any:
    """A maker of inputs by signature."""
    return lambda batch, sequence: Inputs(
        kwargs=InputBuilder(model, batch, sequence, seed, wishes or Wishes()).build()
    )


def uses_sdpa(model: Any) -> bool:
    """Whether attention goes through `scaled_dot_product_attention`."""
    return getattr(model.config, "_attn_implementation", None) == "sdpa"


def _changed(config: Any) -> dict[str, Any]:
    changed: dict[str, Any] = config.to_diff_dict()
    return changed
