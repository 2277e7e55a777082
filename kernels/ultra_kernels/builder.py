"""What a lowering calls: buffers by name, nodes in order; tasks and semaphores follow from them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .program import NO_WAIT, OPERANDS, SHARES, Attributes, Buffer, Kind, Node, Op, Program, Task

GRAIN = 16
"""Long nodes are cut at multiples of it: executors take as many rows of a matrix at once."""


class Builder:
    """Builds one Program. Nodes run as phases: every tile of a node waits for all tiles of the one before it.

    That is the schedule of every public batch-1 decoder, and it is right for chains; the executors overlap
    across it by loading weights, which wait for nothing, ahead of the semaphore.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, Buffer] = {}
        self._constants: dict[str, npt.NDArray[np.float32]] = {}
        self._nodes: list[Node] = []

    def buffer(self, name: str, kind: Kind, *shape: int | str) -> int:
        """The id of the buffer of that name, made on first use. A second shape or kind is our mistake."""
        known = self._buffers.setdefault(name, Buffer(len(self._buffers), name, kind, shape))
        assert (known.kind, known.shape) == (kind, shape), f"{name}: {known} is not {kind} {shape}"
        return known.id

    def weight(self, name: str, *shape: int) -> int:
        return self.buffer(name, Kind.WEIGHT, *shape)

    def constant(self, name: str, data: npt.NDArray[np.float32]) -> int:
        self._constants[name] = np.ascontiguousarray(data, dtype=np.float32)
        return self.buffer(name, Kind.CONSTANT, *data.shape)

    def input(self, name: str, *shape: int | str) -> int:
        return self.buffer(name, Kind.INPUT, *shape)

    def activation(self, name: str, *shape: int | str) -> int:
        return self.buffer(name, Kind.ACTIVATION, *shape)

    def node(
        self, op: Op, extent: int, operands: dict[str, int], attributes: Attributes, layer: int = -1
    ) -> None:
        """Append a node; ``operands`` maps slot names to buffer ids, optional ones may be missing."""
        slots = OPERANDS[op]
        missing = {slot.name for slot in slots if not slot.optional} - operands.keys()
        unknown = operands.keys() - {slot.name for slot in slots}
        assert not missing and not unknown, f"{op.name}: missing {missing}, unknown {unknown}"
        ids = tuple(operands.get(slot.name, -1) for slot in slots)
        self._nodes.append(Node(op, layer, extent, ids, attributes))

    def sample(self, logits: int) -> None:
        """Append the node that draws a token from every row of ``logits``."""
        operands = {
            "logits": logits,
            "draws": self.buffer("draws", Kind.DRAWS, "outputs"),
            "drawn": self.buffer("drawn", Kind.DRAWN, "outputs"),
        }
        self.node(Op.SAMPLE, SHARES, operands, Attributes())

    def build(self, tiles: int = 1) -> Program:
        """The finished program, every node cut into at most ``tiles`` tiles of nearly equal size."""
        assert tiles >= 1
        tasks: list[Task] = []
        need = 0
        for index, node in enumerate(self._nodes):
            wait = index - 1 if index else NO_WAIT
            cuts = [_cut(node, i, tiles) for i in range(tiles + 1)]
            spans = [(start, end - start) for start, end in zip(cuts, cuts[1:], strict=False) if end > start]
            tasks += (Task(node.op, index, 0, start, count, wait, need, index) for start, count in spans)
            need = len(spans)
        return Program(
            tuple(self._buffers.values()), tuple(self._nodes), tuple(tasks), len(self._nodes), self._constants
        )


def _cut(node: Node, number: int, tiles: int) -> int:
    """Where tile ``number`` of ``tiles`` begins."""
    grain = GRAIN if node.extent >= GRAIN * tiles else 1
    return min(node.extent, -(-node.extent // grain) * number // tiles * grain)
