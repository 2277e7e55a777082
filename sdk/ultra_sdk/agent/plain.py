"""The plain protocol: fenced files below their paths, one fenced command, a line that says DONE.

For models that do not hold a call syntax. Measured with Qwen2.5-Coder 1.5B: told these rules it explains how
a person would do it; shown one example of them it keeps them. So the prompt is short and ends in examples.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ultra_sdk.protocol import ChatMessage

from .conversation import Entry
from .edits.blocks import START
from .edits.formats import Format
from .errors import BadEdit
from .guess import Guess
from .parsing.answer import SHELLS, read_answer, whole_files
from .parsing.calls import Call
from .parsing.fences import Fence, fences
from .reply import Reply

SYSTEM = """You are a coding agent in a project's folder. You act through blocks in your answers:

A shell command, to look or to run (one, then wait for its output):
```bash
ls
```
{edits}
When the task is finished, end with a line
DONE: what you did"""

WHOLE = """A file to create or change: its path, then all of its lines:
path: a/b.py
```python
x = 1
```"""
BLOCKS = """A file to create or change: its path, then the lines to replace and the new ones:
path: a/b.py
<<<<<<< SEARCH
x = 1
=======
x = 2
>>>>>>> REPLACE"""

ASKED = "Files: greet.py\nTask: make greet.py say goodbye"
LOOKED = "```bash\ncat greet.py\n```"
SAW = "exit code 0\nprint('hello')"
WROTE = {
    "whole": "path: greet.py\n```python\nprint('goodbye')\n```\nDONE: greet.py says goodbye.",
    "blocks": "path: greet.py\n<<<<<<< SEARCH\nprint('hello')\n=======\nprint('goodbye')\n>>>>>>> REPLACE\n"
    "DONE: greet.py says goodbye.",
}
LANGUAGES = {
    "py": "python",
    "js": "javascript",
    "ts": "typescript",
    "rs": "rust",
    "md": "markdown",
    "sh": "bash",
}
DONE = re.compile(r"^[ \t>*#]*DONE\b[*]*[ \t]*[:.-]?[*]*[ \t]*(.*)$", re.MULTILINE)
PATH_LINE = re.compile(r"^path:\s*\S+\s*$", re.MULTILINE)


class Plain:
    """Drives a model by fenced blocks. ``tools``: each tool's parameters, for calls written otherwise."""

    def __init__(self, tools: Mapping[str, Collection[str]], edits: Format = "whole") -> None:
        self._tools = tools
        self._form = "blocks" if edits in ("blocks", "diff") else "whole"

    def opening(self, project: str) -> list[ChatMessage]:
        system = SYSTEM.format(edits=BLOCKS if self._form == "blocks" else WHOLE)
        return [
            ChatMessage("system", f"{system}\n\n{project}" if project else system),
            ChatMessage("user", ASKED),
            ChatMessage("assistant", LOOKED),
            ChatMessage("user", SAW),
            ChatMessage("assistant", WROTE[self._form]),
        ]

    def messages(self, entries: Sequence[Entry]) -> list[ChatMessage]:
        """Results are told by the user; two in a row are one message, since templates refuse that."""
        said: list[tuple[str, str]] = []
        for entry in entries:
            role = "assistant" if entry.role == "assistant" else "user"
            if said and said[-1][0] == role:
                said[-1] = (role, f"{said[-1][1]}\n\n{entry.text}")
            else:
                said.append((role, entry.text))
        return [ChatMessage(role, text or "(nothing)") for role, text in said]

    def options(self) -> dict[str, Any]:
        return {}

    def read(self, text: str, calls: Sequence[Call], guess: Guess) -> Reply:
        answer = read_answer(text, self._tools, shell=None)
        ends = list(DONE.finditer(_prose(answer.text)))
        done = ends[-1][1].strip() if ends else None
        if answer.calls or answer.problems or calls:
            return Reply(answer.text, (*calls, *answer.calls), answer.problems, done, answer.thought)
        try:
            found = self._files(answer.text, guess)
        except BadEdit as error:
            return Reply(answer.text, (), (str(error),), None, answer.thought)
        command = self._command(answer.text)
        if command is not None:
            found.append(command)
            done = None  # it has not seen what comes of it
        return Reply(_prose(answer.text), tuple(found), (), done, answer.thought)

    def enough(self, text: str) -> bool:
        """A command waits for its output; whatever a model writes below it is made up."""
        if not text.endswith("\n") and not text.endswith("```"):
            return False
        if any(fence.closed and _is_command(fence, text.split("\n")) for fence in fences(text)):
            return True
        done = list(DONE.finditer(text))
        return bool(done) and "\n" in text[done[-1].start() :].lstrip("\n") and "```" not in _open(text)

    def shown(self, path: str, content: str) -> str:
        mark = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`{3,}", content)), default=2))
        end = "" if content.endswith("\n") or not content else "\n"
        return f"path: {path}\n{mark}{_language(path)}\n{content}{end}{mark}"

    def _files(self, text: str, guess: Guess) -> list[Call]:
        named = [(path, content) for path, content in whole_files(text) if path is not None]
        if not named:
            lines = text.split("\n")
            guessed = (guess.of(fence, lines) for fence in fences(text) if not _is_command(fence, lines))
            named = [each for each in guessed if each is not None]
        last = dict(named)  # of two versions in one answer the second is meant
        # What is only written out beside a change, such as the tests, is no edit.
        changed = {path: content for path, content in last.items() if guess.peek(path) != content}
        last = changed or last
        return [Call("write", {"path": path, "content": content}) for path, content in last.items()]

    def _command(self, text: str) -> Call | None:
        lines = text.split("\n")
        for fence in fences(text):
            if _is_command(fence, lines) and fence.closed and fence.content.strip():
                body = fence.content.rstrip("\n").split("\n")
                return Call("bash", "\n".join(re.sub(r"^\$ ", "", line) for line in body))
        return None


def _is_command(fence: Fence, lines: list[str]) -> bool:
    """Whether it is to be run: a script that has a path, or begins as a file does, is one to be written."""
    above = next((line for line in reversed(lines[: fence.start]) if line.strip()), "")
    return (
        fence.language in SHELLS
        and not fence.content.startswith("#!")
        and not PATH_LINE.fullmatch(above.strip())
    )


def _prose(text: str) -> str:
    """The text without fenced blocks and the lines that name them."""
    lines = text.split("\n")
    inside = {i for fence in fences(text) for i in range(fence.start, fence.end + 1)}
    kept = "\n".join(line for i, line in enumerate(lines) if i not in inside)
    return kept if START.search(text) else PATH_LINE.sub("", kept).strip()


def _open(text: str) -> str:
    """What stands in a fence that is not closed, with its mark."""
    last = fences(text)[-1:]
    return "```" if last and not last[0].closed else ""


def _language(path: str) -> str:
    suffix = path.rpartition(".")[2] if "." in path.rpartition("/")[2] else ""
    return LANGUAGES.get(suffix, suffix)
