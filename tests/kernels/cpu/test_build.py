"""Building, finding and refusing the library."""

import subprocess
import sys
from pathlib import Path

import pytest
from ultra_kernels.cpu import abi, build
from ultra_kernels.program import OPERANDS


@pytest.fixture
def fresh_load() -> object:
    abi.load.cache_clear()
    yield
    abi.load.cache_clear()


def test_no_compiler_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(build.BuildError, match="no C\\+\\+ compiler"):
        build.build(tmp_path / "x.so")
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    with pytest.raises(build.BuildError, match="cannot be run"):
        build.build(tmp_path / "x.so")


def test_a_compiler_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", f"{sys.executable} -c 'import sys; sys.exit(\"no such option\")'")
    with pytest.raises(build.BuildError, match="no such option"):
        build.build(tmp_path / "x.so")
    assert not (tmp_path / "x.so").exists()


def test_a_missing_library_says_how_to_build_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fresh_load: object
) -> None:
    monkeypatch.setattr(build, "LIBRARY", tmp_path / "none.so")
    with pytest.raises(abi.LibraryUnavailable, match="python -m ultra_kernels.cpu.build"):
        abi.load()


def test_a_library_of_other_sources_is_refused(monkeypatch: pytest.MonkeyPatch, fresh_load: object) -> None:
    monkeypatch.setattr(build, "digest", lambda: "0" * 32)
    with pytest.raises(abi.LibraryUnavailable, match="older than its sources"):
        abi.load()


def test_a_broken_library_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fresh_load: object
) -> None:
    (tmp_path / "broken.so").write_bytes(b"\x7fELF")
    monkeypatch.setattr(build, "LIBRARY", tmp_path / "broken.so")
    with pytest.raises(abi.LibraryUnavailable, match="does not load"):
        abi.load()


def test_an_unknown_level_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULTRA_CPU", "avx1024")
    with pytest.raises(abi.LibraryUnavailable, match="ULTRA_CPU=avx1024"):
        abi.level()


def test_operands_fit_the_record() -> None:
    assert max(map(len, OPERANDS.values())) <= abi.NODE_OPERANDS


def test_building_needs_no_other_package() -> None:
    """It runs before anything is installed."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import ultra_kernels.cpu.build as b; print(b.digest())"
    )
    folder = str(Path(build.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, folder], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == build.digest()
