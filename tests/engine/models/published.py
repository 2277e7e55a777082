"""The numbers of published config.json files, as far as a language model needs them."""

from __future__ import annotations

from typing import Any

_QWEN = {"rms_norm_eps": 1e-6, "hidden_act": "silu", "use_sliding_window": False}

LLAMA_1B: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "tie_word_embeddings": True,
}
QWEN25_HALF_B: dict[str, Any] = _QWEN | {
    "model_type": "qwen2",
    "vocab_size": 151936,
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32768,
    "max_window_layers": 21,
    "sliding_window": 32768,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": True,
}
QWEN3_4B: dict[str, Any] = _QWEN | {
    "model_type": "qwen3",
    "vocab_size": 151936,
    "hidden_size": 2560,
    "intermediate_size": 9728,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "tie_word_embeddings": True,
}
QWEN3_8B = QWEN3_4B | {"hidden_size": 4096, "intermediate_size": 12288, "tie_word_embeddings": False}
QWEN3_30B_A3B: dict[str, Any] = QWEN3_8B | {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
GPT_OSS_20B: dict[str, Any] = {
    "model_type": "gpt_oss",
    "vocab_size": 201088,
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 24,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "experts_per_token": 4,
    "sliding_window": 128,
    "max_position_embeddings": 131072,
    "attention_bias": True,
    "rms_norm_eps": 1e-5,
    "rope_theta": 150000,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 4096,
    },
    "swiglu_limit": 7.0,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
    "tie_word_embeddings": False,
}


def _mimo(family: str, layers: int, full: set[int], own: dict[str, Any]) -> dict[str, Any]:
    return {
        "model_type": family,
        "vocab_size": 152576,
        "intermediate_size": 16384,
        "moe_intermediate_size": 2048,
        "num_hidden_layers": layers,
        "head_dim": 192,
        "v_head_dim": 128,
        "swa_head_dim": 192,
        "swa_v_head_dim": 128,
        "partial_rotary_factor": 0.334,
        "swa_rope_theta": 10000,
        "sliding_window": 128,
        "sliding_window_size": 128,
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
        "attention_bias": False,
        "hybrid_layer_pattern": [int(layer not in full) for layer in range(layers)],
        "moe_layer_freq": [int(layer > 0) for layer in range(layers)],
        "num_experts_per_tok": 8,
        "n_group": 1,
        "topk_group": 1,
        "norm_topk_prob": True,
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
        "routed_scaling_factor": None,
        "layernorm_epsilon": 1e-5,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "quantization_config": {
            "quant_method": "fp8",
            "fmt": "e4m3",
            "activation_scheme": "dynamic",
            "weight_block_size": [128, 128],
        },
        **own,
    }


MIMO_V2_FLASH = _mimo(
    "mimo_v2_flash",
    48,
    {0, 5, 11, 17, 23, 29, 35, 41, 47},
    {
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "num_key_value_heads": 4,
        "swa_num_attention_heads": 64,
        "swa_num_key_value_heads": 8,
        "n_routed_experts": 256,
        "rope_theta": 5000000,
        "attention_value_scale": 0.707,
        "max_position_embeddings": 262144,
    },
)
MIMO_V25_PRO = _mimo(
    "mimo_v2",
    70,
    {0, 7, 15, 23, 31, 39, 47, 55, 62, 69},
    {
        "hidden_size": 6144,
        "num_attention_heads": 128,
        "num_key_value_heads": 8,
        "swa_num_attention_heads": 128,
        "swa_num_key_value_heads": 8,
        "n_routed_experts": 384,
        "rope_theta": 10000000,
        "attention_value_scale": 0.612,
        "attention_projection_layout": "fused_qkv",
        "max_position_embeddings": 1048576,
    },
)
ALL = {
    "llama": LLAMA_1B,
    "qwen2": QWEN25_HALF_B,
    "qwen3": QWEN3_4B,
    "qwen3_moe": QWEN3_30B_A3B,
    "gpt_oss": GPT_OSS_20B,
    "mimo_v2_flash": MIMO_V2_FLASH,
    "mimo_v2": MIMO_V25_PRO,
}
