"""A program with every op whose matrices are in a format of choice, with random but sane blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from ultra_kernels.builder import Builder
from ultra_kernels.formats import FORMATS, Format
from ultra_kernels.program import BLOCK, SPLITS, Attributes, Kind, Op, Program
from ultra_kernels.step import Packed, Step

HEADS, KV_HEADS, DIM, VOCAB = 4, 2, 64, 77

_HALVES = {"q4_1": (0, 2), "q5_1": (0, 2), "q4_k": (0, 2), "q5_k": (0, 2), "q6_k": (208,)}
"""Where a block has its float16 numbers; others have one at byte 0."""


def build(tiles: int = 1, *, hidden: int = 256, wide: int = 512, window: int = 0) -> Program:
    """One layer and the head; q, k and v have biases, q and k their own norms."""
    b = Builder()
    x, table = b.activation("x", "rows", hidden), b.weight("embed", VOCAB, hidden)
    b.node(Op.EMBED, hidden, {"table": table, "tokens": b.input("tokens", "rows"), "x": x}, Attributes())
    at = Attributes(HEADS, KV_HEADS, DIM, DIM, False, window, 1e-5, DIM**-0.5)
    place = {name: b.input(name, "rows") for name in ("positions", "sequences")}
    place["block_table"] = b.input("block_table", "sequences", "table")
    caches = {f"{n}_cache": b.buffer(f"{n}_cache", Kind.STATE, "blocks", BLOCK, KV_HEADS, DIM) for n in "kv"}
    q, a = b.activation("q", "rows", HEADS, DIM), b.activation("a", "rows", HEADS * DIM)
    project = {"x": x, "norm": b.weight("norm1", hidden), "q": q}
    for name, heads in {"q": HEADS, "k": KV_HEADS, "v": KV_HEADS}.items():
        project |= {
            f"w{name}": b.weight(f"w{name}", heads * DIM, hidden),
            f"b{name}": b.weight(f"b{name}", heads * DIM),
        }
    project |= {f"{n}_norm": b.weight(f"{n}_norm", DIM) for n in "qk"}
    project["inv_freq"] = b.constant("inv_freq", 100.0 ** -np.linspace(0, 1, DIM // 2, dtype=np.float32))
    b.node(Op.NORM_QKV, HEADS + 2 * KV_HEADS, project | place | caches, at, 0)
    mix = {"a": a, "parts": b.activation("parts", "rows", SPLITS, HEADS, DIM + 2)}
    b.node(Op.ATTENTION, KV_HEADS * SPLITS, {"q": q} | mix | place | caches, at, 0)
    b.node(Op.ATTENTION_MERGE, HEADS, mix | {"positions": place["positions"]}, at, 0)
    b.node(
        Op.LINEAR_ADD, hidden, {"a": a, "w": b.weight("out", hidden, HEADS * DIM), "x": x}, Attributes(), 0
    )
    u = b.activation("u", "rows", wide)
    up = {"w_gate": b.weight("gate", wide, hidden), "w_up": b.weight("up", wide, hidden)}
    up |= {"x": x, "norm": b.weight("norm2", hidden), "u": u}
    b.node(Op.NORM_GATE_UP, wide, up, Attributes(eps=1e-5), 0)
    down = {"a": u, "w": b.weight("down", hidden, wide), "b": b.weight("b_down", hidden), "x": x}
    b.node(Op.LINEAR_ADD, hidden, down, Attributes(), 0)
    head = {"x": x, "norm": b.weight("norm", hidden), "w": table, "out_rows": b.input("out_rows", "outputs")}
    head["logits"] = b.buffer("logits", Kind.OUTPUT, "outputs", VOCAB)
    b.node(Op.NORM_HEAD, VOCAB, head, Attributes(eps=1e-5))
    b.sample(head["logits"])
    return b.build(tiles)


def packed(format: Format, rows: int, columns: int, rng: np.random.Generator) -> Packed:
    """Random weights of moderate size: random bits, or random blocks with small scales."""
    if format.block == 1:
        values = torch.from_numpy(rng.normal(0, 0.1, (rows, columns)).astype(np.float32))
        dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[format.name]
        return Packed(format, values.to(dtype).view(torch.uint8).reshape(rows, -1))
    blocks = rng.integers(0, 256, (rows, columns // format.block, format.block_bytes), dtype=np.uint8)
    if format.name == "mxfp4":
        blocks[:, :, 0] = rng.integers(118, 123, blocks.shape[:2])
        return Packed(format, torch.from_numpy(blocks.reshape(rows, -1)))
    if format.name == "fp8_block":
        blocks[:, :, 4:] -= (blocks[:, :, 4:] & 127) == 127  # no NaN
        blocks[:, :, :4] = rng.uniform(-1e-3, 1e-3, (*blocks.shape[:2], 1)).astype(np.float32).view(np.uint8)
        return Packed(format, torch.from_numpy(blocks.reshape(rows, -1)))
    size = 1e-4 if format.block == 256 else 6e-3
    for at in _HALVES.get(format.name, (0,)):
        scale = rng.uniform(-size, size, blocks.shape[:2]).astype(np.float16)
        blocks[:, :, at : at + 2] = scale[..., None].view(np.uint8)
    return Packed(format, torch.from_numpy(blocks.reshape(rows, -1)))


def weights(program: Program, format: str, seed: int = 0) -> dict[str, Packed]:
    """Matrices in ``format``, vectors in float32."""
    rng = np.random.default_rng(seed)
    return {
        b.name: packed(
            FORMATS[format if len(b.shape) == 2 else "f32"], int(np.prod(b.shape[:-1])), int(b.shape[-1]), rng
        )
        for b in program.weights()
    }


def steps_of(tokens: Sequence[int], counts: Sequence[int] = ()) -> list[Step]:
    """One sequence in steps of so many rows (one step if none are given), logits for every row."""
    steps, start = [], 0
    for count in counts or [len(tokens)]:
        rows = tokens[start : start + count]
        steps.append(Step(rows, range(start, start + count), [0] * count, [[3, 1, 2, 0]], range(len(rows))))
        start += count
    assert start == len(tokens)
    return steps
