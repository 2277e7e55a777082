"""Executor 1: PyTorch, one task at a time, any device. It defines what every op means.

Two precisions. ``float32`` unpacks the weights exactly and computes in float32: the definition. ``bfloat16``
keeps matrices and KV in bfloat16, half the memory and (at batch 1, where a step is one read of the weights)
about twice the speed; norms, RoPE, softmax and the residual stream stay float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from . import attention, mixture
from .program import NO_WAIT, OPERANDS, SPLITS, Buffer, Kind, Node, Op, Program, Task
from .rounds import Rounds, check_tokens
from .sampling import BadLogits, Draw, draw
from .step import NOT_NUMBERS, Heard, Packed, Sizes, Step, Stopped, Stream, Weight

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}

SCRATCH = 1 << 22
"""Elements of a weight that are widened at a time when several rows meet bfloat16 weights: 16 MB."""


class ReferenceExecutor:
    """Owns the buffers of one program; `run` executes steps on them.

    ``weights`` maps buffer names to packed tensors, or what reads them: they are loaded one by one, in the
    order of the program; ``progress(done, total)`` is called per weight.
    Raises `ValueError` for a weight whose shape is not the program's.
    """

    batch_invariant = False

    def __init__(
        self,
        program: Program,
        weights: Mapping[str, Weight],
        sizes: Sizes,
        precision: str = "float32",
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self.program, self.sizes, self.dtype = program, sizes, PRECISIONS[precision]
        self._memory: list[Tensor | Packed | None] = [None] * len(program.buffers)
        self._semaphores = [0] * program.semaphores
        self._epoch = 0
        self._draws: Sequence[Draw] = []
        self._load(weights, progress)

    def _load(self, weights: Mapping[str, Weight], progress: Callable[[int, int], None]) -> None:
        multiplied = {id for node in self.program.nodes if node.op is not Op.EMBED for id in node.operands}
        wanted = self.program.weights()
        for done, buffer in enumerate(wanted):
            weight = weights[buffer.name]
            if weight.shape != buffer.matrix:
                raise ValueError(f"{buffer.name} is {weight.shape}, the program wants {buffer.shape}")
            # A table that is only gathered from stays packed: its rows are unpacked as tokens ask for them.
            self._memory[buffer.id] = (
                self._unpack(buffer, weight.load()) if buffer.id in multiplied else weight.load()
            )
            progress(done + 1, len(wanted))
        for buffer in self.program.buffers:
            if buffer.kind is Kind.CONSTANT:
                self._memory[buffer.id] = torch.from_numpy(self.program.constants[buffer.name])
            elif buffer.kind is Kind.STATE:
                self._memory[buffer.id] = torch.empty(self._sized(buffer), dtype=self.dtype)

    def _unpack(self, buffer: Buffer, packed: Packed) -> Tensor:
        """Vectors as float32, matrices in the executor's precision, a few million elements at a time."""
        if len(buffer.shape) == 1:
            return packed.format.rows(packed.data)[0]
        rows, columns = packed.shape
        # Routers stay exact: what rounding does to them is another expert.
        router = any(node.op is Op.ROUTE and buffer.id in node.operands for node in self.program.nodes)
        out = torch.empty(rows, columns, dtype=torch.float32 if router else self.dtype)
        chunk = max(1, SCRATCH // columns)
        for start in range(0, rows, chunk):
            out[start : start + chunk] = packed.format.rows(packed.data[start : start + chunk])
        return out.reshape([int(size) for size in buffer.shape])

    def _sized(self, buffer: Buffer, **dims: int) -> list[int]:
        known = {"blocks": self.sizes.blocks, **dims}
        return [size if isinstance(size, int) else known[size] for size in buffer.shape]

    # --- a step -------------------------------------------------------------------------------------

    def run(self, step: Step, stop: Callable[[], bool] = lambda: False) -> Tensor:
        """See `Executor.run`. Raises `ValueError` for a step larger than the executor was built for."""
        self._run(step, [], stop)
        return self._tensor("logits")

    def draw(self, logits: npt.NDArray[np.float32], how: Draw) -> int:
        """See `Executor.draw`."""
        check_tokens(how, len(logits))
        return draw(logits, how)

    def generate(
        self, step: Step, streams: Sequence[Stream], heard: Heard, stop: Callable[[], bool] = lambda: False
    ) -> None:
        """See `Executor.generate`."""
        rounds = Rounds(step, streams, int(self.program.buffer("logits").shape[1]))
        while not rounds.over:
            self._run(rounds.step, rounds.draws, stop)
            if not heard(rounds.take(self._tensor("drawn").tolist())):
                return

    def _run(self, step: Step, draws: Sequence[Draw], stop: Callable[[], bool]) -> None:
        self._admit(step)
        self._draws = draws
        self._epoch += 1
        for task in self.program.tasks:
            if stop():
                self._abandon()
                raise Stopped
            self.execute(task)

    def _tensor(self, name: str) -> Tensor:
        tensor = self._memory[self.program.buffer(name).id]
        assert isinstance(tensor, Tensor)
        return tensor

    def close(self) -> None:
        """Nothing to do: the memory goes with the object."""

    def execute(self, task: Task) -> None:
        """One task, its wait asserted and its signal given."""
        if task.wait != NO_WAIT:
            have, want = self._semaphores[task.wait], self._epoch * task.need
            assert have >= want, f"{task}: waits for {want} signals, has {have}"
        node = self.program.nodes[task.node]
        operands = {slot.name: self._memory[id] for slot, id in node.bound()}
        _RUN[node.op](self, node, operands, slice(task.start, task.start + task.count))
        self._semaphores[task.signal] += 1

    def _admit(self, step: Step) -> None:
        rows, outputs = len(step.tokens), len(step.out_rows)
        if not 0 < rows <= self.sizes.rows or not 0 < len(step.block_table) <= self.sizes.sequences:
            raise ValueError(
                f"a step of {rows} rows, {len(step.block_table)} sequences; room for {self.sizes}"
            )
        longest = max(map(len, step.block_table))
        inputs = {
            "tokens": step.tokens,
            "positions": step.positions,
            "sequences": step.sequences,
            "out_rows": step.out_rows,
            "block_table": [list(row) + [0] * (longest - len(row)) for row in step.block_table],
        }
        for buffer in self.program.buffers:
            if buffer.kind is Kind.INPUT:
                self._memory[buffer.id] = torch.tensor(inputs[buffer.name], dtype=torch.int64)
            elif buffer.kind in (Kind.ACTIVATION, Kind.OUTPUT):
                # NaN, not zero: whatever reads a place that no task wrote is found out at once.
                size = self._sized(buffer, rows=rows, outputs=outputs)
                self._memory[buffer.id] = torch.full(size, torch.nan)
            elif buffer.kind is Kind.INDEX:
                self._memory[buffer.id] = torch.full(self._sized(buffer, rows=rows), -1)
            elif buffer.kind is Kind.DRAWN:
                self._memory[buffer.id] = torch.full((outputs,), NOT_NUMBERS)

    def _abandon(self) -> None:
        """Bring the semaphores to where a complete step would have left them."""
        produced = [0] * self.program.semaphores
        for task in self.program.tasks:
            produced[task.signal] += self._epoch
        self._semaphores = produced

    # --- the ops; ``tile`` is a range of the op's tile units -----------------------------------------

    def _linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """x float32 [rows, in], weight [out, in] -> float32 [rows, out]."""
        if weight.dtype is torch.float32:
            y = functional.linear(x, weight)
        elif x.shape[0] == 1:
            y = functional.linear(x.to(weight.dtype), weight).float()
        else:
            # CPUs without bfloat16 instructions multiply widened tiles five times faster.
            x = x.to(weight.dtype).float()
            parts = torch.split(weight, max(1, SCRATCH // weight.shape[1]))
            y = torch.cat([functional.linear(x, part.float()) for part in parts], dim=1)
        return y if bias is None else y + bias

    def _embed(self, node: Node, m: dict[str, Tensor | Packed | None], tile: slice) -> None:
        table, tokens, x = m["table"], m["tokens"], m["x"]
        assert isinstance(tokens, Tensor) and isinstance(x, Tensor)
        if isinstance(table, Packed):
            x[:, tile] = table.format.rows(table.data[tokens])[:, tile]
        else:
            assert table is not None
            x[:, tile] = table[tokens][:, tile].float()

    def _norm_qkv(self, node: Node, m: dict[str, Tensor], tile: slice) -> None:
        at, dim = node.attributes, node.attributes.head_dim
        h = _rmsnorm(m["x"], m["norm"], at.eps)
        angles = m["positions"][:, None].float() * m["inv_freq"]  # [rows, rope_dims / 2]
        place = attention.cache_slots(m["block_table"], m["sequences"], m["positions"])

        def project(name: str, heads: slice, dim: int = dim) -> Tensor:
            """[rows, heads, dim] of q, k or v, normalised where the model does that."""
            rows = slice(heads.start * dim, heads.stop * dim)
            bias = m["b" + name][rows] if "b" + name in m else None
            y = self._linear(h, m["w" + name][rows], bias).reshape(len(h), -1, dim)
            return _rmsnorm(y, m[name + "_norm"], at.eps) if name + "_norm" in m else y

        queries, keys, values = (
            _within(tile, start, count)
            for start, count in (
                (0, at.heads),
                (at.heads, at.kv_heads),
                (at.heads + at.kv_heads, at.kv_heads),
            )
        )
        if queries:
            m["q"][:, queries] = attention.rope(project("q", queries), angles, at)
        if keys:
            m["k_cache"].flatten(0, 1)[place, keys] = attention.rope(project("k", keys), angles, at).to(
                self.dtype
            )
        if values:
            v = project("v", values, at.values) * at.value_scale
            m["v_cache"].flatten(0, 1)[place, values] = v.to(self.dtype)

    def _attention(self, node: Node, m: dict[str, Tensor], tile: slice) -> None:
        """The first split of a head takes all positions."""
        at = node.attributes
        group = at.heads // at.kv_heads
        tile = slice(-(-tile.start // SPLITS), -(-tile.stop // SPLITS))
        if tile.start == tile.stop:
            return
        queries = slice(tile.start * group, tile.stop * group)
        sinks = m["sinks"][queries] if "sinks" in m else None
        for sequence in set(m["sequences"].tolist()):
            rows = (m["sequences"] == sequence).nonzero()[:, 0]
            positions = m["positions"][rows]
            keys = int(positions.max()) + 1
            k, v = (
                attention.gather(m[name], m["block_table"][sequence], keys)[:, tile]
                for name in ("k_cache", "v_cache")
            )
            q = m["q"][rows][:, queries]
            m["a"][rows[:, None], _columns(queries, at.values)] = attention.attend(
                q, k, v, positions, at, sinks
            )

    def _attention_merge(self, node: Node, m: dict[str, Tensor], tile: slice) -> None:
        """Nothing is left to do."""

    def _linear_add(self, node: Node, m: dict[str, Tensor], tile: slice) -> None:
        bias = m["b"][tile] if "b" in m else None
        m["x"][:, tile] += self._linear(m["a"], m["w"][tile], bias)

    def _norm_gate_up(self, node: Node, m: dict[str, Tensor], tile: slice) -> None:
        h = _rmsnorm(m["x"], m["norm"], node.attributes.eps)
        gate, up = self._linear(h, m["w_gate"][tile]), self._linear(h, m["w_up"][tile])
        m["u"][:, tile] = functional.silu(gate) * up

    def _norm_head(self, node: Node, m: dict[str, Tensor], tile: slice) -> None:
        h = _rmsnorm(m["x"][m["out_rows"]], m["norm"], node.attributes.eps)
        m["logits"][:, tile] = self._linear(h, m["w"][tile])

    def _route(self, node: Node, m: dict[str, Tensor], tile: slice) -> None:
        at, rows = node.attributes, len(m["x"])
        share = slice(tile.start * rows // node.extent, tile.stop * rows // node.extent)
        logits = self._linear(_rmsnorm(m["x"][share], m["norm"], at.eps), m["w"], m.get("b"))
        m["experts"][share], m["gates"][share] = mixture.choose(logits, m.get("correction"), at)

    def _expert_gate_up(self, node: Node, m: dict[str, Tensor], tile: slice) -> None:
        h = _rmsnorm(m["x"], m["norm"], node.attributes.eps)
        for expert, rows, slots in mixture.chosen(m["experts"], node.attributes.experts):
            gate, up = (
                self._linear(h[rows], m["w_" + name][expert, tile], _bias(m, "b_" + name, expert, tile))
                for name in ("gate", "up")
            )
            m["u"][rows, slots, tile] = mixture.act(gate, up, node.attributes)

    def _expert_down_add(self, node: Node, m: dict[str, Tensor], tile: slice) -> None:
        experts, gates = m["experts"], m["gates"]
        y = torch.full((*experts.shape, tile.stop - tile.start), torch.nan)
        for expert, rows, slots in mixture.chosen(experts, node.attributes.experts):
            bias = _bias(m, "b", expert, tile)
            y[rows, slots] = self._linear(m["u"][rows, slots], m["w"][expert, tile], bias)
        total = gates[:, :1] * y[:, 0]
        for slot in range(1, node.attributes.top_k):
            total += gates[:, slot, None] * y[:, slot]
        m["x"][:, tile] += total

    def _sample(self, node: Node, m: dict[str, Tensor], tile: slice) -> None:
        rows = len(self._draws)
        for row in range(tile.start * rows // node.extent, tile.stop * rows // node.extent):
            try:
                m["drawn"][row] = draw(m["logits"][row].numpy(), self._draws[row])
            except BadLogits:
                m["drawn"][row] = NOT_NUMBERS


_RUN: dict[Op, Callable[..., None]] = {
    Op.EMBED: ReferenceExecutor._embed,
    Op.NORM_QKV: ReferenceExecutor._norm_qkv,
    Op.ATTENTION: ReferenceExecutor._attention,
    Op.LINEAR_ADD: ReferenceExecutor._linear_add,
    Op.NORM_GATE_UP: ReferenceExecutor._norm_gate_up,
    Op.NORM_HEAD: ReferenceExecutor._norm_head,
    Op.ATTENTION_MERGE: ReferenceExecutor._attention_merge,
    Op.ROUTE: ReferenceExecutor._route,
    Op.EXPERT_GATE_UP: ReferenceExecutor._expert_gate_up,
    Op.EXPERT_DOWN_ADD: ReferenceExecutor._expert_down_add,
    Op.SAMPLE: ReferenceExecutor._sample,
}
assert _RUN.keys() == OPERANDS.keys()


def _rmsnorm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def _within(tile: slice, start: int, count: int) -> slice | None:
    """The part of ``tile`` in [start, start + count), from 0 on; None if there is none."""
    first, last = max(tile.start, start), min(tile.stop, start + count)
    return slice(first - start, last - start) if first < last else None


def _columns(heads: slice, dim: int) -> Tensor:
    return torch.arange(heads.start * dim, heads.stop * dim)


def _bias(m: dict[str, Tensor], name: str, expert: int, tile: slice) -> Tensor | None:
    return m[name][expert, tile] if name in m else None
