"""A small program with every op and every optional operand, and random weights for it."""

from __future__ import annotations

import numpy as np
import torch
from ultra_kernels.builder import Builder
from ultra_kernels.formats import FORMATS
from ultra_kernels.program import BLOCK, SPLITS, Attributes, Kind, Op, Program
from ultra_kernels.step import Packed

HIDDEN, HEADS, KV_HEADS, DIM, VALUES, WIDE, VOCAB = 24, 6, 3, 8, 5, 40, 50
VALUE_SCALE = 0.75


def build(
    tiles: int = 1, *, layers: int = 2, window: int = 0, interleaved: bool = False, sinks: bool = False
) -> Program:
    b = Builder()
    x = b.activation("x", "rows", HIDDEN)
    b.node(
        Op.EMBED,
        HIDDEN,
        {"table": b.weight("embed", VOCAB, HIDDEN), "tokens": b.input("tokens", "rows"), "x": x},
        Attributes(),
    )
    for layer in range(layers):
        _layer(b, x, layer, window, interleaved, sinks)
    head = {
        "x": x,
        "norm": b.weight("norm", HIDDEN),
        "w": b.weight("head", VOCAB, HIDDEN),
        "out_rows": b.input("out_rows", "outputs"),
        "logits": b.buffer("logits", Kind.OUTPUT, "outputs", VOCAB),
    }
    b.node(Op.NORM_HEAD, VOCAB, head, Attributes(eps=1e-5))
    b.sample(head["logits"])
    return b.build(tiles)


def _layer(b: Builder, x: int, layer: int, window: int, interleaved: bool, sinks: bool) -> None:
    at = Attributes(HEADS, KV_HEADS, DIM, 4, interleaved, window, 1e-5, DIM**-0.5, VALUES, VALUE_SCALE)
    dims = {"q": DIM, "k": DIM, "v": VALUES}
    place = {
        "positions": b.input("positions", "rows"),
        "sequences": b.input("sequences", "rows"),
        "block_table": b.input("block_table", "sequences", "table"),
    }
    caches = {
        f"{n}_cache": b.buffer(f"{layer}.{n}", Kind.STATE, "blocks", BLOCK, KV_HEADS, dims[n]) for n in "kv"
    }
    q, a = b.activation("q", "rows", HEADS, DIM), b.activation("a", "rows", HEADS * VALUES)
    qkv = {"x": x, "norm": b.weight(f"{layer}.norm", HIDDEN), "q": q}
    for name, heads in {"q": HEADS, "k": KV_HEADS, "v": KV_HEADS}.items():
        qkv["w" + name] = b.weight(f"{layer}.w{name}", heads * dims[name], HIDDEN)
        qkv["b" + name] = b.weight(f"{layer}.b{name}", heads * dims[name])
    qkv |= {f"{name}_norm": b.weight(f"{layer}.{name}_norm", DIM) for name in "qk"}
    qkv["inv_freq"] = b.constant("inv_freq", np.array([1.0, 0.1], dtype=np.float32))
    b.node(Op.NORM_QKV, HEADS + 2 * KV_HEADS, qkv | place | caches, at, layer)
    mix = {"a": a, "parts": b.activation("parts", "rows", SPLITS, HEADS, VALUES + 2)}
    if sinks:
        mix["sinks"] = b.weight(f"{layer}.sinks", HEADS)
    b.node(Op.ATTENTION, KV_HEADS * SPLITS, {"q": q} | mix | place | caches, at, layer)
    b.node(Op.ATTENTION_MERGE, HEADS, mix | {"positions": place["positions"]}, at, layer)
    out = {
        "a": a,
        "w": b.weight(f"{layer}.out", HIDDEN, HEADS * VALUES),
        "b": b.weight(f"{layer}.bo", HIDDEN),
    }
    b.node(Op.LINEAR_ADD, HIDDEN, out | {"x": x}, Attributes(), layer)
    u = b.activation("u", "rows", WIDE)
    up = {
        "x": x,
        "norm": b.weight(f"{layer}.norm2", HIDDEN),
        "w_gate": b.weight(f"{layer}.gate", WIDE, HIDDEN),
        "w_up": b.weight(f"{layer}.up", WIDE, HIDDEN),
        "u": u,
    }
    b.node(Op.NORM_GATE_UP, WIDE, up, Attributes(eps=1e-5), layer)
    down = b.weight(f"{layer}.down", HIDDEN, WIDE)
    b.node(Op.LINEAR_ADD, HIDDEN, {"a": u, "w": down, "x": x}, Attributes(), layer)


def weights(program: Program, seed: int = 0) -> dict[str, Packed]:
    """Random float32 weights of moderate size for every weight buffer."""
    generator = torch.Generator().manual_seed(seed)

    def random(shape: tuple[int | str, ...]) -> Packed:
        rows = int(shape[0]) if len(shape) == 2 else 1
        data = torch.randn(rows, int(shape[-1]), generator=generator) * 0.4
        return Packed(FORMATS["f32"], data.view(torch.uint8))

    return {buffer.name: random(buffer.shape) for buffer in program.weights()}
