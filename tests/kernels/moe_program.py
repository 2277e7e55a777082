"""Mixtures of experts between an embedding and a head, as three families have them, and their formulas."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from kernels.cpu.quantised_program import packed
from ultra_kernels.builder import Builder
from ultra_kernels.formats import FORMATS
from ultra_kernels.program import Attributes, Kind, Op, Program, Scoring
from ultra_kernels.step import Packed, Step

VOCAB, EPS = 61, 1e-5


@dataclass(frozen=True)
class Family:
    """How a family routes, and what its experts do."""

    scoring: Scoring
    normalise: bool = False
    factor: float = 1.0
    limit: float = 0.0
    alpha: float = 0.0
    router_bias: bool = False
    correction: bool = False
    expert_biases: bool = False


FAMILIES = {
    "qwen3_moe": Family(Scoring.SOFTMAX, normalise=True),
    "plain": Family(Scoring.SOFTMAX, factor=2.5),
    "gpt_oss": Family(Scoring.CHOSEN, limit=7.0, alpha=1.702, router_bias=True, expert_biases=True),
    "mimo": Family(Scoring.SIGMOID, normalise=True, correction=True),
}


@dataclass(frozen=True)
class Shape:
    experts: int = 8
    top_k: int = 3
    hidden: int = 32
    wide: int = 24


def build(
    family: Family, shape: Shape = Shape(), tiles: int = 1, *, layers: int = 1, routed: bool = True
) -> Program:
    """Without ``routed`` nobody writes the ids: whatever is in the buffer is taken."""
    b = Builder()
    x = b.activation("x", "rows", shape.hidden)
    for name in ("positions", "sequences"):
        b.input(name, "rows")
    b.input("block_table", "sequences", "table")
    table = b.weight("embed", VOCAB, shape.hidden)
    b.node(
        Op.EMBED, shape.hidden, {"table": table, "tokens": b.input("tokens", "rows"), "x": x}, Attributes()
    )
    for layer in range(layers):
        _mixture(b, x, family, shape, layer, routed)
    head = {"x": x, "norm": b.weight("norm", shape.hidden), "w": b.weight("head", VOCAB, shape.hidden)}
    head |= {
        "out_rows": b.input("out_rows", "outputs"),
        "logits": b.buffer("logits", Kind.OUTPUT, "outputs", VOCAB),
    }
    b.node(Op.NORM_HEAD, VOCAB, head, Attributes(eps=EPS))
    return b.build(tiles)


def _mixture(b: Builder, x: int, family: Family, shape: Shape, layer: int, routed: bool) -> None:
    n, top_k, hidden, wide = shape.experts, shape.top_k, shape.hidden, shape.wide
    ids, gates = b.buffer("ids", Kind.INDEX, "rows", top_k), b.activation("gates", "rows", top_k)
    norm, u = b.weight(f"{layer}.norm", hidden), b.activation("u", "rows", top_k, wide)
    at = Attributes(experts=n, top_k=top_k, eps=EPS, limit=family.limit, alpha=family.alpha)
    route = {
        "x": x,
        "norm": norm,
        "w": b.weight(f"{layer}.router", n, hidden),
        "experts": ids,
        "gates": gates,
    }
    if family.router_bias:
        route["b"] = b.weight(f"{layer}.router.b", n)
    if family.correction:
        route["correction"] = b.weight(f"{layer}.correction", n)
    how = Attributes(
        eps=EPS,
        scale=family.factor,
        experts=n,
        top_k=top_k,
        scoring=family.scoring,
        normalise=family.normalise,
    )
    if routed:
        b.node(Op.ROUTE, 5, route, how, layer)
    up = {f"w_{name}": b.weight(f"{layer}.{name}", n, wide, hidden) for name in ("gate", "up")}
    down = {"w": b.weight(f"{layer}.down", n, hidden, wide), "u": u, "experts": ids, "gates": gates, "x": x}
    if family.expert_biases:
        up |= {f"b_{name}": b.weight(f"{layer}.{name}.b", n, wide) for name in ("gate", "up")}
        down["b"] = b.weight(f"{layer}.down.b", n, hidden)
    b.node(Op.EXPERT_GATE_UP, wide, {"x": x, "norm": norm, "experts": ids, "u": u} | up, at, layer)
    b.node(Op.EXPERT_DOWN_ADD, hidden, down, Attributes(experts=n, top_k=top_k), layer)


def weights(program: Program, format: str = "f32", seed: int = 0) -> dict[str, Packed]:
    """Experts' matrices in ``format``, their biases in bfloat16, everything else in float32."""
    rng = np.random.default_rng(seed)

    def one(name: str, shape: tuple[int, int], dims: int) -> Packed:
        if dims == 3:
            return packed(FORMATS[format], *shape, rng)
        size = 0.1 if name in ("embed", "head") else 0.5
        values = torch.from_numpy(rng.normal(0, size, shape).astype(np.float32))
        if dims == 2 and name.endswith(".b"):
            return Packed(FORMATS["bf16"], values.bfloat16().view(torch.uint8))
        return Packed(FORMATS["f32"], values.view(torch.uint8))

    return {b.name: one(b.name, b.matrix, len(b.shape)) for b in program.weights()}


def step(tokens: list[int]) -> Step:
    rows = len(tokens)
    return Step(tokens, range(rows), [0] * rows, [range(4)], range(rows))


def oracle(
    family: Family, shape: Shape, weights: dict[str, Packed], tokens: list[int], layers: int = 1
) -> np.ndarray:
    """The logits, written from the formulas: row by row, slot by slot."""
    w = {name: p.format.rows(p.data).double().numpy() for name, p in weights.items()}
    norm = lambda x, g: x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS) * g[0]  # noqa: E731
    x = w["embed"][tokens]
    for layer in range(layers):
        own = {name.split(".", 1)[1]: values for name, values in w.items() if name.startswith(f"{layer}.")}
        x = x + np.stack([_row(family, shape, own, h) for h in norm(x, own["norm"])])
    return norm(x, w["norm"]) @ w["head"].T


def _row(family: Family, shape: Shape, w: dict[str, np.ndarray], h: np.ndarray) -> np.ndarray:
    logits = w["router"] @ h + w.get("router.b", np.zeros((1, shape.experts)))[0]
    if family.scoring is Scoring.SIGMOID:
        scores = 1 / (1 + np.exp(-logits))
        chosen = np.argsort(-(scores + w["correction"][0]), kind="stable")[: shape.top_k]
        gates = scores[chosen]
    else:
        chosen = np.argsort(-logits, kind="stable")[: shape.top_k]
        over = logits if family.scoring is Scoring.SOFTMAX else logits[chosen]
        gates = np.exp(logits[chosen]) / np.exp(over).sum()
    if family.normalise:
        gates = gates / (gates.sum() + 1e-20)
    total = np.zeros(shape.hidden)
    for expert, gate in zip(chosen, gates * family.factor, strict=True):
        total += gate * _expert(family, shape, w, int(expert), h)
    return total


def _expert(family: Family, shape: Shape, w: dict[str, np.ndarray], e: int, h: np.ndarray) -> np.ndarray:
    def matrix(name: str, rows: int) -> np.ndarray:
        return w[name].reshape(shape.experts, rows, -1)[e]

    def bias(name: str, rows: int) -> np.ndarray:
        return w.get(name + ".b", np.zeros((shape.experts, rows)))[e]

    g = matrix("gate", shape.wide) @ h + bias("gate", shape.wide)
    u = matrix("up", shape.wide) @ h + bias("up", shape.wide)
    if family.limit:
        g, u = np.minimum(g, family.limit), np.clip(u, -family.limit, family.limit)
        a = (u + 1) * g / (1 + np.exp(-family.alpha * g))
    else:
        a = g / (1 + np.exp(-g)) * u
    return matrix("down", shape.hidden) @ a + bias("down", shape.hidden)
