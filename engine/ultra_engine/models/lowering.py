"""ModelConfig -> Program, for dense decoders. Buffer names are the model's canonical tensor names."""

from __future__ import annotations

from ultra_kernels.builder import Builder
from ultra_kernels.program import BLOCK, SPLITS, Attributes, Kind, Op, Program

from .config import ModelConfig


def lower(config: ModelConfig, tiles: int = 1) -> Program:
    """The program of one step; ``tiles`` is how many ways each op is cut."""
    b = Builder()
    x = b.activation("x", "rows", config.hidden)
    table = b.weight("embed.weight", config.vocab, config.hidden)
    tokens = b.input("tokens", "rows")
    b.node(Op.EMBED, config.hidden, {"table": table, "tokens": tokens, "x": x}, Attributes())
    for layer in range(config.layers):
        _attention(b, config, layer, x)
        _mlp(b, config, layer, x)
    head = {
        "x": x,
        "norm": b.weight("norm.weight", config.hidden),
        "w": table if config.tied else b.weight("head.weight", config.vocab, config.hidden),
        "out_rows": b.input("out_rows", "outputs"),
        "logits": b.buffer("logits", Kind.OUTPUT, "outputs", config.vocab),
    }
    b.node(Op.NORM_HEAD, config.vocab, head, Attributes(eps=config.eps))
    b.sample(head["logits"])
    return b.build(tiles)


def _attention(b: Builder, c: ModelConfig, layer: int, x: int) -> None:
    prefix = f"layers.{layer}."
    widths = {"q": c.heads * c.head_dim, "k": c.kv_heads * c.head_dim, "v": c.kv_heads * c.head_dim}
    place = {
        "positions": b.input("positions", "rows"),
        "sequences": b.input("sequences", "rows"),
        "block_table": b.input("block_table", "sequences", "table"),
    }
    caches = {
        f"{name}_cache": b.buffer(
            f"{prefix}{name}_cache", Kind.STATE, "blocks", BLOCK, c.kv_heads, c.head_dim
        )
        for name in "kv"
    }
    q = b.activation("q", "rows", c.heads, c.head_dim)
    a = b.activation("a", "rows", c.heads * c.head_dim)
    project = {"x": x, "norm": b.weight(prefix + "attn_norm.weight", c.hidden), "q": q}
    project["inv_freq"] = b.constant("inv_freq", c.rope.inv_freq)
    for name, width in widths.items():
        project["w" + name] = b.weight(f"{prefix}{name}.weight", width, c.hidden)
        if c.qkv_bias:
            project["b" + name] = b.weight(f"{prefix}{name}.bias", width)
    if c.qk_norm:
        project |= {f"{name}_norm": b.weight(f"{prefix}{name}_norm.weight", c.head_dim) for name in "qk"}
    attributes = Attributes(
        heads=c.heads,
        kv_heads=c.kv_heads,
        head_dim=c.head_dim,
        rope_dims=c.rope.dims,
        interleaved=c.rope.interleaved,
        window=c.window,
        eps=c.eps,
        scale=c.head_dim**-0.5,
    )
    parts = b.activation("parts", "rows", SPLITS, c.heads, c.head_dim + 2)
    b.node(Op.NORM_QKV, c.heads + 2 * c.kv_heads, project | place | caches, attributes, layer)
    mix = {"a": a, "parts": parts}
    b.node(Op.ATTENTION, c.kv_heads * SPLITS, {"q": q} | mix | place | caches, attributes, layer)
    b.node(Op.ATTENTION_MERGE, c.heads, mix | {"positions": place["positions"]}, attributes, layer)
    out = b.weight(prefix + "o.weight", c.hidden, c.heads * c.head_dim)
    b.node(Op.LINEAR_ADD, c.hidden, {"a": a, "w": out, "x": x}, Attributes(), layer)


def _mlp(b: Builder, c: ModelConfig, layer: int, x: int) -> None:
    prefix = f"layers.{layer}."
    u = b.activation("u", "rows", c.intermediate)
    up = {
        "x": x,
        "norm": b.weight(prefix + "mlp_norm.weight", c.hidden),
        "w_gate": b.weight(prefix + "gate.weight", c.intermediate, c.hidden),
        "w_up": b.weight(prefix + "up.weight", c.intermediate, c.hidden),
        "u": u,
    }
    b.node(Op.NORM_GATE_UP, c.intermediate, up, Attributes(eps=c.eps), layer)
    down = b.weight(prefix + "down.weight", c.hidden, c.intermediate)
    b.node(Op.LINEAR_ADD, c.hidden, {"a": u, "w": down, "x": x}, Attributes(), layer)
