"""The compiled library: finding it, and its functions and records as ctypes has them (``src/layout.h``)."""

from __future__ import annotations

import ctypes
import functools
import os
from enum import IntEnum

from . import build

POLL = ctypes.CFUNCTYPE(ctypes.c_int32)


class LibraryUnavailable(Exception):
    """There is no usable library; the message says what to do."""


class BufferRecord(ctypes.Structure):
    """One entry of the pointer table."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("row_bytes", ctypes.c_int64),
        ("columns", ctypes.c_int32),
        ("format", ctypes.c_int32),
        ("packed", ctypes.c_int32),
        ("unused", ctypes.c_int32),
    ]


class PackRecord(ctypes.Structure):
    """One matrix that is to be packed (``src/abi.cpp``)."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("rows", "row_bytes")),
        *((name, ctypes.c_void_p) for name in ("source", "target")),
        *((name, ctypes.c_int32) for name in ("format", "unused")),
    ]


class SizesRecord(ctypes.Structure):
    """How much memory a thread needs."""

    _fields_ = [
        (name, ctypes.c_int32)
        for name in ("rows", "widest", "head_floats", "picked_floats", "pair_integers", "angle_floats")
    ]


class CostRecord(ctypes.Structure):
    """What one op cost: see `executor.Cost`."""

    _fields_ = [("tasks", ctypes.c_int64), ("busy", ctypes.c_int64), ("waited", ctypes.c_int64)]


class DrawRecord(ctypes.Structure):
    """How one token is drawn (``src/sample.h``)."""

    _fields_ = [
        ("seed", ctypes.c_uint64),
        ("position", ctypes.c_int64),
        *((name, ctypes.c_double) for name in ("temperature", "top_p", "min_p")),
        *((name, ctypes.c_double) for name in ("repetition", "presence", "frequency")),
        ("top_k", ctypes.c_int32),
        ("touched_count", ctypes.c_int32),
        ("touched", ctypes.c_void_p),
    ]


class DraftingRecord(ctypes.Structure):
    """What a stream's drafts come from (``src/drafts.h``)."""

    _fields_ = [
        ("texts", ctypes.c_void_p),
        ("length", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("most", "unused")),
    ]


class StreamRecord(ctypes.Structure):
    """One stream of a call of several rounds (``src/rounds.h``)."""

    _fields_ = [
        ("draw", DrawRecord),
        ("drafting", DraftingRecord),
        ("ends", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in ("end_count", "tokens", "remembers", "drafts")),
    ]


class InputsRecord(ctypes.Structure):
    """Where a step's inputs are (``src/rounds.h``)."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("tokens", "positions", "sequences", "out_rows")),
        *((name, ctypes.c_int32) for name in ("most_rows", "timed_rows")),
    ]


class LogRecord(ctypes.Structure):
    """Where a call of several rounds writes what they brought (``src/rounds.h``)."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("words", "done")]


class Status(IntEnum):
    """How a step ended (``src/machine.h``)."""

    STOPPED = 0
    DONE = 1
    FAULTY = 2
    NO_MEMORY = 3


LEVELS = ("avx512", "avx2", "portable")
"""The instruction-set levels, the best first. Every processor has the last."""

NODE_WORDS, NODE_OPERANDS = 38, 20
"""int32 words of a node record: op, extent, operand slots, and the words of its attributes."""


@functools.cache
def load() -> ctypes.CDLL:
    """The library. Raises `LibraryUnavailable` if it is missing, or older than the sources beside it."""
    if not build.LIBRARY.exists():
        raise LibraryUnavailable(f"the CPU machine is not built (to build it: {_command()})")
    try:
        library = ctypes.CDLL(str(build.LIBRARY))
    except OSError as error:
        raise LibraryUnavailable(f"the CPU machine does not load: {error}") from None
    library.ultra_cpu_sources.restype = ctypes.c_char_p
    if library.ultra_cpu_sources().decode() != build.digest():
        raise LibraryUnavailable(f"the CPU machine is older than its sources (to build it: {_command()})")
    library.ultra_cpu_level.restype = ctypes.c_char_p
    library.ultra_cpu_level.argtypes = [ctypes.c_char_p]
    library.ultra_cpu_create.restype = ctypes.c_void_p
    pointer, number = ctypes.c_void_p, ctypes.c_int32
    library.ultra_cpu_create.argtypes = [
        *(ctypes.c_char_p, pointer, pointer, number, pointer, number),
        *(ctypes.POINTER(SizesRecord), number, pointer, number),
    ]
    library.ultra_cpu_lanes.argtypes = [ctypes.c_char_p]
    library.ultra_cpu_pack.argtypes = [ctypes.c_char_p, pointer, number, number]
    library.ultra_cpu_pack.restype = None
    library.ultra_cpu_read.argtypes = [pointer, ctypes.c_int64, number]
    library.ultra_cpu_read.restype = ctypes.c_uint64
    library.ultra_cpu_run.argtypes = [pointer, number, number, number, POLL]
    library.ultra_cpu_costs.argtypes = [pointer, pointer]
    library.ultra_cpu_costs.restype = None
    library.ultra_cpu_generate.argtypes = [
        *(pointer, ctypes.POINTER(InputsRecord), pointer, number, number, number),
        *(pointer, pointer, number, ctypes.POINTER(LogRecord), POLL),
    ]
    library.ultra_cpu_draw.argtypes = [pointer, pointer, number, ctypes.POINTER(DrawRecord), pointer]
    library.ultra_cpu_fault.argtypes = [pointer]
    library.ultra_cpu_fault.restype = ctypes.c_char_p
    library.ultra_cpu_destroy.argtypes = [pointer]
    library.ultra_cpu_destroy.restype = None
    return library


def available() -> list[str]:
    """Those of `LEVELS` that this processor and this library have."""
    return [name for name in LEVELS if load().ultra_cpu_level(name.encode())]


def level() -> str:
    """What the machine will run on, the best of `LEVELS` that there is; ``ULTRA_CPU`` may ask for one.

    Raises `LibraryUnavailable` if this processor, or this library, does not have it.
    """
    wanted = os.environ.get("ULTRA_CPU", "")
    name = load().ultra_cpu_level(wanted.encode())
    if name is None:
        raise LibraryUnavailable(f"ULTRA_CPU={wanted}: this processor runs {', '.join(available())}")
    return str(name.decode())


def _command() -> str:
    return "python -m ultra_kernels.cpu.build, which needs a C++ compiler"
