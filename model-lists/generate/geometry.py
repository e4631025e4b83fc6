"""From the geometry of a full model to overrides that keep its proportions in a tiny one.

Kept: how many query heads share a key-value head, the head size (a quarter of it), the width in
units of heads, whether there are experts, roughly how many and how many are chosen. Depth, the
feed-forward width and the vocabulary are the shrink recipe's: they change no operator.
"""

from __future__ import annotations

from typing import Any

import facts

HEADS = 4
MOST_SHARING = 16
"""Most query heads per key-value head; more would make the tiny model large."""
EXPERTS = ((8, 4), (64, 8))
"""Up to so many experts in the full model, so many in the tiny one; beyond, `MOST_EXPERTS`."""
MOST_EXPERTS = 16
LEAST_HEAD, MOST_HEAD = 8, 64
LEAST_HIDDEN, MOST_HIDDEN = 32, 512


def variants(
    model: facts.HubModel, config: facts.TransformersConfig | None
) -> list[dict[str, Any]]:
    """Configuration values for the tiny model, the closest first; none when nothing is recorded.

    The second leaves the widths to the recipe, for types whose widths hang together in ways that
    are not recorded (latent attention, state-space layers).
    """
    if config is None or not model.heads or not model.hidden:
        return []
    has = set(config.fields)
    if not {"num_attention_heads", "hidden_size"} <= has:
        return []
    experts = _experts(model, has)
    found = [_wide(model, has) | experts, _narrow(model, has) | experts]
    return [{config.part: values} if config.part else values for values in found]


def _wide(model: facts.HubModel, has: set[str]) -> dict[str, int]:
    heads, key_value_heads = _heads(model)
    if "num_key_value_heads" not in has:
        heads, key_value_heads = HEADS, HEADS
    head = _head_size(model)
    values = {"hidden_size": heads * head, "num_attention_heads": heads}
    if "num_key_value_heads" in has:
        values["num_key_value_heads"] = key_value_heads
    if "head_dim" in has:
        values["head_dim"] = head
        values["hidden_size"] = _hidden(model, heads, head)
    return values


def _narrow(model: facts.HubModel, has: set[str]) -> dict[str, int]:
    heads, key_value_heads = _heads(model)
    values = {"num_attention_heads": HEADS}
    if "num_key_value_heads" in has:
        values["num_key_value_heads"] = max(1, HEADS * key_value_heads // heads)
    return values


def _heads(model: facts.HubModel) -> tuple[int, int]:
    heads, key_value_heads = model.heads or HEADS, model.key_value_heads or model.heads or HEADS
    if heads % key_value_heads or heads == key_value_heads:
        return HEADS, HEADS
    sharing = min(heads // key_value_heads, MOST_SHARING)
    kept = 2 if key_value_heads > 1 and sharing * 2 <= MOST_SHARING else 1
    return sharing * kept, kept


def _head_size(model: facts.HubModel) -> int:
    full = model.head_size or (model.hidden or 0) // (model.heads or 1)
    return min(MOST_HEAD, max(LEAST_HEAD, full // 16 * 4))


def _hidden(model: facts.HubModel, heads: int, head: int) -> int:
    full = (model.heads or 1) * (model.head_size or (model.hidden or 0) // (model.heads or 1))
    proportion = (model.hidden or full) / full if full else 1.0
    if proportion == 1.0:
        return heads * head
    return min(MOST_HIDDEN, max(LEAST_HIDDEN, round(heads * head * proportion / 16) * 16))


def _experts(model: facts.HubModel, has: set[str]) -> dict[str, int]:
    names = [n for n in ("n_routed_experts", "num_experts", "num_local_experts") if n in has]
    if not model.experts or not names:
        return {}
    count = next((tiny for full, tiny in EXPERTS if model.experts <= full), MOST_EXPERTS)
    values = {names[0]: count}
    if model.experts_chosen and "num_experts_per_tok" in has:
        values["num_experts_per_tok"] = max(1, min(model.experts_chosen, count // 2))
    return values
