"""The tiny models of `tiny_gguf` as folders with safetensors: the same weights under transformers' names."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import safetensors_files
import tiny_gguf
import torch
from tokenizers.decoders import ByteLevel
from ultra_engine.tokens.tokenizer import Tokenizer
from ultra_engine.weights.gguf import GGUFFile

_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def write(folder: Path, source: Path, *, shards: int = 1) -> Path:
    """A qwen2 model out of a GGUF file of `tiny_gguf`."""
    with GGUFFile.open(source) as file:
        tensors = {
            _name(name): torch.from_numpy(file.data(name).view(np.float32).reshape(info.shape).copy())
            for name, info in file.tensors.items()
        }
        tokenizer = Tokenizer.from_gguf(file)
    config = {
        "model_type": "qwen2",
        "vocab_size": tiny_gguf.VOCAB,
        "hidden_size": tiny_gguf.HIDDEN,
        "intermediate_size": tiny_gguf.INTERMEDIATE,
        "num_hidden_layers": tiny_gguf.LAYERS,
        "num_attention_heads": tiny_gguf.HEADS,
        "num_key_value_heads": tiny_gguf.KV_HEADS,
        "max_position_embeddings": tiny_gguf.CONTEXT,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
    }
    safetensors_files.write(folder, tensors, config=config, shards=shards)
    backend = tokenizer._backend
    backend.decoder = ByteLevel()
    (folder / "tokenizer.json").write_text(backend.to_str())
    settings = {"eos_token": "<|im_end|>", "chat_template": tiny_gguf.CHATML, "add_bos_token": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def _name(name: str) -> str:
    parts = name.split(".")
    if parts[0] != "blk":
        return f"{_NAMES[parts[0]]}.{parts[1]}"
    return f"model.layers.{parts[1]}.{_NAMES[parts[2]]}.{parts[3]}"
