"""Which files a failed check is about: those that its output names, and what these import of the project."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from .checks.failures import Failure
from .errors import AgentError
from .guess import paths_in
from .workspace.files import Workspace
from .workspace.scan import files

MAX_FILES = 4


def related(workspace: Workspace, failures: Iterable[Failure]) -> list[str]:
    """Paths of the project, those first that are imported: there the fault is more likely than in a test."""
    named: list[str] = []
    for failure in failures:
        for path in paths_in("\n".join([failure.name, failure.message, *failure.details])):
            if (inside := _inside(workspace, path)) is not None and inside not in named:
                named.append(inside)
    known = files(workspace.root)
    imported = [path for name in named for path in _imported(_content(workspace, name) or "", known)]
    return list(dict.fromkeys([*imported, *named]))[:MAX_FILES]


def shown_files(
    workspace: Workspace, paths: Iterable[str], shown: Callable[[str, str], str], room: int
) -> tuple[str, list[str]]:
    """The files that fit into ``room`` characters, as they are put into a prompt, and their paths."""
    parts: list[str] = []
    taken: list[str] = []
    for path in paths:
        content = _content(workspace, path)
        if content is None or not content.strip() or len(content) > room or workspace.has_read(path):
            continue
        parts.append(shown(path, workspace.read(path).text.content))
        taken.append(path)
        room -= len(parts[-1])
    return "\n\n".join(parts), taken


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


def _content(workspace: Workspace, path: str) -> str | None:
    try:
        reading = workspace.peek(path)
    except AgentError:
        return None
    return reading.text.content if reading is not None else None
