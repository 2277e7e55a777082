"""Drafters of tiny size in both published layouts, with random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, WIDE, LAYERS = 32, 4, 2, 16, 48, 3
TARGET_LAYERS, VOCAB, MASK, BLOCK = 20, 70, 69, 6

ZLAB: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
    "hidden_size": HIDDEN,
    "intermediate_size": WIDE,
    "num_hidden_layers": LAYERS,
    "num_target_layers": TARGET_LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "vocab_size": VOCAB,
    "max_position_embeddings": 512,
    "attention_bias": False,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "block_size": BLOCK,
    "dflash_config": {"mask_token_id": MASK, "target_layer_ids": [1, 5, 9, 17]},
}
XIAOMI: dict[str, Any] = {
    **ZLAB,
    "partial_rotary_factor": 0.5,
    "rope_theta": 10000,
    "sliding_window": 8,
    "rms_norm_eps": 1e-5,
    "dflash_config": {
        "target_layer_ids": [0, 7, 12, 19],
        "mask_token_id": MASK,
        "num_anchors": 4096,
        "block_size": BLOCK,
        "loss_decay_gamma": 7.0,
        "use_swa": True,
        "swa_window_size": 8,
        "backbone_rotary_base": 5000000,
        "attention_value_scale": 0.612,
        "attention_sink_bias": True,
    },
}


def tensors(values: dict[str, Any], seed: int = 0) -> dict[str, Tensor]:
    """Random float32 weights by their names in files."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=generator) * columns**-0.5

    def vector(size: int, around: float) -> Tensor:
        return torch.randn(size, generator=generator) * 0.3 + around

    own, taps = values["dflash_config"], len(values["dflash_config"].get("target_layer_ids", [0] * LAYERS))
    found = {"fc.weight": matrix(HIDDEN, taps * HIDDEN)}
    found |= {f"{name}.weight": vector(HIDDEN, 1) for name in ("hidden_norm", "norm")}
    kv = KV_HEADS * HEAD_DIM
    sizes = {"q": (HEADS * HEAD_DIM, HIDDEN), "k": (kv, HIDDEN), "v": (kv, HIDDEN)}
    sizes["o"] = HIDDEN, HEADS * HEAD_DIM
    for layer in range(values["num_hidden_layers"]):
        p = f"layers.{layer}."
        for name, size in sizes.items():
            found[f"{p}self_attn.{name}_proj.weight"] = matrix(*size)
            if values["attention_bias"]:
                found[f"{p}self_attn.{name}_proj.bias"] = vector(size[0], 0)
        for name in ("q_norm", "k_norm"):
            found[f"{p}self_attn.{name}.weight"] = vector(HEAD_DIM, 1)
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"{p}{name}.weight"] = vector(HIDDEN, 1)
        for name in ("gate", "up"):
            found[f"{p}mlp.{name}_proj.weight"] = matrix(WIDE, HIDDEN)
        found[f"{p}mlp.down_proj.weight"] = matrix(HIDDEN, WIDE)
        if own.get("attention_sink_bias"):
            found[f"{p}self_attn.attention_sink_bias"] = vector(HEADS, 0.5)
    return found


def save(folder: Path, values: dict[str, Any], weights: dict[str, Tensor]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(values))
    return folder
