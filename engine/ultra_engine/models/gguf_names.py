"""Our tensor names in GGUF's words."""

from __future__ import annotations

_GLOBAL = {"embed": "token_embd", "norm": "output_norm", "head": "output"}
_LAYER = {
    "attn_norm": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "sinks": "attn_sinks",
    "mlp_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
    "router": "ffn_gate_inp",
}

ARCHITECTURES = {"qwen3moe": "qwen3_moe", "gpt-oss": "gpt_oss"}
"""GGUF architecture -> family, where the two are spelt apart."""


def gguf_name(name: str, architecture: str = "llama") -> str:
    """The tensor ``name`` of a file of that architecture: "layers.3.q.bias" -> "blk.3.attn_q.bias"."""
    parts = name.split(".")
    if parts[0] != "layers":
        return f"{_GLOBAL[parts[0]]}.{parts[1]}"
    layer, what, kind = parts[1], parts[-2], parts[-1]
    if what == "mlp_norm" and architecture == "gpt-oss":
        word = "post_attention_norm"
    else:
        word = _LAYER[what] + ("_exps" if parts[2] == "experts" else "")
    return f"blk.{layer}.{word}.{kind}"
