"""Whether a command changed the project: sizes and times of its files before and after."""

from __future__ import annotations

from .errors import AgentError
from .workspace.root import Root
from .workspace.scan import scan

State = dict[str, tuple[int, int, int]]
"""For each path size, mtime and ctime (ns)."""


def state(root: Root) -> State | None:
    """How the project looks now; None if it cannot be walked, and nothing can be said of it."""
    try:
        return {
            each.path: (each.stat.st_size, each.stat.st_mtime_ns, each.stat.st_ctime_ns)
            for each in scan(root)
            if each.kind in ("file", "link") and each.stat is not None
        }
    except AgentError:
        return None
