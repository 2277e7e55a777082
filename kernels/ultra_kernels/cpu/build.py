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


def build(target: Path = LIBRARY, extra: tuple[str, ...] = ()) -> Path:
    """Compile everything into ``target``, with ``extra`` flags. Raises `BuildError`."""
    command = [*compiler(), *_FLAGS, *extra]
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    if x86:
        command.append("-DULTRA_X86")
    units = [
        ("abi.cpp", [f'-DULTRA_SOURCES="{digest()}"']),
        ("machine.cpp", []),
        ("rounds.cpp", []),
        ("sample.cpp", []),
        ("level.cpp", ["-DULTRA_LEVEL=portable"]),
    ]
    if x86:
        units.append(("level.cpp", ["-DULTRA_LEVEL=avx2", *_AVX2]))
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
