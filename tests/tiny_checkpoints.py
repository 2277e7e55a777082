"""Tiny safetensors checkpoints with random weights, written by transformers."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch

SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_experts_per_tok": 2,
    "vocab_size": 256,
    "max_position_embeddings": 512,
}


def write(folder: Path, family: str, original: bool = True, **changes: Any) -> Path:
    """A checkpoint of that family; ``original`` False: experts fused, as transformers has them in memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import transformers

        torch.manual_seed(3)
        config = getattr(transformers, f"{family}Config")(**SIZES, **changes)
        model = getattr(transformers, f"{family}ForCausalLM")(config).to(torch.bfloat16)
        model.save_pretrained(folder, save_original_format=original)
    return folder


MIXTURE: dict[str, Any] = {
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "num_experts": 4,
    "mlp_only_layers": [0],
}
