"""Models that can be planned without their files: the config.json of each, as far as sizes go."""

from __future__ import annotations

from typing import Any

_GLOBAL = (0, 7, 15, 23, 31, 39, 47, 55, 62, 69)
"""MiMo-V2.5-Pro's layers that see the whole context."""

_MIMO: dict[str, Any] = {
    "model_type": "mimo_v2",
    "hidden_size": 6144,
    "intermediate_size": 16384,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 70,
    "num_attention_heads": 128,
    "num_key_value_heads": 8,
    "head_dim": 192,
    "v_head_dim": 128,
    "swa_num_attention_heads": 128,
    "swa_num_key_value_heads": 8,
    "swa_head_dim": 192,
    "swa_v_head_dim": 128,
    "sliding_window": 128,
    "hybrid_layer_pattern": [0 if layer in _GLOBAL else 1 for layer in range(70)],
    "moe_layer_freq": [int(layer > 0) for layer in range(70)],
    "add_swa_attention_sink_bias": True,
    "attention_projection_layout": "fused_qkv",
    "attention_value_scale": 0.612,
    "partial_rotary_factor": 0.334,
    "rope_theta": 1e7,
    "swa_rope_theta": 1e4,
    "n_routed_experts": 384,
    "num_experts_per_tok": 8,
    "scoring_func": "sigmoid",
    "vocab_size": 152576,
    "tie_word_embeddings": False,
    "max_position_embeddings": 1048576,
    "layernorm_epsilon": 1e-5,
    "quantization_config": {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "weight_block_size": [128, 128],
        "store_dtype": "mxfp4",
        "mxfp4_block_size": 32,
        "ignored_layers": [f"model.layers.{layer}.self_attn.o_proj" for layer in range(70)],
    },
}

_MIMO_DRAFTER: dict[str, Any] = {
    "hidden_size": 6144,
    "intermediate_size": 16384,
    "num_hidden_layers": 5,
    "num_attention_heads": 128,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "block_size": 8,
    "dflash_config": {"target_layer_ids": [0, 15, 31, 47, 69]},
}


def _gpt_oss(layers: int, experts: int) -> dict[str, Any]:
    return {
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "num_hidden_layers": layers,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "num_local_experts": experts,
        "num_experts_per_tok": 4,
        "sliding_window": 128,
        "vocab_size": 201088,
        "tie_word_embeddings": False,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "quantization_config": {"quant_method": "mxfp4"},
    }


_GPT_OSS_DRAFTER: dict[str, Any] = {
    "hidden_size": 2880,
    "intermediate_size": 7680,
    "num_hidden_layers": 8,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "block_size": 8,
    "dflash_config": {"target_layer_ids": [1, 6, 11, 16, 21]},
}

_QWEN3 = {
    "head_dim": 128,
    "rope_theta": 1e6,
    "rms_norm_eps": 1e-6,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "num_attention_heads": 32,
    "tie_word_embeddings": False,
}

_QWEN3_8B: dict[str, Any] = {
    **_QWEN3,
    "model_type": "qwen3",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
}

_QWEN3_30B: dict[str, Any] = {
    **_QWEN3,
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
}

_QWEN3_8B_DRAFTER: dict[str, Any] = {
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 5,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "block_size": 16,
    "dflash_config": {"target_layer_ids": [1, 9, 17, 25, 33]},
}

CONFIGS: dict[str, dict[str, Any]] = {
    "MiMo-V2.5-Pro-FP4-DFlash": _MIMO,
    "gpt-oss-20b": _gpt_oss(24, 32),
    "gpt-oss-120b": _gpt_oss(36, 128),
    "Qwen3-30B-A3B": _QWEN3_30B,
    "Qwen3-8B": _QWEN3_8B,
}

DRAFTERS: dict[str, dict[str, Any]] = {
    "MiMo-V2.5-Pro-FP4-DFlash": _MIMO_DRAFTER,
    "gpt-oss-20b": _GPT_OSS_DRAFTER,
    "Qwen3-8B": _QWEN3_8B_DRAFTER,
}

ACCEPT: dict[str, float] = {"MiMo-V2.5-Pro-FP4-DFlash": 6.3, "gpt-oss-20b": 5.1, "Qwen3-8B": 6.5}
"""Accept lengths that the drafters' authors publish: on WebDev, on Math500, and the mean of eight benchmarks
at temperature 0."""


def find(name: str) -> str | None:
    """The key of a name as people write it: any case, with or without its organisation."""
    wanted = name.strip().rsplit("/", 1)[-1].lower()
    return next((key for key in CONFIGS if key.lower() == wanted), None)
