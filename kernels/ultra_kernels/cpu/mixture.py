"""What ``src/moe.h`` wants of a thread's memory."""

from __future__ import annotations

import math

from ..checks import mixtures
from ..program import Node, Op, Program


def scratch(program: Program, rows: int) -> tuple[int, int, int, int]:
    """For steps of at most so many rows: the widest input of a product (all choices of a row together),
    floats of ``Scratch.heads``, elements of ``Scratch.picked`` and integers of ``Scratch.pairs``.

    Raises `UnsoundProgram` where ids would be used as addresses of what is not there.
    """
    mixtures.shapes(program)
    wide = floats = picked = integers = 0
    for index, node in enumerate(program.nodes):
        if node.op not in (Op.ROUTE, Op.EXPERT_GATE_UP, Op.EXPERT_DOWN_ADD):
            continue
        columns = max(task.count for task in program.tasks if task.node == index)
        pairs, width = rows * node.attributes.top_k, _width(program, node)
        if node.op is Op.ROUTE:
            floats = max(floats, rows * node.attributes.experts)
            continue
        integers = max(integers, pairs + node.attributes.experts + 3)
        if node.op is Op.EXPERT_GATE_UP:
            floats, picked = max(floats, (rows + 2) * columns), max(picked, rows * width)
        else:
            floats, wide = max(floats, (pairs + 1) * columns), max(wide, width)
    return wide, floats, picked, integers


def _width(program: Program, node: Node) -> int:
    """Floats of one row of the node's first operand."""
    _, *sizes = program.buffers[node.operands[0]].shape
    return math.prod(int(size) for size in sizes)
