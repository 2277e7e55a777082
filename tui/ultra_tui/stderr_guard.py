"""Keeps stray output on file descriptor 2 (native libraries, children) off the screen, and shows it later."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

MOST = 64 * 1024
"""Bytes that are shown afterwards, from the end."""


@contextmanager
def stderr_guard() -> Iterator[None]:
    """While open, fd 2 goes to a file and ``sys.__stderr__``, on which Textual draws, to the terminal.
    Afterwards everything is as before, and what was caught is written to fd 2."""
    drawn_on = sys.__stderr__
    if drawn_on is None:
        yield
        return
    sys.stderr.flush()
    with (
        tempfile.TemporaryFile() as caught,
        open(os.dup(2), "w", encoding="utf-8", errors="replace") as screen,
    ):
        os.dup2(caught.fileno(), 2)
        sys.__stderr__ = screen  # type: ignore[misc]
        try:
            yield
        finally:
            sys.stderr.flush()
            sys.__stderr__ = drawn_on  # type: ignore[misc]
            screen.flush()
            os.dup2(screen.fileno(), 2)
            _replay(caught.fileno())


def _replay(caught: int) -> None:
    size = os.fstat(caught).st_size
    os.lseek(caught, max(0, size - MOST), os.SEEK_SET)
    while piece := os.read(caught, MOST):
        os.write(2, piece)
