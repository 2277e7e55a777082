"""Executor 2: a program on resident C++ threads. Weights stay the file's own bits, in an order that suits
vectors (`arena`); KV is float16.

Activations meet quantised weights as int8: one scale for 32 values, or for 256 where the format's blocks are
256; float32 against F32, F16, BF16 and FP8. Norms, RoPE, softmax and the residual stream are float32.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..program import BLOCK, Buffer, Kind, Op, Program
from ..rounds import check, check_tokens
from ..sampling import BadLogits, Draw
from ..step import NOT_NUMBERS, Heard, Sizes, Step, Stopped, Stream, Weight
from . import abi, mixture
from .arena import CODES, lay_out, packs
from .processors import default_threads, pinnable
from .streams import Streams, draw_record

_TYPES: dict[Kind, type[np.generic]] = {
    Kind.INPUT: np.int32,
    Kind.INDEX: np.int32,
    Kind.DRAWN: np.int32,
    Kind.STATE: np.float16,
}

MAX_THREADS = 1024


class MachineFault(RuntimeError):
    """A thread of the machine failed; the step is lost, the machine is as good as before."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What an op cost since the executor was made, all threads together: tasks, seconds of computing, and
    seconds that threads with one of its tasks in hand waited for the tasks before it."""

    tasks: int
    busy_s: float
    waited_s: float


class CpuExecutor:
    """Owns the machine and the buffers of one program; `run` executes steps on them.

    ``weights`` maps buffer names to packed tensors, or what reads them, which is asked for one by one in the
    order of the program: quantised matrices are copied, the rest stays where it is; ``threads`` counts the
    calling one and defaults to the processors that this process may use; ``pin``
    keeps each of the other threads on a processor of its own, as long as there are enough (Linux alone);
    ``progress(done, total)`` is called per weight. Raises `ValueError` for a weight whose shape is not the
    program's, a number of threads that is not 1 to `MAX_THREADS`, and pinning where it cannot be had;
    `abi.LibraryUnavailable`, and `MemoryError`.
    """

    batch_invariant = True
    """A row's result is the same to the bit, whatever other rows its step has."""

    def __init__(
        self,
        program: Program,
        weights: Mapping[str, Weight],
        sizes: Sizes,
        threads: int | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
        pin: bool = False,
    ) -> None:
        self.program, self.sizes = program, sizes
        self.threads = default_threads() if threads is None else threads
        if not 1 <= self.threads <= MAX_THREADS:
            raise ValueError(f"threads must be 1 to {MAX_THREADS}, not {threads}")
        self._cpus = np.array(pinnable() if pin else [], dtype=np.int32)
        self.level = abi.level()
        self._memory: dict[int, npt.NDArray[Any]] = {}
        self._table = (abi.BufferRecord * len(program.buffers))()
        self._load(weights, progress)
        for buffer in program.buffers:
            if buffer.kind is not Kind.WEIGHT:
                self._place(buffer)
        self._inputs = {b.name: self._memory[b.id] for b in program.buffers if b.kind is Kind.INPUT}
        self._logits = program.buffer("logits")
        self._room = np.empty(0, dtype=np.float32)  # of the logits that nobody asked for
        tables = (node.operands[0] for node in program.nodes if node.op is Op.EMBED)
        self._vocabulary = min(int(program.buffers[id].shape[0]) for id in tables)
        self._nodes, self._tasks = _node_words(program), program.descriptors()
        self._start()

    def _start(self) -> None:
        library = abi.load()
        machine = library.ultra_cpu_create(
            self.level.encode(),
            self._nodes.ctypes.data,
            self._tasks.ctypes.data,
            len(self._tasks),
            ctypes.addressof(self._table),
            self.program.semaphores,
            ctypes.byref(self._scratch()),
            self.threads,
            self._cpus.ctypes.data,
            len(self._cpus),
        )
        if not machine:
            raise MemoryError("there is no memory for the threads of the CPU machine")
        self._machine = machine
        self._destroy = weakref.finalize(self, library.ultra_cpu_destroy, machine)

    def close(self) -> None:
        """End the threads; dropping the executor does the same."""
        self._destroy()

    def costs(self) -> dict[Op, Cost]:
        """The costs of the ops that have run."""
        library = abi.load()
        records = (abi.CostRecord * library.ultra_cpu_ops())()
        library.ultra_cpu_costs(self._machine, records)
        return {op: Cost(r.tasks, r.busy / 1e9, r.waited / 1e9) for op in Op if (r := records[op]).tasks}

    # --- buffers ------------------------------------------------------------------------------------

    def _load(self, weights: Mapping[str, Weight], progress: Callable[[int, int], None]) -> None:
        wanted = self.program.weights()
        for buffer in wanted:
            weight = weights[buffer.name]
            if weight.shape != buffer.matrix:
                raise ValueError(f"{buffer.name} is {weight.shape}, the program wants {buffer.shape}")
        multiplied = {id for node in self.program.nodes if node.op is not Op.EMBED for id in node.operands}
        integer = {b.name for b in wanted if b.id in multiplied and packs(weights[b.name])}
        done = 0

        def place(buffer: Buffer, data: npt.NDArray[np.uint8], moved: bool) -> None:
            nonlocal done
            format = weights[buffer.name].format
            if len(buffer.shape) == 1:  # vectors are added and multiplied: float32
                self._bind(buffer, format.rows(torch.from_numpy(data))[0].numpy())
            else:
                self._bind(buffer, data, buffer.matrix[1], CODES[format.name], moved)
            done += 1
            progress(done, len(wanted))

        lay_out(self.level, wanted, weights, integer, self.threads, place)

    def _place(self, buffer: Buffer) -> None:
        if buffer.kind is Kind.CONSTANT:
            return self._bind(buffer, self.program.constants[buffer.name])
        longest = {"rows": self.sizes.rows, "outputs": self.sizes.rows, "sequences": self.sizes.sequences}
        longest |= {"blocks": self.sizes.blocks, "table": self.sizes.blocks}
        shape = [size if isinstance(size, int) else longest[size] for size in buffer.shape]
        if buffer.kind is Kind.OUTPUT:
            shape[0] = 0  # made anew for every step
        self._bind(buffer, np.empty(shape, dtype=_TYPES.get(buffer.kind, np.float32)))

    def _bind(
        self,
        buffer: Buffer,
        data: npt.NDArray[Any],
        columns: int | None = None,
        code: int = 0,
        packed: bool = False,
    ) -> None:
        self._memory[buffer.id] = data  # keeps it alive
        width = int(np.prod(data.shape[1:])) if data.ndim > 1 else data.shape[0]
        self._table[buffer.id] = abi.BufferRecord(
            data.ctypes.data, width * data.itemsize, width if columns is None else columns, code, packed
        )

    def _scratch(self) -> abi.SizesRecord:
        widest = heads = angles = 1
        for node in self.program.nodes:
            at = node.attributes
            for _, id in node.bound():
                buffer = self.program.buffers[id]
                if buffer.kind is Kind.WEIGHT and node.op is not Op.EMBED:
                    widest = max(widest, int(buffer.shape[-1]))
            if node.op is Op.ATTENTION:  # the states of BLOCK rows, a block of keys and one of values
                states = BLOCK * (at.heads // at.kv_heads) * (at.values + 2)
                heads = max(heads, states + BLOCK * (at.head_dim + at.values))
            if node.op is Op.NORM_QKV:
                heads = max(heads, self.sizes.rows * max(at.head_dim, at.values))
                angles = max(angles, self.sizes.rows * at.rope_dims)
        wide, floats, picked, pairs = mixture.scratch(self.program, self.sizes.rows)
        return abi.SizesRecord(self.sizes.rows, max(widest, wide), max(heads, floats), picked, pairs, angles)

    # --- a step -------------------------------------------------------------------------------------

    def run(self, step: Step, stop: Callable[[], bool] = lambda: False) -> Tensor:
        """See `Executor.run`; ``stop`` is polled every few milliseconds.

        Raises `ValueError` for a step that the executor was not built for.
        """
        width = self._admit(step)
        logits = torch.empty(len(step.out_rows), int(self._logits.shape[1]))
        self._table[self._logits.id].data = logits.data_ptr()
        self._call(stop, lambda: True, abi.load().ultra_cpu_run, len(step.tokens), len(step.out_rows), width)
        return logits

    def generate(
        self, step: Step, streams: Sequence[Stream], heard: Heard, stop: Callable[[], bool] = lambda: False
    ) -> None:
        """See `Executor.generate`; ``stop`` is polled every few milliseconds and after every round.

        ``heard`` is told of a round while the next one is running. Raises `ValueError` for what the executor
        was not built for, `MachineFault` and `MemoryError`.
        """
        vocabulary = int(self._logits.shape[1])
        assert vocabulary <= self._vocabulary, "tokens are drawn that have no embedding"
        width = self._admit(step)
        check(step, streams, vocabulary)
        if self._room.size < len(streams) * vocabulary:
            self._room = np.empty(len(streams) * vocabulary, dtype=np.float32)
        self._table[self._logits.id].data = self._room.ctypes.data
        inputs = (self._inputs[name].ctypes.data for name in ("tokens", "positions", "sequences", "out_rows"))
        memory, drawn = Streams(streams), self._memory[self.program.buffer("drawn").id]
        self._call(
            *(stop, lambda: memory.hear(heard), abi.load().ultra_cpu_generate),
            *(ctypes.byref(abi.InputsRecord(*inputs)), memory.records, len(streams), len(step.tokens), width),
            *(drawn.ctypes.data, memory.ring, ctypes.byref(memory.done)),
        )

    def draw(self, logits: npt.NDArray[np.float32], how: Draw) -> int:
        """See `Executor.draw`. Raises `ValueError` for tokens outside the vocabulary, and `MemoryError`."""
        assert self._destroy.alive, "the executor is closed"
        assert logits.dtype == np.float32 and logits.strides == (4,)
        check_tokens(how, len(logits))
        record, keep = draw_record(how)
        token = ctypes.c_int32()
        status = abi.load().ultra_cpu_draw(
            self._machine, logits.ctypes.data, len(logits), ctypes.byref(record), ctypes.byref(token)
        )
        del keep  # until here the record pointed to it
        self._raise_for(status)
        if token.value == NOT_NUMBERS:
            raise BadLogits
        return token.value

    def _raise_for(self, status: int) -> None:
        if status == abi.Status.NO_MEMORY:
            raise MemoryError("there is no memory for the threads of the CPU machine")
        if status == abi.Status.FAULTY:
            raise MachineFault(abi.load().ultra_cpu_fault(self._machine).decode())

    def _call(
        self,
        stop: Callable[[], bool],
        go_on: Callable[[], bool],
        function: Callable[..., int],
        *arguments: object,
    ) -> None:
        """Run ``function`` of the machine; it ends early when ``stop`` says so, or ``go_on`` does not."""
        assert self._destroy.alive, "the executor is closed"
        if stop():
            raise Stopped
        ended = False
        failure: list[BaseException] = []

        def poll() -> int:
            nonlocal ended
            try:
                ended = ended or not go_on()
                return int(ended or stop())
            except BaseException as error:  # must not cross C; it is raised below
                failure.append(error)
                return 1

        status = function(self._machine, *arguments, abi.POLL(poll))
        if failure:
            raise failure[0]
        self._raise_for(status)
        if status == abi.Status.STOPPED and not ended:
            raise Stopped
        if not ended:
            go_on()

    def _admit(self, step: Step) -> int:
        """Write the inputs, everything that becomes an address checked; returns the width of the table."""
        rows, sequences = len(step.tokens), len(step.block_table)
        if not 0 < rows <= self.sizes.rows or not 0 < sequences <= self.sizes.sequences:
            raise ValueError(f"a step of {rows} rows, {sequences} sequences; room for {self.sizes}")
        if not 0 < len(step.out_rows) <= self.sizes.rows:
            raise ValueError(f"{len(step.out_rows)} rows want logits; room for {self.sizes.rows}")
        lengths = np.array([len(blocks) for blocks in step.block_table])
        width = int(lengths.max())
        if width > self.sizes.blocks:
            raise ValueError(f"a sequence of {width} blocks; there are {self.sizes.blocks}")
        table = self._inputs["block_table"].reshape(-1)[: sequences * width].reshape(sequences, width)
        for row, blocks in zip(table, step.block_table, strict=True):
            row[: len(blocks)] = blocks
            row[len(blocks) :] = 0
        tokens = self._write("tokens", step.tokens)
        positions = self._write("positions", step.positions)
        owners = self._write("sequences", step.sequences)
        _within("token", tokens, self._vocabulary)
        _within("block", table, self.sizes.blocks)
        _within("sequence", owners, sequences)
        _within("position", positions, lengths[owners] * BLOCK)
        _within("row", self._write("out_rows", step.out_rows), rows)
        return width

    def _write(self, name: str, values: object) -> npt.NDArray[np.int32]:
        data = np.asarray(values, dtype=np.int32)
        self._inputs[name][: len(data)] = data
        return data


def _within(what: str, values: npt.NDArray[Any], limit: int | npt.NDArray[Any]) -> None:
    bad = (values < 0) | (values >= limit)
    if bad.any():
        raise ValueError(f"{what} {values[bad][0]} is out of range")


def _node_words(program: Program) -> npt.NDArray[np.int32]:
    """The nodes as the library reads them: int32 [nodes, NODE_WORDS]."""
    words = np.full((len(program.nodes), abi.NODE_WORDS), -1, dtype=np.int32)
    for row, node in zip(words, program.nodes, strict=True):
        row[:2] = node.op, node.extent
        row[2 : 2 + len(node.operands)] = node.operands
        row[2 + abi.NODE_OPERANDS :] = node.attributes.words()
    return words
