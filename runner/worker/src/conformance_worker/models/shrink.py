"""Makes the configuration of a transformers model small without changing its kind.

The recipe sets attributes by name: two layers (or one per distinct kind of layer), hidden size
64, four heads, a vocabulary of 128, four experts, and so on, recursively. Levels change less and
less for configurations whose values depend on each other. `RECIPES` gives the order to try.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from conformance_worker.models import special_values

HIDDEN, HEADS, KEY_VALUE_HEADS, FEED_FORWARD, VOCABULARY, LAYERS = 64, 4, 2, 128, 128, 2
EXPERTS, EXPERTS_CHOSEN, POSITIONS = 4, 2, 1024
MOST_LAYER_KINDS = 4


@dataclass(frozen=True)
class Recipe:
    """How much to change: `level` 0 everything, 1 all but widths, 2 depth and vocabulary only."""

    name: str
    level: int
    rebuild: bool = False
    """Pass the changed values through the constructor, so that derived fields follow."""
    fill: bool = False
    """Give a number to what is `None` by default."""
    small_images: bool = False
    """Shrink images to a few patches."""
    every_modality: bool = False
    """Give the model an input of every modality that it takes, not only what it demands."""


RECIPES = (
    Recipe("shrink 0", 0, small_images=True),
    Recipe("shrink 0 through the constructor", 0, rebuild=True, small_images=True),
    Recipe("shrink 0 with defaults filled", 0, fill=True, small_images=True),
    Recipe("shrink 0 with every modality", 0, small_images=True, every_modality=True),
    Recipe("shrink 0 with full images", 0),
    Recipe("shrink 1", 1, small_images=True),
    Recipe("shrink 2", 2, small_images=True),
    Recipe("shrink 2 with full images", 2),
)

_LAYERS = re.compile(
    r"(^|_)(num_hidden_layers|num_layers|n_layers?|(encoder|decoder)_layers"
    r"|num_(encoder|decoder)_layers|depth|num_blocks|n_blocks|num_attention_layers"
    r"|encoder_n_layers|layers|num_mtp_layers|num_nextn_predict_layers|fusion_layers"
    r"|num_decoder_blocks)$"
)
_KEY_VALUE_HEADS = re.compile(
    r"(num_key_value_heads|num_kv_heads|n_kv_heads?|n_head_kv|multi_query_group_num)$"
)
_HEADS = re.compile(r"(num_attention_heads|n_heads?|num_heads|attention_heads|n_query_heads)$")
_HIDDEN = re.compile(
    r"^(hidden_size|d_model|n_embd|dim$|embed_dim|emb_dim|model_dim|embedding_size|hidden_dim"
    r"|(encoder|decoder|text|attention|true|input|output|out|fpn)_hidden_size|encoder_embed_dim"
    r"|decoder_embed_dim|encoder_d_model|word_embed_proj_dim|fpn_feature_size|d_embed"
    r"|reduced_embedding_size|embedding_dim|width$)"
)
_FEED_FORWARD = re.compile(
    r"(intermediate_size|ffn_dim|d_ff|n_inner|mlp_dim|ffn_hidden_size|feed_forward_hidden_size"
    r"|dim_feedforward|d_inner|ff_dim|feedforward_dim|mlp_hidden_size)$"
)
_VOCABULARY = re.compile(
    r"^((text_|decoder_|encoder_|vision_|image_)?vocab_size|vocab_size_per_layer_input)$"
)
_EXPERTS = re.compile(
    r"^(num_experts|num_local_experts|n_routed_experts|moe_num_experts|n_experts"
    r"|moe_num_primary_experts|num_moe_experts)$"
)
_EXPERTS_CHOSEN = re.compile(
    r"^(num_experts_per_tok(en)?|moe_topk|moe_k|num_selected_experts|top_k_experts|moe_top_k"
    r"|moe_router_topk|experts_per_token)$"
)
_LAYER_KINDS = (
    "layer_types",
    "layers_block_type",
    "block_types",
    "hybrid_layer_pattern",
    "mlp_layer_types",
    "attention_layers",
)
_STAGES = ("depths", "num_layers_per_block", "encoder_depths", "layers", "depth")
_WIDTHS = ("hidden_sizes", "embed_dims", "neck_hidden_sizes", "dims", "conv_dim", "channels")
_SIZES = {
    "head_dim": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "qk_head_dim": 32,
    "v_head_dim": 16,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "kv_channels": 16,
    "d_kv": 16,
    "attention_head_dim": 16,
    "index_head_dim": 32,
    "index_topk": 8,
    "index_n_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "mamba_d_head": 16,
    "mamba_n_heads": 8,
    "mamba_headdim": 16,
    "mamba_head_dim": 16,
    "mamba_num_heads": 8,
    "mamba_d_state": 16,
    "ssm_state_size": 16,
    "rotary_dim": 8,
}
SMALL_IMAGE = 64
"""Side of a small image where the patches allow it; four patches where they are larger."""
_IMAGES = ("image_size", "input_size", "crop_size")
_ONE_OR_TWO = ("full_attention_interval", "global_attn_every_n_layers", "sliding_window_pattern")
_ZEROED = ("num_kv_shared_layers", "hidden_size_per_layer_input")
_GROUPS = {"n_group": 2, "topk_group": 1, "num_expert_group": 1}
_FILLED = {
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts": 4,
    "head_dim": 16,
    "num_key_value_heads": 2,
    "moe_intermediate_size": 64,
}
_TOKEN_ID = re.compile(r"(token_id|token_index|_token_ids?|_idx|(eos|bos|pad)_token)$")
_SPECIAL = re.compile(r"(image|video|audio|img|vision|speech|boi|eoi|boa|eoa)")


def shrunk(make: Callable[..., Any], recipe: Recipe, overrides: dict[str, Any]) -> Any:
    """A small configuration; `overrides` are set last and always win.

    `make` gives the full one, with the changes that it is called with: a configuration's class
    is such a function.
    """
    config = make()
    old_layers = {id(part): _number(part, "num_hidden_layers") for part in _parts(config)}
    changed: dict[str, Any] = {}
    for part in _parts(config):
        changes = _shrink(part, recipe.level)
        if recipe.small_images:
            _shrink_image(part)
        _cut_lists(part, old_layers[id(part)])
        if part is config:
            changed = changes
    if recipe.rebuild:
        plain = {k: v for k, v in changed.items() if not isinstance(v, (list, tuple))}
        config = make(**plain)
        for part in _parts(config):
            _shrink(part, recipe.level)
            if recipe.small_images:
                _shrink_image(part)
    for part in list(_parts(config)):
        if recipe.fill:
            _fill(part)
        override(part, special_values.BY_TYPE.get(part.model_type, {}))
    _clamp_token_ids(config)
    override(config, overrides)
    for part in _parts(config):
        _fit_rotary_sections(part)
    return config


def override(config: Any, values: dict[str, Any]) -> None:
    """Sets values; a table for a part that is a configuration itself goes into that part."""
    for name, value in values.items():
        part = getattr(config, name, None) if isinstance(value, dict) else None
        if _is_config(part):
            override(part, value)
        else:
            setattr(config, name, value)


def _is_config(value: Any) -> bool:
    from transformers import PreTrainedConfig

    return isinstance(value, PreTrainedConfig)


def _fields(config: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(config).items() if not name.startswith("_")}


def _parts(config: Any) -> Iterator[Any]:
    yield config
    for value in _fields(config).values():
        if _is_config(value):
            yield from _parts(value)


def _number(config: Any, name: str) -> int | None:
    try:
        value = getattr(config, name, None)
    except Exception:
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _shrink(config: Any, level: int) -> dict[str, Any]:
    layers = _wanted_layers(config)
    changes = {}
    for name, value in _fields(config).items():
        new = None
        if isinstance(value, int) and not isinstance(value, bool):
            new = _small_number(config, name, value, layers, level)
        elif isinstance(value, (list, tuple)) and value:
            new = _small_list(name, value, layers, level)
        if new is not None and new != value:
            try:
                setattr(config, name, new)
            except (AttributeError, ValueError, NotImplementedError):
                continue  # derived from others, which are changed themselves
            changes[name] = new
    return changes


def _shrink_image(config: Any) -> None:
    patch = _number(config, "patch_size") or 1
    small = patch * max(4, -(-SMALL_IMAGE // patch)) if patch > 1 else SMALL_IMAGE
    for name in _IMAGES:
        value = _fields(config).get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > small:
            setattr(config, name, small)
        elif isinstance(value, (list, tuple)) and len(value) == 2 and min(value) > small:
            setattr(config, name, [small, small] if isinstance(value, list) else (small, small))


def _wanted_layers(config: Any) -> int:
    for name in _LAYER_KINDS:
        kinds = getattr(config, name, None)
        if isinstance(kinds, (list, tuple)) and kinds:
            return max(LAYERS, min(MOST_LAYER_KINDS, len(set(map(str, kinds)))))
    return LAYERS


def _small_number(config: Any, name: str, value: int, layers: int, level: int) -> int | None:
    if name == "num_feat_extract_layers":
        return None  # as many as the lists of convolutions have items
    if name in ("first_k_dense_replace", "moe_layer_start_index", "attn_layer_offset"):
        return min(value, 1)
    for pattern, size in (
        (_LAYERS, layers),
        (_VOCABULARY, VOCABULARY),
        (_EXPERTS, EXPERTS),
        (_EXPERTS_CHOSEN, EXPERTS_CHOSEN),
    ):
        if pattern.search(name):
            return min(value, size)
    if name in _GROUPS:
        return min(value, _GROUPS[name])
    if name in _ONE_OR_TWO or name == "attn_layer_period":
        return min(value, 2)
    if name in _ZEROED:
        return 0
    if name == "max_position_embeddings" and level < 2:
        return min(value, POSITIONS)
    if level == 1 and _FEED_FORWARD.search(name):
        return min(value, 2 * FEED_FORWARD)
    return _small_width(config, name, value) if level == 0 else None


def _small_width(config: Any, name: str, value: int) -> int | None:
    if name in _SIZES:
        return min(value, _SIZES[name])
    if _KEY_VALUE_HEADS.search(name):
        grouped = value < (_number(config, "num_attention_heads") or value + 1)
        return min(value, KEY_VALUE_HEADS if grouped else HEADS)
    for pattern, size in ((_HEADS, HEADS), (_FEED_FORWARD, FEED_FORWARD), (_HIDDEN, HIDDEN)):
        if pattern.search(name):
            return min(value, size)
    return None


def _small_list(name: str, value: Any, layers: int, level: int) -> Any:
    kind = type(value)
    if name in _LAYER_KINDS and len(value) > layers:
        distinct = list(dict.fromkeys(value))
        first = list(value[:layers])
        if set(first) != set(distinct) and len(distinct) <= layers:
            first = (distinct + list(value))[:layers]
        return kind(first)
    if not all(isinstance(item, int) for item in value):
        return None
    if name in _STAGES:
        return kind([1] * len(value))
    if level == 0 and name in _WIDTHS:
        factor = min(1.0, 16 / min(value))
        return kind([max(16, round(item * factor / 16) * 16) for item in value])
    return None


def _cut_lists(config: Any, old_layers: int | None) -> None:
    """Cuts lists that had one item per layer."""
    layers = _wanted_layers(config)
    for name, value in _fields(config).items():
        if isinstance(value, (list, tuple)) and old_layers and len(value) == old_layers > layers:
            setattr(config, name, type(value)(value[:layers]))


def _fill(config: Any) -> None:
    for name, value in _FILLED.items():
        if name in _fields(config) and _fields(config)[name] is None:
            setattr(config, name, value)


def _fit_rotary_sections(config: Any) -> None:
    """Multi-dimensional rotary sections must add up to half the rotated head size."""
    for name in ("rope_parameters", "rope_scaling"):
        rope = _fields(config).get(name)
        sections = rope.get("mrope_section") if isinstance(rope, dict) else None
        if sections is None and config.model_type in special_values.ROTARY_SECTIONS:
            sections = [1, 1, 1]
        if not isinstance(rope, dict) or not isinstance(sections, (list, tuple)):
            continue
        hidden, heads = _number(config, "hidden_size"), _number(config, "num_attention_heads")
        head = _number(config, "head_dim") or (hidden or HIDDEN) // (heads or HEADS)
        half = int(head * (rope.get("partial_rotary_factor") or 1)) // 2
        if sum(sections) != half:
            fitted = [half // len(sections)] * len(sections)
            fitted[0] += half - sum(fitted)
            setattr(config, name, {**rope, "mrope_section": fitted})


def _clamp_token_ids(config: Any, outer: int | None = None) -> None:
    """Token ids must lie inside the vocabulary; those of other modalities must differ."""
    vocabulary = _vocabulary(config) or outer
    next_special = 3
    for name, value in list(_fields(config).items()):
        if _is_config(value):
            _clamp_token_ids(value, vocabulary)
        elif vocabulary and _TOKEN_ID.search(name) and not isinstance(value, bool):
            if isinstance(value, int) and value >= vocabulary:
                special = bool(_SPECIAL.search(name))
                setattr(config, name, vocabulary - next_special if special else 1)
                next_special += special
            elif isinstance(value, (list, tuple)) and all(isinstance(i, int) for i in value):
                setattr(config, name, type(value)(min(i, vocabulary - 1) for i in value))


def _vocabulary(config: Any) -> int | None:
    for name in ("vocab_size", "text_vocab_size"):
        if (size := _number(config, name)) is not None:
            return size
    for name, value in _fields(config).items():
        inner = "text" in name or name in ("llm_config", "decoder", "language_config")
        if inner and _is_config(value) and (size := _vocabulary(value)):
            return size
    return None
