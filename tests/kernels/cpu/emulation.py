"""A build of the CPU machine whose AVX-512 level runs on any processor with AVX2: SIMDe's functions stand in
for the intrinsics."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ultra_kernels.cpu import abi, build

HEADER = Path(__file__).parent / "emulated_avx512.h"
LIBRARY = Path(__file__).parent / "libultra_emulated.so"


def reason_not_to() -> str | None:
    """Why AVX-512 cannot be emulated here."""
    if "avx512" not in build.levels():
        return "AVX-512 is for x86-64"
    try:
        command = [*build.compiler(), "-E", "-x", "c++", "-include", str(HEADER), "/dev/null"]
    except build.BuildError as error:
        return str(error)
    if subprocess.run(command, capture_output=True).returncode:
        return "no AVX-512 here, and SIMDe's headers, which emulate it, are not installed (libsimde-dev)"
    return None


def is_fresh(library: Path) -> bool:
    """Whether a library is of these sources, without loading it: a process loads one path once."""
    return library.exists() and build.digest().encode() in library.read_bytes()


def library() -> Path:
    """The emulating library, compiled if there is none of these sources."""
    fresh = is_fresh(LIBRARY) and LIBRARY.stat().st_mtime > HEADER.stat().st_mtime
    return LIBRARY if fresh else build.build(LIBRARY, extra=("-O1",), emulation=HEADER)


@contextmanager
def emulated() -> Iterator[None]:
    """What is loaded here is the emulating library; the test is skipped if there cannot be one."""
    if reason := reason_not_to():
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "LIBRARY", library())
        abi.load.cache_clear()
        try:
            yield
        finally:
            abi.load.cache_clear()
