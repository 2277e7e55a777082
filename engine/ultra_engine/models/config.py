"""The numbers that make one model: what a family reads from a file, and all that the lowering needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from math import prod

import numpy as np
import numpy.typing as npt
from ultra_kernels.program import Scoring


@dataclass(frozen=True, slots=True, eq=False)
class Rope:
    """Rotary embedding of the first ``dims`` of a head. ``inv_freq`` is float32 [dims / 2], with every kind
    of scaling already in it; cosine and sine are multiplied by ``factor`` (YaRN's attention scaling)."""

    dims: int
    inv_freq: npt.NDArray[np.float32]
    interleaved: bool = False
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Attention:
    """Grouped-query attention of one layer. Sizes are numbers of elements."""

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    rope: Rope
    value_scale: float = 1.0
    window: int = 0
    """Keys that a position sees, itself included; 0 is all."""
    sinks: bool = False
    bias: bool = False
    """Biases of q, k and v."""
    out_bias: bool = False
    qk_norm: bool = False

    @property
    def scale(self) -> float:
        """What scores are multiplied with. YaRN's factor is in q and in k, so twice in a score, where all
        of a head is rotated; the readers of files refuse it elsewhere."""
        return float(self.head_dim**-0.5 * self.rope.factor**2)

    @property
    def kv_bytes(self) -> int:
        """Bytes of K and V of one position in bfloat16."""
        return 2 * self.kv_heads * (self.head_dim + self.value_dim)


@dataclass(frozen=True, slots=True)
class Dense:
    """A SwiGLU MLP of ``wide`` columns."""

    wide: int


@dataclass(frozen=True, slots=True)
class Mixture:
    """Experts of ``wide`` columns, and how ``top_k`` of them are chosen and weighed (see `Scoring`)."""

    experts: int
    top_k: int
    wide: int
    scoring: Scoring
    normalise: bool = False
    factor: float = 1.0
    limit: float = 0.0
    """Where gpt-oss clamps gate and up; 0 is plain SwiGLU."""
    alpha: float = 0.0
    router_bias: bool = False
    biases: bool = False
    """Biases of the experts."""
    correction: bool = False
    """One number an expert that is added to the scores when experts are chosen, not when they are weighed."""


@dataclass(frozen=True, slots=True)
class Layer:
    attention: Attention
    mlp: Dense | Mixture


class Role(Enum):
    """What a weight is for."""

    EMBEDDING = "embedding"
    ATTENTION = "attention"
    ROUTER = "router"
    EXPERTS = "experts"
    MLP = "dense MLP"
    NORM = "norms"
    HEAD = "head"


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight buffer of the program. Experts' are [experts, out, in], their biases [experts, out]."""

    name: str
    shape: tuple[int, ...]
    role: Role

    @property
    def size(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A decoder of pre-norm blocks."""

    family: str
    name: str
    layers: tuple[Layer, ...]
    hidden: int
    vocab: int
    context: int
    eps: float
    tied: bool
    """The head is the embedding table."""
    notes: tuple[str, ...] = ()
    """What the file has that is not run, a line each: layers that predict further tokens, other senses."""

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of K and V of one position in bfloat16, all layers."""
        return sum(layer.attention.kv_bytes for layer in self.layers)

    def kv_bytes(self, positions: int) -> int:
        """Bytes of K and V that so many positions need at least: a sliding layer looks back no further than
        its window."""
        windows = ((layer.attention, layer.attention.window or positions) for layer in self.layers)
        return sum(attention.kv_bytes * min(positions, window) for attention, window in windows)

    @property
    def parameters(self) -> int:
        return sum(weight.size for weight in self.weights())

    @property
    def active_parameters(self) -> int:
        """Those that one token meets: of the experts, the chosen ones. The embedding table counts whole."""
        idle = 0
        for layer in self.layers:
            if isinstance(layer.mlp, Mixture):
                own = sum(w.size for w in _mlp(layer.mlp, "", self.hidden) if w.role is Role.EXPERTS)
                idle += own // layer.mlp.experts * (layer.mlp.experts - layer.mlp.top_k)
        return self.parameters - idle

    def weights(self) -> Iterator[Weight]:
        """Every weight of the program by its canonical name; a tied head is not told twice."""
        yield Weight("embed.weight", (self.vocab, self.hidden), Role.EMBEDDING)
        for index, layer in enumerate(self.layers):
            yield from layer_weights(layer, f"layers.{index}.", self.hidden)
        yield Weight("norm.weight", (self.hidden,), Role.NORM)
        if not self.tied:
            yield Weight("head.weight", (self.vocab, self.hidden), Role.HEAD)

    def with_window(self, keys: int) -> ModelConfig:
        """The same model, its sliding layers seeing ``keys`` keys. Engines disagree on MiMo's 128: vLLM
        counts the token itself among them, SGLang does not and sees 129."""
        return replace(self, layers=tuple(_with_window(layer, keys) for layer in self.layers))


def _with_window(layer: Layer, keys: int) -> Layer:
    if not layer.attention.window:
        return layer
    return replace(layer, attention=replace(layer.attention, window=keys))


def layer_weights(layer: Layer, prefix: str, hidden: int) -> Iterator[Weight]:
    """Those of one layer, its norms included."""
    yield from _attention(layer.attention, prefix, hidden)
    yield from _mlp(layer.mlp, prefix, hidden)


def _attention(a: Attention, prefix: str, hidden: int) -> Iterator[Weight]:
    yield Weight(f"{prefix}attn_norm.weight", (hidden,), Role.NORM)
    rows = {"q": a.heads * a.head_dim, "k": a.kv_heads * a.head_dim, "v": a.kv_heads * a.value_dim}
    for name, count in rows.items():
        yield Weight(f"{prefix}{name}.weight", (count, hidden), Role.ATTENTION)
        if a.bias:
            yield Weight(f"{prefix}{name}.bias", (count,), Role.ATTENTION)
    if a.qk_norm:
        yield Weight(f"{prefix}q_norm.weight", (a.head_dim,), Role.NORM)
        yield Weight(f"{prefix}k_norm.weight", (a.head_dim,), Role.NORM)
    if a.sinks:
        yield Weight(f"{prefix}sinks.weight", (a.heads,), Role.ATTENTION)
    yield Weight(f"{prefix}o.weight", (hidden, a.heads * a.value_dim), Role.ATTENTION)
    if a.out_bias:
        yield Weight(f"{prefix}o.bias", (hidden,), Role.ATTENTION)


def _mlp(mlp: Dense | Mixture, prefix: str, hidden: int) -> Iterator[Weight]:
    yield Weight(f"{prefix}mlp_norm.weight", (hidden,), Role.NORM)
    shapes = {"gate": (mlp.wide, hidden), "up": (mlp.wide, hidden), "down": (hidden, mlp.wide)}
    if isinstance(mlp, Dense):
        for name, shape in shapes.items():
            yield Weight(f"{prefix}{name}.weight", shape, Role.MLP)
        return
    yield Weight(f"{prefix}router.weight", (mlp.experts, hidden), Role.ROUTER)
    if mlp.router_bias:
        yield Weight(f"{prefix}router.bias", (mlp.experts,), Role.ROUTER)
    if mlp.correction:
        yield Weight(f"{prefix}router.correction", (mlp.experts,), Role.ROUTER)
    for name, shape in shapes.items():
        yield Weight(f"{prefix}experts.{name}.weight", (mlp.experts, *shape), Role.EXPERTS)
        if mlp.biases:
            yield Weight(f"{prefix}experts.{name}.bias", (mlp.experts, shape[0]), Role.EXPERTS)
