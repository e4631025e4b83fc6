"""Configuration values that the shrink recipe cannot guess, by model type or by class.

A row is the smallest change that lets a model be built and called with inputs made from its
signature; each says in a comment what it mends. Rows are set after shrinking and before the
overrides of a model list.
"""

from __future__ import annotations

from typing import Any

BY_TYPE: dict[str, dict[str, Any]] = {
    # Hash tables of half a million rows each; the parts' widths depend on each other.
    "blt": {"encoder_hash_byte_group_vocab": 512},
    "blt_global_transformer": {"hidden_size": 128, "head_dim": 32},
    "blt_local_encoder": {"hidden_size_global": 128},
    "blt_local_decoder": {"hidden_size_global": 128},
    # Attention looks for it in a part that has none by default.
    # Rotary settings by kind of layer.
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10_000.0}}
    },
    "dbrx": {"attn_config": {"rope_theta": 10_000.0, "clip_qkv": 8.0}},
    # None by default.
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1},
    # Sharing of caches needs one layer of each kind before the layers that share.
    "gemma3n_text": {
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_kv_shared_layers": 2,
        "hidden_size_per_layer_input": 16,
        "intermediate_size": [128] * 4,
        "activation_sparsity_pattern": [0.0] * 4,
    },
    # A cache wants an attention layer among them.
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "timm_backbone": {"backbone": "resnet18"},
    "xmod": {"default_language": "en_XX"},
    # Weights are shared between hybrid layers, so there must be two.
    "zamba": {
        "num_hidden_layers": 4,
        "layers_block_type": ["linear_attention", "hybrid"] * 2,
        "attention_hidden_size": 128,
        "attention_head_dim": 32,
        "mamba_dt_rank": 8,
    },
    "zamba2": {
        "num_hidden_layers": 4,
        "layers_block_type": ["linear_attention", "hybrid"] * 2,
        "hybrid_layer_ids": [1, 3],
        "attention_hidden_size": 128,
        "attention_head_dim": 32,
        "n_mamba_heads": 8,
        "mamba_headdim": 16,
    },
    # Filled in when training starts, not by default.
    "autoformer": {"prediction_length": 4, "context_length": 16},
    "informer": {"prediction_length": 4, "context_length": 16},
    "time_series_transformer": {"prediction_length": 4, "context_length": 16},
    "efficientnet": {"width_coefficient": 0.25, "depth_coefficient": 0.5, "hidden_dim": 320},
    "esm": {"vocab_size": 64, "pad_token_id": 1, "mask_token_id": 32},
}

BY_CLASS: dict[str, dict[str, Any]] = {
    "ReformerModelWithLMHead": {"is_decoder": True},
}

ROTARY_SECTIONS = frozenset(
    {
        "glm4v_moe_text",
        "glm4v_text",
        "glm_image_text",
        "glm_ocr_text",
        "paddleocr_vl_text",
        "qwen2_5_omni_talker",
        "qwen2_5_omni_text",
        "qwen2_5_vl_text",
        "qwen2_vl_text",
    }
)
"""Types with three rotary sections whose default is in their code and fits one head size only."""
