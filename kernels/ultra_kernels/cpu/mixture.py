"""What ``src/moe.h`` wants of a thread's memory."""

from __future__ import annotations

from ..checks import mixtures
from ..program import Op, Program


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
        at, columns = node.attributes, max(task.count for task in program.tasks if task.node == index)
        if node.op is Op.ROUTE:
            floats = max(floats, rows * at.experts)
            continue
        pairs, width = rows * at.top_k, int(program.buffers[node.operands[0]].shape[-1])
        picked, integers = max(picked, rows * width), max(integers, pairs + at.experts + 3)
        if node.op is Op.EXPERT_GATE_UP:
            floats = max(floats, (rows + 2) * columns)
        else:  # the sums of every row fill whole pairs of blocks: see `at_row` in quantise.h
            floats, wide = max(floats, (pairs + 1) * columns), max(wide, at.top_k * -(-width // 64) * 64)
    return wide, floats, picked, integers
