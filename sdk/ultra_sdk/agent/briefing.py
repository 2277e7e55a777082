"""The message that begins a task: the project's files, those that the task names, and the task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from .errors import AgentError
from .events import Loaded
from .guess import paths_in
from .mentions import Mentions
from .workspace.files import Workspace
from .workspace.scan import files, scan

LISTED_CHARS = 1200
MAX_ATTACHED = 8
MAX_SCANNED = 20_000


@dataclass(frozen=True, slots=True)
class Brief:
    """What the model is told, the files that were put in, and every path that the task brings up."""

    text: str
    loaded: tuple[Loaded, ...]
    named: tuple[str, ...]


def brief(
    workspace: Workspace,
    task: str,
    known: str,
    shown: Callable[[str, str], str],
    room: int,
    *,
    listing: bool,
    plain: bool,
) -> Brief:
    """Write a task down. ``room`` is for attached files, in characters; ``listing`` names the files.

    ``known`` is what was found out before. Files mentioned with ``@`` are put in; with ``plain`` also those
    that are named without it, since a small model would only ask for them. What does not fit is left for
    it to read.
    """
    named = Mentions(workspace.root).attached(task)
    if plain:
        named += [path for path in paths_in(task) if workspace.content(path) is not None]
    parts = [_listing(workspace)] if listing else []
    loaded: list[Loaded] = []
    for path in list(dict.fromkeys(named))[:MAX_ATTACHED]:
        part = _attached(workspace, path, shown, room)
        if part is not None:
            parts.append(part)
            loaded.append(Loaded("file", path, len(part)))
            room -= len(part)
    parts += [known] if known else []
    text = "\n\n".join([*parts, f"Task: {task}"])
    return Brief(text, tuple(loaded), tuple(dict.fromkeys([*named, *paths_in(task)])))


def _listing(workspace: Workspace) -> str:
    found = islice(scan(workspace.root), MAX_SCANNED)
    names = [each.path for each in found if each.kind == "file"]
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
