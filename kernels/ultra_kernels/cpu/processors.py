"""Which processors this process may use."""

from __future__ import annotations

import os


def default_threads() -> int:
    """How many there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def pinnable() -> list[int]:
    """Those that threads may be pinned to. Raises `ValueError` where there is no pinning."""
    if not hasattr(os, "sched_getaffinity"):
        raise ValueError("threads can be pinned on Linux alone")
    return sorted(os.sched_getaffinity(0))
