"""Which executor runs a model, and how it is made."""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable, Mapping

import psutil
import torch
from ultra_kernels.cpu.abi import LibraryUnavailable, level
from ultra_kernels.cpu.executor import MAX_THREADS, CpuExecutor
from ultra_kernels.cpu.processors import default_threads
from ultra_kernels.program import Program
from ultra_kernels.reference import PRECISIONS, ReferenceExecutor
from ultra_kernels.step import Executor, Sizes, Weight, packed_bytes

from .errors import ModelError

EXECUTORS = ("auto", "cpu", "reference")

DEFAULT_PRECISION = "bfloat16"

_TILES_PER_THREAD = 4
"""Enough that a thread whose processor is taken away leaves little behind for the others to wait for."""


def choose(wanted: str, precision: str | None) -> str:
    """ "cpu" or "reference". ``auto`` is the CPU machine where it is built, unless a precision is asked for,
    which only the reference executor has.

    Raises `ModelError` where ``cpu`` is asked for and cannot be had.
    """
    assert wanted in EXECUTORS
    if wanted == "cpu" and precision:
        raise ModelError(
            "a precision is the reference executor's: leave it out, or take --executor reference"
        )
    if wanted == "reference" or precision:
        return "reference"
    try:
        level()
    except LibraryUnavailable as error:
        if wanted == "cpu":
            raise ModelError(str(error)) from None
        _say_slow(str(error))
        return "reference"
    return "cpu"


@functools.cache
def _say_slow(reason: str) -> None:
    print(f"ultra: running on the slow reference executor: {reason}", file=sys.stderr, flush=True)


def check_threads(name: str, threads: int | None, pin: bool) -> None:
    """Raise `ModelError` for a number of threads that makes no sense, or pinning that nobody does."""
    if threads is not None and not 1 <= threads <= MAX_THREADS:
        raise ModelError(f"threads must be 1 to {MAX_THREADS}, not {threads}")
    if pin and name != "cpu":
        raise ModelError("only the CPU machine pins its threads: leave out --pin, or take --executor cpu")


def tiles(name: str, threads: int | None) -> int:
    """Into how many tiles each op is to be cut."""
    return _TILES_PER_THREAD * (threads or default_threads()) if name == "cpu" else 1


def create(
    name: str,
    program: Program,
    weights: Mapping[str, Weight],
    sizes: Sizes,
    *,
    precision: str | None,
    threads: int | None,
    pin: bool,
    progress: Callable[[int, int], None],
) -> Executor:
    """The executor of that name, its weights loaded. ``pin`` or ``ULTRA_PIN=1`` pins the threads of the CPU
    machine. Raises `ModelError` where memory is too small, or threads cannot be pinned."""
    if name == "cpu":
        pin = pin or os.environ.get("ULTRA_PIN") == "1"
        _check_memory(sum(packed_bytes(weights[b.name]) for b in program.weights()), "try a smaller model")
        try:
            return CpuExecutor(program, weights, sizes, threads, progress, pin)
        except ValueError as error:
            if pin and not hasattr(os, "sched_getaffinity"):
                raise ModelError(f"{error}: leave out --pin and ULTRA_PIN") from None
            raise
        except MemoryError as error:
            raise ModelError(f"{error or 'there is not enough memory'}; try a smaller --context") from None
    if threads:
        torch.set_num_threads(threads)
    precision = precision or DEFAULT_PRECISION
    need = sum(
        PRECISIONS[precision].itemsize * math.prod(b.matrix) for b in program.weights() if len(b.shape) > 1
    )
    _check_memory(need, "try --precision bfloat16" if precision == "float32" else "try a smaller model")
    return ReferenceExecutor(program, weights, sizes, precision, progress)


def _check_memory(need: int, hint: str) -> None:
    """Say so before the machine starts to swap, or to read weights that stay in the file at every step."""
    free = psutil.virtual_memory().available
    if need > free:
        raise ModelError(
            f"the weights need {need / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are free; {hint}"
        )
