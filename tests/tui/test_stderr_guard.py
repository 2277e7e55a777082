from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from ultra_tui.stderr_guard import MOST, stderr_guard


@contextmanager
def stderr_file() -> Iterator[str]:
    """Descriptor 2 as a file, whose path it gives. Not a fixture: pytest resets it after those."""
    kept = os.dup(2)
    with tempfile.NamedTemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield file.name
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def test_strangers_are_caught_and_shown_afterwards() -> None:
    drawn_on = sys.__stderr__
    with stderr_file() as path:
        with stderr_guard():
            os.write(2, b"stranger\n")
            assert sys.__stderr__ is not None
            sys.__stderr__.write("screen\n")
            sys.__stderr__.flush()
            seen = read(path)
        after = read(path)
    assert (seen, after) == ("screen\n", "screen\nstranger\n")
    assert sys.__stderr__ is drawn_on


def test_after_a_fault_everything_is_as_before() -> None:
    with stderr_file() as path:
        with pytest.raises(RuntimeError), stderr_guard():
            os.write(2, b"x" * (MOST + 10))
            raise RuntimeError
        os.write(2, b"!")
        after = read(path)
    assert len(after) == MOST + 1 and after.endswith("x!")
