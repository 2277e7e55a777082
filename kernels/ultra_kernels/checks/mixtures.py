"""Expert ids become addresses: what they index has as many experts as its node says; a router made them."""

from __future__ import annotations

from collections.abc import Iterator

from ..program import Kind, Node, Op, Program, Scoring
from .fault import require


def shapes(program: Program) -> None:
    """Raise `UnsoundProgram` where a router or expert node does not fit its buffers, or asks for nonsense."""
    for name, node, bound in _nodes(program):
        at, ids = node.attributes, program.buffers[bound["experts"]]
        require(0 < at.top_k <= at.experts, f"{name} takes {at.top_k} of {at.experts} experts")
        require(ids.kind is Kind.INDEX and ids.shape == ("rows", at.top_k), f"{name}: ids are {ids}")
        if node.op is Op.ROUTE:
            require(at.scale != 0.0, f"{name}: every gate is zero")
            corrected = "correction" in bound and at.scoring is not Scoring.SIGMOID
            require(not corrected, f"{name}: only sigmoids are corrected")
        size = (at.experts,) if node.op is Op.ROUTE else (at.experts, node.extent)
        for slot in ("w", "w_gate", "w_up", "b", "b_gate", "b_up", "correction"):
            if slot in bound:
                shape = program.buffers[bound[slot]].shape
                require(shape[: len(size)] == size, f"{name}.{slot} is {shape}, not {size}")


def order(program: Program) -> None:
    """Raise `UnsoundProgram` where ids are used before a router made them."""
    routed = set()
    for name, node, bound in _nodes(program):
        if node.op is Op.ROUTE:
            routed.add(bound["experts"])
        require(bound["experts"] in routed, f"{name}: no router has made its ids yet")


def _nodes(program: Program) -> Iterator[tuple[str, Node, dict[str, int]]]:
    """The nodes of mixtures: what to call them, and their operands by name."""
    for index, node in enumerate(program.nodes):
        if node.op in (Op.ROUTE, Op.EXPERT_GATE_UP, Op.EXPERT_DOWN_ADD):
            yield f"node {index} {node.op.name}", node, {slot.name: id for slot, id in node.bound()}
