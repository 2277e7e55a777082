"""The levels: what each may contain, when it is chosen, and that those with FMA agree to the bit."""

import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
from kernels.cpu import emulation
from kernels.cpu.quantised_program import build as program
from kernels.cpu.quantised_program import steps_of, weights
from torch import Tensor
from ultra_kernels.cpu import abi, build
from ultra_kernels.cpu.executor import CpuExecutor
from ultra_kernels.formats import FORMATS
from ultra_kernels.step import Sizes

SIZES = Sizes(rows=64, blocks=16)
TOKENS = [3, 7, 7, 49, 0, 12, 31, 5, 5, 18, 22, 9, 41, 2, 2, 30, 17, 8, 44, 1, 26]


@pytest.fixture
def both_levels() -> Iterator[None]:
    """One library that runs AVX2 and, itself or emulated, AVX-512."""
    if "avx512" in abi.available():
        yield
    else:
        with emulation.emulated():
            yield


def logits(level: str, format: str, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    monkeypatch.setenv("ULTRA_CPU", level)
    executor = CpuExecutor(program(3), weights(program(), format), SIZES, 2)
    assert executor.level == level
    return torch.cat([executor.run(step) for step in steps_of(TOKENS, [1, 12, 5, 3])])


@pytest.mark.parametrize("format", FORMATS)
def test_avx512_has_the_bits_of_avx2(format: str, both_levels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    want = logits("avx2", format, monkeypatch)
    assert want.isfinite().all()
    assert torch.equal(logits("avx512", format, monkeypatch), want)


def test_every_level_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert abi.available()[-1] == "portable"
    monkeypatch.delenv("ULTRA_CPU", raising=False)
    assert abi.level() == abi.available()[0]
    for name in abi.LEVELS:
        monkeypatch.setenv("ULTRA_CPU", name)
        if name in abi.available():
            assert abi.level() == name
        else:
            with pytest.raises(abi.LibraryUnavailable, match=f"ULTRA_CPU={name}: this processor runs"):
                abi.level()


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="needs /proc/cpuinfo")
def test_what_is_available_is_what_the_system_says() -> None:
    flags = set(re.findall(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)[0].split())
    needs = {
        "avx512": {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512_vnni"},
        "avx2": {"avx2", "fma", "f16c"},
        "portable": set(),
    }
    assert abi.available() == [name for name in abi.LEVELS if needs[name] <= flags]


def test_a_level_needs_all_its_bits(tmp_path: Path) -> None:
    """`processor.h` compiled by itself; the checks are static."""
    source = Path(__file__).parent / "processor_check.cpp"
    command = [*build.compiler(), "-std=c++17", "-fsyntax-only", f"-I{build.SOURCES}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stderr


# --- what the compiler made of it -------------------------------------------------------------------

needs_objdump = pytest.mark.skipif(
    shutil.which("objdump") is None or "avx2" not in build.levels(), reason="needs objdump, on x86-64"
)


@cache
def instructions() -> dict[str, list[str]]:
    """The instructions of the library by level; "" has what belongs to none."""
    command = ["objdump", "-d", "--no-show-raw-insn", str(build.LIBRARY)]
    found: dict[str, list[str]] = defaultdict(list)
    level = ""
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if line.endswith(">:"):
            name = re.search(r"N5ultra\d+(avx512|avx2|portable)", line)
            level = name[1] if name else ""
        elif "\t" in line:
            found[level].append(line.split("\t", 1)[1])
    return found


@needs_objdump
def test_portable_code_has_no_instruction_of_another_level() -> None:
    """Nor has the code that all levels share: nothing with a VEX or EVEX prefix, and no SSE3 or later."""
    assert len(instructions()["portable"]) > 10_000 and len(instructions()[""]) > 1000
    later = re.compile(
        r"v|pmaddubsw|pshufb|psign|pabs|pmul(ld|dq)|pmov[sz]x|palignr|p?blend|ptest|round[sp]|popcnt|h(add|sub)p"
    )
    for level in ("portable", ""):
        wrong = {line for line in instructions()[level] if later.match(line)}
        assert not wrong


@needs_objdump
def test_avx2_code_has_no_instruction_of_avx512() -> None:
    assert any("vpmaddubsw" in line for line in instructions()["avx2"])
    wrong = re.compile(r"%zmm|%[xy]mm(1[6-9]|2\d|3[01])|%k[0-7]|\{1to|vpdp")
    assert not {line for line in instructions()["avx2"] if wrong.search(line)}


@needs_objdump
def test_avx512_code_has_the_instruction_it_is_for() -> None:
    products = [line for line in instructions()["avx512"] if line.startswith("vpdpbusd")]
    assert len(products) > 1000 and all("%zmm" in line for line in products)


@pytest.mark.parametrize("name", build.levels())
def test_nothing_of_a_level_can_be_merged_with_another(name: str, tmp_path: Path) -> None:
    """Weak symbols are where inline functions become one. Compiled without inlining, to see them all."""
    if shutil.which("nm") is None:
        pytest.skip("needs nm")
    output = tmp_path / "level.o"
    flags = ["-std=c++17", "-O0", "-w", f"-DULTRA_LEVEL={name}", *build.levels()[name]]
    source = build.SOURCES / "level.cpp"
    subprocess.run([*build.compiler(), *flags, "-c", str(source), "-o", str(output)], check=True)
    listed = subprocess.run(["nm", str(output)], capture_output=True, text=True, check=True).stdout
    defined = re.findall(r"^\S+ ([A-Za-z]) (\S+)$", listed, re.MULTILINE)
    outside = {symbol for kind, symbol in defined if kind in "WVuBDRT" and f"{len(name)}{name}" not in symbol}
    assert outside == {f"_ZN5ultra{len(name) + 6}{name}_levelE"}
