"""Processes that a test kills."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable


def forked(work: Callable[[], object]) -> int:
    """The id of a new process that does ``work`` and never returns into the test; its code is 0 if it did."""
    with warnings.catch_warnings():
        # Threads of other tests' libraries may still be there; the child uses nothing of theirs.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child
