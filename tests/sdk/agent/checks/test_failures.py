from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_sdk.agent.checks.detect import Kind
from ultra_sdk.agent.checks.failures import DETAILS, READERS, parse_failures

SUITE = """
import pytest

def test_fine(): pass

class TestA:
    def test_equal(self):
        assert {"a": 1} == {"a": 2}, "maps differ"

@pytest.mark.parametrize("x", [1, 2])
def test_param(x):
    assert x == 1

@pytest.fixture
def broken():
    raise RuntimeError("no fixture")

def test_setup(broken): pass
"""


CARGO = """running 2 tests
.F
failures:

---- tests::it_adds stdout ----

thread 'tests::it_adds' (1) panicked at src/lib.rs:12:9:
assertion `left == right` failed
  left: 3
 right: 4

failures:
    tests::it_adds
"""
RUSTC = """error[E0308]: mismatched types
 --> src/lib.rs:2:5
  |
2 |     x
"""
GO = """--- FAIL: TestAdd (0.00s)
    add_test.go:9: got 3, want 4
FAIL
exit status 1
FAIL\tx\t0.1s
"""
JEST = """FAIL ./a.test.js
  ● sum › adds

    expect(received).toBe(expected)

    Expected: 3
    Received: 4
"""
TAP = """TAP version 13
ok 1 - fine
not ok 2 - adds
  ---
  error: 'Expected 3'
  code: 'X'
  ...
1..2
"""


def run(folder: Path, *args: str) -> str:
    done = subprocess.run([sys.executable, *args], cwd=folder, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_pytest_itself(tmp_path: Path) -> None:
    (tmp_path / "test_s.py").write_text(SUITE)
    (tmp_path / "test_import.py").write_text("import no_such_module_x\n")
    args = ["-m", "pytest", "-q", "--tb=short", "--color=no", "-p", "no:cacheprovider"]
    found = {failure.name: failure for failure in parse_failures("pytest", run(tmp_path, *args, "test_s.py"))}
    assert set(found) == {"test_s.py::TestA::test_equal", "test_s.py::test_param[2]", "test_s.py::test_setup"}
    assert found["test_s.py::TestA::test_equal"].message.startswith("AssertionError: maps differ")
    assert found["test_s.py::test_param[2]"].message == "assert 2 == 1"
    assert found["test_s.py::test_setup"].message == "RuntimeError: no fixture"
    assert any("assert x == 1" in line for line in found["test_s.py::test_param[2]"].details)
    (failure,) = parse_failures("pytest", run(tmp_path, *args, "test_import.py"))
    assert failure.name == "test_import.py" and "No module named 'no_such_module_x'" in failure.message


def test_unittest_itself(tmp_path: Path) -> None:
    (tmp_path / "test_u.py").write_text(
        "import unittest\nclass T(unittest.TestCase):\n"
        "    def test_a(self):\n        self.assertEqual(1, 2)\n"
        "    def test_b(self):\n        {}['x']\n    def test_c(self):\n        pass\n"
    )
    first, second = sorted(parse_failures("unittest", run(tmp_path, "-m", "unittest")), key=lambda f: f.name)
    assert first.name.startswith("test_a (test_u.T") and first.message == "AssertionError: 1 != 2"
    assert second.name.startswith("test_b (test_u.T") and second.message == "KeyError: 'x'"


def test_ruff_itself(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import os\n")
    said = run(tmp_path, "-m", "ruff", "check", "--output-format=concise", "--no-cache", "--isolated")
    (failure,) = parse_failures("lint", said)
    assert failure.name == "a.py:1:8" and failure.message.startswith("F401")


@pytest.mark.parametrize(
    ("kind", "output", "expected"),
    [
        ("cargo", CARGO, [("tests::it_adds", "assertion `left == right` failed")]),
        ("cargo", RUSTC, [("src/lib.rs:2:5", "error[E0308]: mismatched types")]),
        ("go", GO, [("TestAdd", "add_test.go:9: got 3, want 4")]),
        (
            "go",
            "# x\n./add.go:3:2: undefined: y\nFAIL\tx [build failed]\n",
            [("./add.go:3:2", "undefined: y")],
        ),
        ("node", JEST, [("sum › adds", "expect(received).toBe(expected)")]),
        ("node", TAP, [("adds", "Expected 3")]),
        ("lint", "src/a.ts(3,5): error TS2322: Type 'x'.\n", [("src/a.ts(3,5)", "error TS2322")]),
        (
            "lint",
            "a.py:3: error: Bad  [x]\na.py:4: note: see\nFound 1 error\n",
            [("a.py:3", "error: Bad  [x]")],
        ),
        ("other", "a.py:3: error", []),
    ],
)
def test_recorded_outputs(kind: Kind, output: str, expected: list[tuple[str, str]]) -> None:
    found = parse_failures(kind, output)
    assert [failure.name for failure in found] == [name for name, _ in expected]
    for failure, (_, message) in zip(found, expected, strict=True):
        assert message in failure.message


@given(
    st.sampled_from(sorted(READERS)),
    st.lists(st.sampled_from(["FAIL: x", "E  y", "____ t ____", "---", "● a", ""])),
)
def test_any_output_is_read(kind: Kind, lines: list[str]) -> None:
    for failure in parse_failures(kind, "\n".join(lines)):
        assert failure.name and len(failure.details) <= DETAILS
