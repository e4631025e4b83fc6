"""Names the graph of a model: two models of one signature execute the same operators.

For a model of transformers it is the class with its configuration, less what changes no operator;
for any other the tree of modules with the shapes of parameters and buffers. Inputs are not part of
it: who compares signatures compares batch, sequence and size too.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import torch

_NOT_GRAPH = re.compile(
    r"^(transformers_version|_name_or_path|architectures|dtype|torch_dtype|.*token_ids?"
    r"|.*token_index|.*token_id_map|id2label|label2id|_attn_implementation.*)$"
)
"""Fields of a configuration that change no operator of the model."""


def of(module: torch.nn.Module) -> str:
    """Sixteen hexadecimal digits."""
    config: Any = getattr(module, "config", None)
    if hasattr(config, "to_dict"):
        return _digest([type(module).__name__, _plain(config.to_dict())])
    shapes = {name: list(tensor.shape) for name, tensor in module.state_dict().items()}
    return _digest([re.sub(r" at 0x[0-9a-f]+", "", repr(module)), shapes])


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items() if not _NOT_GRAPH.match(str(k))}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(type(value))


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
