"""Whether a command changed the project: sizes and times of its files before and after."""

from __future__ import annotations

from .errors import AgentError
from .workspace.root import Root
from .workspace.scan import scan

MAX_FILES = 50_000

State = dict[str, tuple[int, int, int]]
"""For each path size, mtime and ctime (ns)."""


def state(root: Root) -> State | None:
    """How the project looks now; None if it is too large or cannot be walked: nothing can be said of it."""
    found: State = {}
    try:
        for each in scan(root):
            if each.kind in ("file", "link") and each.stat is not None:
                found[each.path] = (each.stat.st_size, each.stat.st_mtime_ns, each.stat.st_ctime_ns)
            if len(found) > MAX_FILES:
                return None
    except AgentError:
        return None
    return found
