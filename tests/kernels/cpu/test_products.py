"""Other compilers: all of it compiles without a warning, and packed matrices are multiplied right."""

import shutil
import subprocess
from pathlib import Path

import pytest
from ultra_kernels.cpu import abi, build

SOURCE = Path(__file__).parent / "products.cpp"
STRICT = ["-std=c++17", "-pthread", "-ffp-contract=off", "-Wall", "-Wextra", "-Wno-psabi", "-Werror"]


def compile(compiler: list[str], *flags: str, source: Path = SOURCE, output: Path) -> None:
    unused = "-Wno-unused-function"  # not all of a header is wanted
    command = [*compiler, *STRICT, unused, *flags, f"-I{build.SOURCES}", str(source), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stderr


def check(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "OK\n" and not done.returncode, done.stdout + done.stderr


def need(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


def test_aarch64_multiplies(tmp_path: Path) -> None:
    need("aarch64-linux-gnu-g++", "qemu-aarch64")
    compiler = ["aarch64-linux-gnu-g++", "-static", "-O2", "-DULTRA_LEVEL=portable"]
    compile(compiler, output=tmp_path / "products")
    check("qemu-aarch64", str(tmp_path / "products"))


@pytest.mark.parametrize("unit", ["abi", "machine", "level"])
def test_aarch64_compiles(unit: str, tmp_path: Path) -> None:
    need("aarch64-linux-gnu-g++")
    flags = ["-O2", "-c", "-DULTRA_LEVEL=portable", '-DULTRA_SOURCES=""']
    source = build.SOURCES / f"{unit}.cpp"
    compile(["aarch64-linux-gnu-g++"], *flags, source=source, output=tmp_path / "unit.o")


@pytest.mark.parametrize("name", build.levels())
def test_clang_compiles(name: str, tmp_path: Path) -> None:
    """And what it makes of a level that runs here gives the right products."""
    need("clang++")
    flags = ["-O1", f"-DULTRA_LEVEL={name}", *build.levels()[name]]
    compile(["clang++"], *flags, "-c", source=build.SOURCES / "level.cpp", output=tmp_path / "unit.o")
    if name in abi.available():
        compile(["clang++"], *flags, output=tmp_path / "products")
        check(str(tmp_path / "products"))
