"""What can go wrong for an agent at work. Each message is one clear line that says what to do next.

AgentError
├── WorkspaceError        a file or path (path)
│   ├── OutsideWorkspace      it leads out of the project
│   ├── ProtectedPath         it may be read but not written (.git)
│   ├── NoSuchFile
│   ├── NotText               binary, or in an encoding that is not known
│   ├── TooLarge
│   ├── Stale                 it changed since it was read
│   └── Unread                it exists and nobody has read it
├── CheckpointError       a turn could not be stored or taken back
│   └── Conflict              files were changed since by somebody else (paths)
├── EditError             an edit was refused and nothing was changed
│   ├── BadEdit               its form cannot be understood
│   ├── NoMatch               the text to replace is not in the file
│   ├── AmbiguousMatch        it is there more than once
│   ├── Omission              "... rest unchanged" in place of code
│   └── BreaksSyntax          the file parsed before and would not any more
├── ToolError             a tool cannot do what it was asked (wrong parameters, no such tool)
└── SandboxError          a command cannot be confined as its policy demands
"""

from __future__ import annotations

from collections.abc import Sequence


class AgentError(Exception):
    """Base of every error of `ultra_sdk.agent`."""


class WorkspaceError(AgentError):
    """A file cannot be used; ``path`` names it as the caller did."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.reason = message

    def __reduce__(self) -> tuple[type[WorkspaceError], tuple[str, str]]:
        return type(self), (self.path, self.reason)


class OutsideWorkspace(WorkspaceError):
    """The path leads out of the project, by itself or through a link."""


class ProtectedPath(WorkspaceError):
    """The path belongs to version control; the agent reads it at most."""


class NoSuchFile(WorkspaceError):
    """There is no file of this name."""


class NotText(WorkspaceError):
    """The file is binary, or the new text cannot be written in its encoding."""


class TooLarge(WorkspaceError):
    """The file is larger than the workspace reads."""


class Stale(WorkspaceError):
    """The file's content is not what was read; read it again."""


class Unread(WorkspaceError):
    """The file exists and was not read, so it is not overwritten."""


class CheckpointError(AgentError):
    """A turn could not be stored or taken back."""


class Conflict(CheckpointError):
    """Files of the turn were changed since; ``paths`` names them."""

    def __init__(self, paths: Sequence[str]) -> None:
        shown = ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
        super().__init__(f"changed since that turn, so left as they are: {shown}")
        self.paths = tuple(paths)

    def __reduce__(self) -> tuple[type[Conflict], tuple[tuple[str, ...]]]:
        return type(self), (self.paths,)


class EditError(AgentError):
    """An edit was refused; no file was changed. The message is meant for the model."""


class BadEdit(EditError):
    """The edit's form cannot be understood."""


class NoMatch(EditError):
    """The text to replace is not in the file."""


class AmbiguousMatch(EditError):
    """The text to replace is in the file more than once."""


class Omission(EditError):
    """The new text leaves code out with a placeholder."""


class BreaksSyntax(EditError):
    """The file could be parsed before the edit and could not be after it."""


class ToolError(AgentError):
    """A tool cannot do what it was asked."""


class SandboxError(AgentError):
    """A command cannot be confined as its policy demands."""
