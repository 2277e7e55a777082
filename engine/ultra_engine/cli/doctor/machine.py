"""The machine: processors, memory, disk, GPUs, tools."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import torch
from ultra_kernels.cpu import build
from ultra_kernels.cpu.abi import LEVELS, LibraryUnavailable, available, level, load
from ultra_kernels.cpu.processors import default_threads

from ...weights import cache
from ...weights.summary import bytes_text
from .findings import Finding, Verdict

SECONDS = 0.4
"""How long memory is read to see how fast it is."""

_LEAST, _MOST = 1 << 26, 1 << 29
"""Bytes that are read over and over: more than caches hold, less than anybody misses."""


def processors() -> Finding:
    """How many this process may use, and of what kind."""
    usable, there = default_threads(), os.cpu_count() or 1
    words = f"{_model()}, {usable} processors" + (f" of {there}" if there != usable else "")
    return Finding(
        "processor", words, data={"model": _model(), "usable": usable, "machine": platform.machine()}
    )


def _model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def executor() -> Finding:
    """Which executor would run, and at which level. The level is None for the reference executor."""
    try:
        name = level()
    except LibraryUnavailable as error:
        advice = f"{error}; until then the reference executor runs, several times slower"
        data = {"executor": "reference", "level": None}
        return Finding("executor", "reference (PyTorch)", Verdict.POOR, advice, data)
    data = {"executor": "cpu", "level": name}
    others = ", ".join(available())
    if name == LEVELS[-1]:
        advice = "no AVX2 here, or ULTRA_CPU forbids it: the plain code runs, 7 to 15 times slower"
        return Finding("executor", f"the CPU machine, {name}", Verdict.POOR, advice, data)
    return Finding("executor", f"the CPU machine, {name} (this processor has {others})", data=data)


def compiler() -> Finding:
    """The C++ compiler that the CPU machine would be built with."""
    try:
        command = build.compiler()
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=10)
        words = (done.stdout.splitlines() or [""])[0].strip()
        if done.returncode or not words:
            raise build.BuildError(f"{command[0]} does not run")
    except (build.BuildError, OSError, subprocess.SubprocessError) as error:
        advice = "install g++ or clang++: the CPU machine is built with it, and again when it changes"
        return Finding("compiler", str(error), Verdict.POOR, advice, {"compiler": None})
    return Finding("compiler", words, data={"compiler": command[0]})


def memory() -> Finding:
    """What is there, and what is free."""
    found = psutil.virtual_memory()
    words = f"{bytes_text(found.available)} free of {bytes_text(found.total)}"
    data = {"total": found.total, "available": found.available}
    return Finding("memory", words, data=data)


def bandwidth(seconds: float = SECONDS) -> Finding:
    """How fast all usable processors read memory together: what bounds the speed of decoding."""
    best, reader = 0.0, _Reader()
    end = time.perf_counter() + seconds
    for _ in range(1000):
        started = time.perf_counter()
        size = reader()
        best = max(best, size / (time.perf_counter() - started))
        if time.perf_counter() > end:
            break
    words = f"{best / 1e9:.1f} GB/s read by {default_threads()} threads"
    return Finding("bandwidth", words, data={"bytes_per_second": round(best)})


class _Reader:
    """Reads some memory once and says how many bytes: by the CPU machine's loop, else by PyTorch's sum."""

    def __init__(self) -> None:
        size = max(_LEAST, min(_MOST, psutil.virtual_memory().available // 8)) // 64 * 64
        self._data = torch.ones(size // 8, dtype=torch.int64)
        try:
            self._library: ctypes.CDLL | None = load()
        except LibraryUnavailable:
            self._library = None

    def __call__(self) -> int:
        size = self._data.numel() * 8
        if self._library is None:
            self._data.sum()
        else:
            self._library.ultra_cpu_read(self._data.data_ptr(), size, default_threads())
        return size


def disk() -> Finding:
    """Room in the cache, and whether it can be written."""
    folder = cache.models_dir()
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    free = shutil.disk_usage(there).free
    data = {"cache": str(folder), "free": free, "writable": os.access(there, os.W_OK | os.X_OK)}
    words = f"{bytes_text(free)} free in {folder}"
    if not there.is_dir() or not data["writable"]:
        advice = f"{there} cannot be written: set ULTRA_CACHE to a folder that can"
        return Finding("cache", words, Verdict.POOR, advice, data)
    if free < 2e9:
        return Finding("cache", words, Verdict.POOR, "the default model needs 1.2 GB of disk", data)
    return Finding("cache", words, data=data)


def gpus() -> Finding:
    """What PyTorch sees of them."""
    if not torch.cuda.is_available():
        return Finding("GPU", "none that PyTorch can use", data={"gpus": []})
    found: list[dict[str, Any]] = []
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        found.append({"name": torch.cuda.get_device_name(index), "memory": total, "free": free})
    words = "; ".join(f"{gpu['name']}, {bytes_text(float(gpu['memory']))}" for gpu in found)
    advice = "there is no executor for GPUs yet: models run on the processor"
    return Finding("GPU", words, Verdict.POOR, advice, {"gpus": found})


def software() -> Finding:
    """Versions that reports of errors should have."""
    words = (
        f"Python {platform.python_version()}, PyTorch {torch.__version__}, {platform.platform(terse=True)}"
    )
    return Finding("software", words, data={"python": sys.version.split()[0], "torch": torch.__version__})
