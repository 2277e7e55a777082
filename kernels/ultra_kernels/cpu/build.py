"""Compiles the CPU machine: `python -m ultra_kernels.cpu.build`. `pip install` does the same.

Only the standard library, because it also runs before the package is installed. The compiler is ``$CXX``, or
the first of c++, g++ and clang++ that is there.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCES = Path(__file__).parent / "src"
LIBRARY = Path(__file__).parent / "libultra_cpu.so"

_FLAGS = (
    "-std=c++17 -O3 -fPIC -fvisibility=hidden -pthread -ffp-contract=off -Wall -Wextra -Wno-psabi".split()
)
_AVX2 = "-mavx2 -mfma -mf16c".split()
_AVX512 = [*_AVX2, *"-mavx512f -mavx512bw -mavx512vl -mavx512vnni -DULTRA_AVX512".split()]


class BuildError(Exception):
    """The library cannot be built here; the message says why."""


def digest() -> str:
    """A hash of the sources: the library carries that of its own."""
    content = hashlib.sha256()
    for path in sorted(SOURCES.iterdir()):
        content.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return content.hexdigest()[:32]


def compiler() -> list[str]:
    """The command of a C++ compiler. Raises `BuildError` if there is none."""
    if chosen := os.environ.get("CXX"):
        return shlex.split(chosen)
    for name in ("c++", "g++", "clang++"):
        if found := shutil.which(name):
            return [found]
    raise BuildError("there is no C++ compiler (install g++ or clang++, or set CXX)")


def levels(emulation: Path | None = None) -> dict[str, list[str]]:
    """The instruction-set levels that are compiled for this machine, and their flags."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return {"portable": []}
    emulated = [*_AVX2, "-DULTRA_AVX512", "-include", str(emulation)]
    found = {"portable": [], "avx2": _AVX2, "avx512": emulated if emulation else _AVX512}
    return {name: ["-DULTRA_X86", *flags] for name, flags in found.items()}


def build(target: Path = LIBRARY, extra: tuple[str, ...] = (), emulation: Path | None = None) -> Path:
    """Compile everything into ``target``, with ``extra`` flags. Raises `BuildError`.

    ``emulation`` is a header that has the AVX-512 intrinsics as functions: that level then runs wherever AVX2
    does. It is for tests.
    """
    command = [*compiler(), *_FLAGS, *extra]
    found = levels(emulation)
    common = found["portable"]
    sources = [*common, f'-DULTRA_SOURCES="{digest()}"']
    units = [
        ("abi.cpp", [*sources, "-DULTRA_RUNS_AVX512=has_avx2"] if emulation else sources),
        ("drafts.cpp", common),
        ("machine.cpp", common),
        ("rounds.cpp", common),
        ("sample.cpp", common),
        *(("level.cpp", [f"-DULTRA_LEVEL={name}", *flags]) for name, flags in found.items()),
    ]
    with tempfile.TemporaryDirectory() as folder:
        objects = [f"{folder}/{number}.o" for number in range(len(units))]
        commands = [
            [*command, *flags, "-c", str(SOURCES / source), "-o", output]
            for (source, flags), output in zip(units, objects, strict=True)
        ]
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(_run, reversed(commands)))  # the longest first
        linked = Path(folder) / target.name
        _run([*command, "-shared", *objects, "-o", str(linked)])
        # A new file in place of the old one: a process that has the old one mapped keeps it.
        beside = target.with_suffix(f".{os.getpid()}")
        shutil.copyfile(linked, beside)
        beside.replace(target)
    return target


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise BuildError(f"{command[0]} cannot be run: {error.strerror}") from None
    if done.returncode:
        raise BuildError(f"{' '.join(command)} failed:\n{done.stderr.strip()}")


def main() -> int:
    try:
        print(f"built {build()}")
    except BuildError as error:
        print(f"the CPU machine was not built: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
