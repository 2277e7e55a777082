"""The CPU machine's tests with the machine built under sanitizers: addresses, undefined behaviour, threads.

python scripts/sanitize.py [address] [thread]        needs g++ and its sanitizer libraries
python scripts/sanitize.py short                     products of packed matrices only, a minute
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ultra_kernels.cpu import abi, build

ROOT = Path(__file__).parent.parent
TESTS = ["test_codes.py", "test_executor.py", "test_invariance.py", "test_machine.py", "test_mixture.py"]
TESTS += ["test_sample.py", "test_faults.py", "../test_rounds.py"]

KINDS = {
    "address": ("-fsanitize=address,undefined -fno-sanitize-recover=undefined", "libasan.so"),
    "thread": ("-fsanitize=thread", "libtsan.so"),
}
# Python never frees all it has; PyTorch's own threads are not ours to judge, and it is not instrumented.
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
    "TSAN_OPTIONS": "ignore_noninstrumented_modules=1:halt_on_error=1:abort_on_error=1",
    "OMP_NUM_THREADS": "1",
}


def check(kind: str) -> int:
    """The exit status of the tests under one kind of sanitizer."""
    flags, library = KINDS[kind]
    build.build(extra=(*flags.split(), "-g", "-fno-omit-frame-pointer"))
    # Python has no C++ in it: without libstdc++ the sanitizer finds nobody who throws.
    preload = " ".join(map(_find, (library, "libstdc++.so.6")))
    tests = [str(ROOT / "tests/kernels/cpu" / name) for name in TESTS]
    environment = os.environ | OPTIONS | {"LD_PRELOAD": preload}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


def _find(library: str) -> str:
    """Where the compiler has a library."""
    command = [*build.compiler(), f"-print-file-name={library}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def products() -> int:
    """The exit status of ``products.cpp``, whose buffers have no byte to spare, at every level there is."""
    flags = [
        *"-std=c++17 -O1 -g -w -Wno-psabi -pthread -ffp-contract=off".split(),
        *KINDS["address"][0].split(),
    ]
    with tempfile.TemporaryDirectory() as folder:
        program, empty = f"{folder}/products", Path(folder) / "empty.cpp"
        empty.write_text("int main() {}\n")
        if subprocess.run([*build.compiler(), *flags, str(empty), "-o", program]).returncode:
            print("NOT CHECKED: the compiler has no sanitizer libraries (libasan, libubsan)", file=sys.stderr)
            return 0
        source = ROOT / "tests/kernels/cpu/products.cpp"
        for level in abi.available():
            chosen = [f"-DULTRA_LEVEL={level}", *build.levels()[level], f"-I{build.SOURCES}"]
            subprocess.run([*build.compiler(), *flags, *chosen, str(source), "-o", program], check=True)
            print(f"{level}, address and undefined behaviour:", flush=True)
            if status := subprocess.run([program]).returncode:
                return status
    return 0


def main(kinds: list[str]) -> int:
    """Check each kind and leave the ordinary library behind."""
    if kinds == ["short"]:
        return products()
    try:
        return max(check(kind) for kind in kinds or KINDS)
    finally:
        build.build()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
