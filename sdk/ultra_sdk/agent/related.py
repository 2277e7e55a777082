"""Which files a failed check is about: those that its output names, and what these import of the project."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from .checks.detect import TESTS
from .checks.failures import Failure
from .errors import AgentError
from .guess import paths_in
from .workspace.files import Workspace
from .workspace.scan import files

MAX_FILES = 2


def related(workspace: Workspace, failures: Iterable[Failure]) -> list[str]:
    """Paths of the project, those first that are imported. Tests are left out if there is anything else."""
    named: list[str] = []
    for failure in failures:
        for path in paths_in("\n".join([failure.name, failure.message, *failure.details])):
            if (inside := _inside(workspace, path)) is not None and inside not in named:
                named.append(inside)
    known = files(workspace.root)
    imported = [path for name in named for path in _imported(workspace.content(name) or "", known)]
    found = list(dict.fromkeys([*imported, *named]))
    return ([path for path in found if not TESTS.search(path)] or found)[:MAX_FILES]


def _imported(source: str, known: list[str]) -> list[str]:
    """The project's files that a Python source imports."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    modules: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
    ends = [module.replace(".", "/") + ".py" for module in modules]
    return [path for end in ends for path in known if path == end or path.endswith("/" + end)]


def _inside(workspace: Workspace, path: str) -> str | None:
    """The path in the project, whichever way an output writes it; None if it is no text file there."""
    try:
        reading = workspace.peek(path)
    except AgentError:
        return None
    return reading.path if reading is not None else None
