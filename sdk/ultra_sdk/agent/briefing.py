"""The message that begins a task: the project's files, those that the task names, and the task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .errors import AgentError
from .events import Loaded
from .guess import paths_in
from .mentions import Mentions
from .workspace.files import Workspace
from .workspace.scan import files

LISTED_CHARS = 1200
MAX_ATTACHED = 8


@dataclass(frozen=True, slots=True)
class Brief:
    """What the model is told, the files that were put in, and every path that the task brings up."""

    text: str
    loaded: tuple[Loaded, ...]
    named: tuple[str, ...]
    existing: tuple[str, ...]
    """Those that are files and were not put in."""


def brief(
    workspace: Workspace,
    task: str,
    known: str,
    shown: Callable[[str, str], str],
    room: int,
    *,
    listing: bool,
) -> Brief:
    """Write a task down. ``room`` is for attached files, in characters; ``listing`` names the files.

    ``known`` is what was found out before. Files mentioned with ``@`` are put in; what does not fit is left
    for the model to read.
    """
    mentioned = Mentions(workspace.root).attached(task)
    parts = [_listing(workspace)] if listing else []
    loaded: list[Loaded] = []
    for path in mentioned[:MAX_ATTACHED]:
        part = _attached(workspace, path, shown, room)
        if part is not None:
            parts.append(part)
            loaded.append(Loaded("file", path, len(part)))
            room -= len(part)
    parts += [known] if known else []
    text = "\n\n".join([*parts, f"Task: {task}"])
    named = tuple(dict.fromkeys([*mentioned, *paths_in(task)]))
    given = {each.path for each in loaded}
    existing = tuple(path for path in named if path not in given and workspace.content(path) is not None)
    return Brief(text, tuple(loaded), named, existing)


def _listing(workspace: Workspace) -> str:
    names = files(workspace.root)
    shown: list[str] = []
    size = 0
    for name in sorted(names, key=lambda name: (name.count("/"), name)):
        size += len(name) + 1
        if size > LISTED_CHARS:
            break
        shown.append(name)
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    return f"Files: {' '.join(shown) or '(none)'}{more}"


def _attached(workspace: Workspace, path: str, shown: Callable[[str, str], str], room: int) -> str | None:
    try:
        if workspace.root.path.joinpath(path).is_dir():
            below = [name for name in files(workspace.root, path)][:100]
            return f"{path.rstrip('/')}/ has: {' '.join(below) or 'no files'}"
        reading = workspace.peek(path)
        if reading is None or len(reading.text.content) > room:
            return None
        return shown(path, workspace.read(path).text.content)
    except AgentError:
        return None
