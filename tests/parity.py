"""The independent oracle: transformers in float32 on the weights that the gguf package unpacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gguf
import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config
from ultra_engine.weights.gguf import GGUFFile

_LAYER = {
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
_GLOBAL = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


class Oracle:
    """Greedy decoding by transformers, float32."""

    def __init__(self, file: GGUFFile) -> None:
        self.model = _model(file)

    def logits(self, ids: Sequence[int]) -> np.ndarray:
        """float32 [len(ids), vocabulary]."""
        with torch.inference_mode():
            return self.model(torch.tensor([list(ids)])).logits[0].numpy()

    def greedy(self, ids: Sequence[int], count: int) -> list[int]:
        """``count`` tokens after ``ids``, by transformers' own loop and cache; never stops early."""
        with torch.inference_mode():
            out = self.model.generate(
                torch.tensor([list(ids)]),
                attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                max_new_tokens=count,
                min_new_tokens=count,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
            )
        return out[0, len(ids) :].tolist()


def _model(file: GGUFFile) -> Any:
    family = file.metadata["general.architecture"]
    meta = {key.removeprefix(family + "."): value for key, value in file.metadata.items()}
    config = {"llama": LlamaConfig, "qwen2": Qwen2Config}[family](
        vocab_size=file.tensors["token_embd.weight"].shape[0],
        hidden_size=meta["embedding_length"],
        intermediate_size=meta["feed_forward_length"],
        num_hidden_layers=meta["block_count"],
        num_attention_heads=meta["attention.head_count"],
        num_key_value_heads=meta["attention.head_count_kv"],
        max_position_embeddings=meta["context_length"],
        rms_norm_eps=meta["attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": meta["rope.freq_base"]},
        tie_word_embeddings="output.weight" not in file.tensors,
    )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager")
    model = model.to_empty(device="cpu")
    model.model.rotary_emb.__init__(config)
    state = {_name(name): torch.from_numpy(_dequantise(file, name, config)) for name in file.tensors}
    missing, unexpected = model.load_state_dict(state, strict=False, assign=True)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    model.generation_config.eos_token_id = None
    return model.eval()


def _name(name: str) -> str:
    parts = name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{_LAYER[parts[2]]}.{parts[3]}"
    return f"{_GLOBAL[parts[0]]}.{parts[1]}"


def _dequantise(file: GGUFFile, name: str, config: Any) -> np.ndarray:
    info = file.tensors[name]
    rows = info.shape[0] if len(info.shape) == 2 else 1
    weight = gguf.quants.dequantize(file.data(name).reshape(rows, -1), info.type)
    weight = np.array(weight.reshape(info.shape), dtype=np.float32)  # a copy: the file is read-only
    if config.model_type == "llama" and (".attn_q." in name or ".attn_k." in name):
        heads = config.num_attention_heads if ".attn_q." in name else config.num_key_value_heads
        # GGUF has RoPE pairs side by side, transformers has them half a head apart.
        pairs = weight.reshape(heads, info.shape[0] // heads // 2, 2, -1)
        weight = np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(info.shape))
    return weight
