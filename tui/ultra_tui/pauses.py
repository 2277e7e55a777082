"""Garbage collection without pauses that a person would feel."""

from __future__ import annotations

import gc


def avoid_pauses() -> None:
    """Never look again through what is loaded by now, and look through the rest less often.

    A full collection of the app takes 50 to 100 ms, and streaming would cause one every second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
