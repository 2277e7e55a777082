"""The instruction set: what a Program is, and what each of its ops means.

A **Program** is static. It has *buffers* (weights, constants, KV state, activations, inputs, outputs),
*nodes* (one use of an op: its operands and attributes) and *tasks* (one tile of a node: an 8-word int32
descriptor that says what to wait for and what to signal). Executors differ in how they run the tasks, never
in what they mean.

A **step** runs every task once over R rows. Row r is one token: ``tokens[r]`` at ``positions[r]`` of the
sequence ``sequences[r]``. The KV of a sequence lives in blocks of ``BLOCK`` positions: position p is slot
``p % BLOCK`` of physical block ``block_table[sequence, p // BLOCK]``. Rows of one sequence come in ascending
position; a row sees every position up to its own, rows of the same step included. ``out_rows`` lists the rows
that want logits.

Semaphores are monotone counters: in step number e (from 1) a task waits until ``sem[wait] >= e * need``, and
adds one to ``sem[signal]`` when its writes are visible. Nothing is ever reset.

    op               tile unit            meaning (in float32 unless an executor says otherwise)
    EMBED            column of x          x[r] = table[tokens[r]]
    NORM_QKV         head of q, k, v      h = rmsnorm(x); q, k, v = W h + b (per head rmsnorm of q, k if
                                          given), RoPE on q and k, v *= value_scale; k and v go to the cache
                                          at the row's position
    ATTENTION        kv head x split      a = softmax(scale * q K^T + causal, window) V over the row's
                                          sequence; a sink is one more score of its head, without a value
    ATTENTION_MERGE  head                 a = the splits' parts together, where there was more than one
    LINEAR_ADD       column of x          x += W a + b          (attention output; MLP down)
    NORM_GATE_UP     intermediate column  u = silu(Wg h) * (Wu h), h = rmsnorm(x)
    NORM_HEAD        vocabulary row       logits[i] = W rmsnorm(x[out_rows[i]])
    SAMPLE           share of the rows    drawn[i] = the token that draws[i] takes from logits[i], if the step
                                          has draws (`sampling`): one that asks for logits alone has none

A mixture of experts; below, e stands for experts[r, k], and h for rmsnorm(x):

    ROUTE            share of the rows    experts[r] = the top_k by W h + b, best first; gates[r] = what they
                                          weigh (`Scoring`), NaN if there is a NaN among the row's scores
    EXPERT_GATE_UP   intermediate column  u[r, k] = act(Wg[e] h + bg[e], Wu[e] h + bu[e])
    EXPERT_DOWN_ADD  column of x          x[r] += the sum of gates[r, k] * (W[e] u[r, k] + b[e]), k ascending

Unit i of n shares has the rows from i * rows // n to (i + 1) * rows // n. All experts' weights are one buffer
[experts, out, in], their biases [experts, out]. act(g, u) is silu(g) * u where ``limit`` is 0, else gpt-oss's
(u + 1) * g * sigmoid(alpha * g), g at most limit, u within +-limit. An id that is no expert's gives NaN.

rmsnorm(x) = x / sqrt(mean(x^2) + eps) * weight. RoPE rotates pairs (i, i + d/2) of the first
``rope_dims`` d of a head, or (2i, 2i + 1) where ``interleaved``, by ``position * inv_freq[i]``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum

import numpy as np
import numpy.typing as npt

BLOCK = 16
"""Positions of one KV block."""

SPLITS = 8
"""Tile units of attention for each KV head. How positions are shared out among them is an executor's own, as
is what ``parts`` holds (of each split: mix of values, largest score, sum of weights), but it must depend on
positions alone: the sums of a row may not change with its company."""

NO_WAIT = -1

SHARES = 64
"""Tile units of SAMPLE: unit u of n has the rows from ``u * rows // n`` to ``(u + 1) * rows // n``."""


class Op(IntEnum):
    """Opcodes; the module's docstring has their meaning."""

    EMBED = 1
    NORM_QKV = 2
    ATTENTION = 3
    LINEAR_ADD = 4
    NORM_GATE_UP = 5
    NORM_HEAD = 6
    ROUTE = 7
    EXPERT_GATE_UP = 8
    EXPERT_DOWN_ADD = 9
    SAMPLE = 10
    ATTENTION_MERGE = 11


class Scoring(IntEnum):
    """How ROUTE chooses experts by their logits, and what the chosen weigh. Ties go to the lower id.

    Then, if ``normalise``, gates are divided by (their sum + 1e-20), and in the end multiplied by ``scale``.
    """

    SOFTMAX = 0
    """The highest logits; gates are their softmax over all experts (Qwen3-MoE)."""
    CHOSEN = 1
    """The highest logits; gates are their softmax over the chosen (gpt-oss)."""
    SIGMOID = 2
    """The highest sigmoid(logit) + correction; gates are the sigmoids (DeepSeek-V3, MiMo-V2)."""


class Kind(Enum):
    """Where a buffer comes from and how long it lives."""

    WEIGHT = "weight"  # packed by the loader, read-only
    CONSTANT = "constant"  # float32, made by the lowering, read-only
    STATE = "state"  # lives across steps: the KV cache
    ACTIVATION = "activation"  # float32, lives for one step
    INDEX = "index"  # int32, made by an op for others, lives for one step
    INPUT = "input"  # int32, written before a step
    DRAWS = "draws"  # a `sampling.Draw` for each row, however an executor has it, written before a step
    OUTPUT = "output"  # float32, read after a step
    DRAWN = "drawn"  # int32 tokens, read after a step


class Access(Enum):
    READ = "r"
    WRITE = "w"
    UPDATE = "rw"


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand slot of an op: its name, how it is touched, and whether it may be absent."""

    name: str
    access: Access = Access.READ
    optional: bool = False


def _reads(*names: str) -> tuple[Operand, ...]:
    return tuple(Operand(name.rstrip("?"), optional=name.endswith("?")) for name in names)


def _writes(*names: str) -> tuple[Operand, ...]:
    return tuple(Operand(name, Access.WRITE) for name in names)


OPERANDS: Mapping[Op, tuple[Operand, ...]] = {
    Op.EMBED: (*_reads("table", "tokens"), *_writes("x")),
    Op.NORM_QKV: (
        *_reads("x", "norm", "wq", "wk", "wv", "bq?", "bk?", "bv?", "q_norm?", "k_norm?", "inv_freq"),
        *_reads("positions", "sequences", "block_table"),
        *_writes("q", "k_cache", "v_cache"),
    ),
    Op.ATTENTION: (
        *_reads("q", "k_cache", "v_cache", "positions", "sequences", "block_table", "sinks?"),
        *_writes("a", "parts"),
    ),
    Op.ATTENTION_MERGE: (*_reads("parts", "positions", "sinks?"), Operand("a", Access.UPDATE)),
    Op.LINEAR_ADD: (*_reads("a", "w", "b?"), Operand("x", Access.UPDATE)),
    Op.NORM_GATE_UP: (*_reads("x", "norm", "w_gate", "w_up"), *_writes("u")),
    Op.NORM_HEAD: (*_reads("x", "norm", "w", "out_rows"), *_writes("logits")),
    Op.ROUTE: (*_reads("x", "norm", "w", "b?", "correction?"), *_writes("experts", "gates")),
    Op.EXPERT_GATE_UP: (
        *_reads("x", "norm", "experts", "w_gate", "w_up", "b_gate?", "b_up?"),
        *_writes("u"),
    ),
    Op.EXPERT_DOWN_ADD: (*_reads("u", "experts", "gates", "w", "b?"), Operand("x", Access.UPDATE)),
    Op.SAMPLE: (*_reads("logits", "draws"), *_writes("drawn")),
}
"""Operand slots of every op, in descriptor order."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """Numbers of a node. One record for all ops; a field that an op does not use stays zero."""

    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    rope_dims: int = 0
    interleaved: bool = False
    window: int = 0
    """Keys that a row sees, itself included; 0 is all."""
    eps: float = 0.0
    scale: float = 0.0
    value_dim: int = 0
    """Of a head of v; 0 is that of q and k."""
    value_scale: float = 1.0
    experts: int = 0
    top_k: int = 0
    scoring: Scoring = Scoring.SOFTMAX
    normalise: bool = False
    limit: float = 0.0
    alpha: float = 0.0

    @property
    def values(self) -> int:
        """Numbers of a head of v."""
        return self.value_dim or self.head_dim

    def words(self) -> npt.NDArray[np.int32]:
        """Fixed-width form for executors outside Python: int32 [16], floats by their bits."""
        heads = (self.heads, self.kv_heads, self.head_dim, self.rope_dims)
        return np.concatenate(
            (
                np.array((*heads, self.interleaved, self.window, self.values), dtype=np.int32),
                np.array((self.eps, self.scale, self.value_scale), dtype=np.float32).view(np.int32),
                np.array((self.experts, self.top_k, self.scoring, self.normalise), dtype=np.int32),
                np.array((self.limit, self.alpha), dtype=np.float32).view(np.int32),
            )
        )


@dataclass(frozen=True, slots=True)
class Buffer:
    """One entry of the pointer table. ``shape`` has numbers, or the names "rows", "outputs", "sequences",
    "table" (blocks of one sequence) and "blocks" (physical KV blocks), which are an executor's to fix."""

    id: int
    name: str
    kind: Kind
    shape: tuple[int | str, ...]

    @property
    def matrix(self) -> tuple[int, int]:
        """Rows and columns of a weight as it is packed: leading dimensions are rows, a vector is one row."""
        sizes = [int(size) for size in self.shape]
        return math.prod(sizes[:-1]), sizes[-1]


@dataclass(frozen=True, slots=True)
class Node:
    """One use of an op. ``operands`` holds buffer ids in the order of `OPERANDS`, -1 where absent;
    ``extent`` is the number of tile units, ``layer`` is -1 outside the layers."""

    op: Op
    layer: int
    extent: int
    operands: tuple[int, ...]
    attributes: Attributes

    def bound(self) -> Iterator[tuple[Operand, int]]:
        """The operands that are present, with their buffer ids."""
        return ((slot, id) for slot, id in zip(OPERANDS[self.op], self.operands, strict=True) if id >= 0)


class Word(IntEnum):
    """The words of a task descriptor."""

    OP = 0
    NODE = 1
    RANK = 2
    START = 3
    COUNT = 4
    WAIT = 5
    NEED = 6
    SIGNAL = 7


@dataclass(frozen=True, slots=True)
class Task:
    """Tile units [start, start + count) of a node, on one rank."""

    op: Op
    node: int
    rank: int
    start: int
    count: int
    wait: int
    need: int
    signal: int

    def words(self) -> tuple[int, ...]:
        return (self.op, self.node, self.rank, self.start, self.count, self.wait, self.need, self.signal)


@dataclass(frozen=True, slots=True)
class Program:
    """A whole step of one model. ``constants`` has the data of the CONSTANT buffers, by name."""

    buffers: tuple[Buffer, ...]
    nodes: tuple[Node, ...]
    tasks: tuple[Task, ...]
    semaphores: int
    constants: Mapping[str, npt.NDArray[np.float32]] = field(default_factory=dict)

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name; `KeyError` if there is none."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise KeyError(name)

    def weights(self) -> tuple[Buffer, ...]:
        """The buffers that a loader has to fill, in program order."""
        return tuple(buffer for buffer in self.buffers if buffer.kind is Kind.WEIGHT)

    def descriptors(self) -> npt.NDArray[np.int32]:
        """The tasks in the form that fast executors walk: int32 [tasks, 8]."""
        return np.array([task.words() for task in self.tasks], dtype=np.int32).reshape(-1, len(Word))
