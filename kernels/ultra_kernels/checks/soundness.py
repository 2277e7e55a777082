"""Structure, coverage, arity, progress and races of a Program, each checked exactly."""

from __future__ import annotations

from collections import Counter, defaultdict

from ..program import NO_WAIT, Access, Kind, Program, Task
from . import mixtures
from .fault import UnsoundProgram, require


def check(program: Program) -> None:
    """Raise `UnsoundProgram` unless every check passes. Steps never overlap, so one is enough."""
    _structure(program)
    mixtures.shapes(program)
    mixtures.order(program)
    _coverage(program)
    _arity(program)
    ready = _progress(program)
    _races(program, ready)


def _structure(program: Program) -> None:
    """Ids are in range, tasks agree with their nodes, nobody writes what is read-only."""
    frozen = {Kind.WEIGHT, Kind.CONSTANT, Kind.INPUT, Kind.DRAWS}
    for index, node in enumerate(program.nodes):
        for slot, id in node.bound():
            require(id < len(program.buffers), f"node {index} {node.op.name}.{slot.name}: no buffer {id}")
            written = slot.access is not Access.READ
            require(
                not (written and program.buffers[id].kind in frozen),
                f"node {index} {node.op.name} writes {program.buffers[id].name}",
            )
    for index, task in enumerate(program.tasks):
        require(0 <= task.node < len(program.nodes), f"task {index}: no node {task.node}")
        require(task.op == program.nodes[task.node].op, f"task {index}: op differs from its node")
        require(0 <= task.signal < program.semaphores, f"task {index}: no semaphore {task.signal}")
        require(NO_WAIT <= task.wait < program.semaphores, f"task {index}: no semaphore {task.wait}")


def _coverage(program: Program) -> None:
    """The tiles of every node cover its extent once."""
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for task in program.tasks:
        spans[task.node].append((task.start, task.count))
    for index, node in enumerate(program.nodes):
        end = 0
        for start, count in sorted(spans[index]):
            require(start == end and count > 0, f"node {index}: tile at {start}, expected {end}")
            end = start + count
        require(end == node.extent, f"node {index}: tiles end at {end} of {node.extent}")


def _arity(program: Program) -> None:
    """A task waits for exactly the signals that its semaphore gets in a step: less is a race, more a hang."""
    produced = Counter(task.signal for task in program.tasks)
    for index, task in enumerate(program.tasks):
        if task.wait != NO_WAIT:
            have = produced[task.wait]
            require(
                task.need == have, f"task {index}: needs {task.need} of semaphore {task.wait}, gets {have}"
            )


def _progress(program: Program) -> list[set[int]]:
    """Run the queue in order: nobody waits for a later task. Returns for every task the semaphores that are
    complete before it starts, directly or through others (by `_arity`: all their producers happen before)."""
    remaining = Counter(task.signal for task in program.tasks)
    before_signal: dict[int, set[int]] = defaultdict(set)
    ready: list[set[int]] = []
    for index, task in enumerate(program.tasks):
        before: set[int] = set()
        if task.wait != NO_WAIT:
            require(remaining[task.wait] == 0, f"task {index}: waits for a task behind it in the queue")
            before = before_signal[task.wait] | {task.wait}
        ready.append(before)
        remaining[task.signal] -= 1
        before_signal[task.signal] |= before
    return ready


def _races(program: Program, ready: list[set[int]]) -> None:
    """Two tasks that touch one buffer, one of them writing, are ordered, or are tiles of one node (whose
    writes are disjoint by `_coverage`: tile units of an op write separate places)."""
    touches: dict[int, list[tuple[int, Task, bool]]] = defaultdict(list)
    for index, task in enumerate(program.tasks):
        for slot, id in program.nodes[task.node].bound():
            touches[id].append((index, task, slot.access is not Access.READ))
    for id, users in touches.items():
        if not any(written for _, _, written in users):
            continue
        for position, (index, task, written) in enumerate(users):
            for earlier, other, other_written in users[:position]:
                if (
                    (written or other_written)
                    and other.node != task.node
                    and other.signal not in ready[index]
                ):
                    name = program.buffers[id].name
                    raise UnsoundProgram(f"tasks {earlier} and {index} race on {name}")
