"""Sound programs pass; every kind of damage to one is found, by name."""

from dataclasses import replace

import pytest
from kernels.small_program import build
from ultra_kernels.checks import UnsoundProgram, check
from ultra_kernels.program import NO_WAIT, Access, Program, Task


@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_what_the_builder_makes_is_sound(tiles: int) -> None:
    check(build(tiles))


def _with(program: Program, index: int, **changes: int) -> Program:
    tasks = list(program.tasks)
    tasks[index] = replace(tasks[index], **changes)
    return replace(program, tasks=tuple(tasks))


def test_every_dropped_wait_is_a_race() -> None:
    """Each wait of a program guards something: without it, some pair of tasks is unordered."""
    program = build(2)
    for index, task in enumerate(program.tasks):
        if task.wait != NO_WAIT:
            with pytest.raises(UnsoundProgram, match="race"):
                check(_with(program, index, wait=NO_WAIT, need=0))


def test_every_wrong_need_is_found() -> None:
    program = build(3)
    for index, task in enumerate(program.tasks):
        if task.wait != NO_WAIT:
            for need in (task.need - 1, task.need + 1):
                with pytest.raises(UnsoundProgram, match="needs"):
                    check(_with(program, index, need=need))


def test_every_lost_signal_is_found() -> None:
    """A signal given to another semaphore starves the one and feeds the other too much."""
    program = build(2)
    for index, task in enumerate(program.tasks):
        if task.signal != program.semaphores - 1:  # nobody waits for the last phase
            with pytest.raises(UnsoundProgram):
                check(_with(program, index, signal=program.semaphores - 1))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"start": 1}, "tile at 1"),
        ({"count": 1}, "tile"),
        ({"node": 99}, "no node"),
        ({"node": 3}, "op differs"),
        ({"signal": 999}, "no semaphore"),
        ({"wait": 999}, "no semaphore"),
    ],
)
def test_damaged_descriptors(changes: dict[str, int], fault: str) -> None:
    with pytest.raises(UnsoundProgram, match=fault):
        check(_with(build(), 0, **changes))


def test_a_reversed_queue_cannot_progress() -> None:
    program = build()
    with pytest.raises(UnsoundProgram, match="behind it in the queue"):
        check(replace(program, tasks=tuple(reversed(program.tasks))))


def test_nobody_writes_a_weight() -> None:
    program = build()
    node = program.nodes[0]
    at = next(i for i, (slot, _) in enumerate(node.bound()) if slot.access is Access.WRITE)
    operands = list(node.operands)
    operands[at] = program.weights()[0].id
    nodes = (replace(node, operands=tuple(operands)), *program.nodes[1:])
    with pytest.raises(UnsoundProgram, match="writes embed"):
        check(replace(program, nodes=nodes))


def test_a_missing_tile_is_found() -> None:
    program = build(2)
    last: Task = program.tasks[-1]
    with pytest.raises(UnsoundProgram, match="tiles end at"):
        check(replace(program, tasks=tuple(task for task in program.tasks if task is not last)))
