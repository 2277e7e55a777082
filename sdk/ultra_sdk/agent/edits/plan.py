"""Edits worked out in memory first: all of an answer is applied, or nothing is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ..errors import AgentError, BadEdit, EditError, NoSuchFile, Unread
from ..workspace.files import Change, Reading, Workspace
from ..workspace.text import unified
from .blocks import parse_blocks
from .match import replace_text
from .omission import check_omissions
from .symbol import replace_symbol
from .syntax import check_syntax
from .unified import apply_patch, parse_diff


@dataclass(slots=True)
class _Planned:
    base: Reading | None
    content: str | None


class Plan:
    """Changes of files that nobody sees until `commit`.

    plan = Plan(workspace)
    plan.blocks(answer)
    plan.replace("main.py", "old", "new")
    changes = plan.commit()
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._files: dict[str, _Planned] = {}

    def blocks(self, answer: str, path: str | None = None) -> None:
        """Apply the SEARCH/REPLACE blocks of an answer; ``path`` is for blocks that name no file."""
        blocks = parse_blocks(unified(answer))
        if not blocks:
            raise BadEdit("there is no SEARCH/REPLACE block (<<<<<<< SEARCH, =======, >>>>>>> REPLACE)")
        for number, block in enumerate(blocks, 1):
            path = block.path or path
            if path is None:
                raise BadEdit("write the file's path in the line above <<<<<<< SEARCH")
            with _numbered(number, len(blocks)):
                creates = all(not search.strip() for search, _ in block.readings)
                self._change(path, lambda old, b=block, p=path: b.applied(old, p), create=creates)  # type: ignore[misc]

    def diff(self, answer: str) -> None:
        """Apply the unified diffs of an answer."""
        patches = parse_diff(unified(answer))
        if not patches:
            raise BadEdit("there is no unified diff (--- a/path, +++ b/path, @@ ... @@)")
        for number, patch in enumerate(patches, 1):
            name = patch.new or patch.old
            if name is None or (patch.old and patch.new and patch.old != patch.new):
                raise BadEdit(f"a diff from {patch.old} to {patch.new} is not an edit of one file")
            with _numbered(number, len(patches)):
                create = patch.old is None
                self._change(name, lambda old, p=patch, n=name: apply_patch(old, p, n), create=create)  # type: ignore[misc]
            if patch.new is None:
                self._remove(name)

    def replace(self, path: str, old: str, new: str, *, every: bool = False) -> None:
        """Replace a text that is in a file once, or ``every`` time."""
        old, new = unified(old), unified(new)
        self._change(path, lambda content: replace_text(content, old, new, every=every, where=path))

    def symbol(self, path: str, name: str, source: str) -> None:
        """Rewrite one definition of a Python file."""
        self._change(path, lambda content: replace_symbol(content, name, unified(source), path))

    def whole(self, path: str, content: str) -> None:
        """Make ``content`` the whole file. Raises `Unread` for one that exists and was not read.

        Whether the last line ends in a newline cannot be told from a model's answer: where that line stays
        as it is, its ending stays too.
        """
        content = unified(content)
        planned = self._planned(path, create=True)
        if planned.base is not None and not self._workspace.has_read(planned.base.path):
            raise Unread(path, "exists; read it before you overwrite it")
        old = planned.content or ""
        if old and not old.endswith("\n") and content.endswith("\n") and _last(old) == _last(content):
            content = content.removesuffix("\n")
        elif content and old.endswith("\n") and not content.endswith("\n"):
            content += "\n"
        self._change(path, lambda _: content, create=True)

    def check(self) -> None:
        """Raises `BreaksSyntax` if a file could be parsed and could not be after this."""
        for path, planned in self._files.items():
            if planned.content is not None:
                before = planned.base.text.content if planned.base is not None else None
                check_syntax(path, before, planned.content)

    def changes(self) -> list[Change]:
        """What `commit` would do, for a person to look at. Raises `BreaksSyntax`, `NotText`."""
        self.check()
        return [self._workspace.change(path, each.base, each.content) for path, each in self._files.items()]

    def commit(self) -> list[Change]:
        """Write everything; if a write fails, what was written before it is put back.

        Raises `BreaksSyntax` before anything is written, and what `Workspace.replace` raises.
        """
        self.check()
        done: list[Change] = []
        try:
            for path, planned in self._files.items():
                done.append(self._workspace.replace(path, planned.base, planned.content))
        except AgentError:
            for change in reversed(done):
                with contextlib.suppress(AgentError):  # somebody was faster: theirs stays
                    self._workspace.revert(change)
            raise
        return done

    def _change(self, path: str, edit: Callable[[str], str], *, create: bool = False) -> None:
        planned = self._planned(path, create=create)
        old = planned.content or ""
        new = edit(old)
        check_omissions(old, new, path)
        planned.content = new

    def _remove(self, path: str) -> None:
        planned = self._planned(path, create=False)
        if planned.content:
            raise BadEdit(f"the diff removes {path} but leaves lines of it")
        planned.content = None

    def _planned(self, name: str, *, create: bool) -> _Planned:
        path = self._workspace.writable(name)
        if path not in self._files:
            base = self._workspace.peek(path)
            if base is not None:
                self._workspace.expect_fresh(name, base)
            self._files[path] = _Planned(base, base.text.content if base is not None else None)
        planned = self._files[path]
        if planned.content is None and not create:
            raise NoSuchFile(name, "there is no such file")
        return planned


def first_survivor(workspace: Workspace, attempts: Iterable[Callable[[Plan], None]]) -> tuple[Plan, int]:
    """The plan of the first attempt that applies and parses, and its number.

    plan, which = first_survivor(workspace, [lambda plan, a=a: plan.blocks(a) for a in answers])

    Raises the first attempt's error if none survives.
    """
    first: AgentError | None = None
    for number, attempt in enumerate(attempts):
        plan = Plan(workspace)
        try:
            attempt(plan)
            plan.check()
            return plan, number
        except AgentError as error:
            first = first or error
    raise first or BadEdit("there is no attempt")


@contextlib.contextmanager
def _numbered(number: int, total: int) -> Iterator[None]:
    try:
        yield
    except EditError as error:
        if total == 1:
            raise
        raise type(error)(f"edit {number} of {total} (none was applied): {error}") from None


def _last(content: str) -> str:
    return content.removesuffix("\n").rpartition("\n")[2]
