"""The one entrance: what an answer says, and which calls it makes, in any of the forms that models use."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..edits.blocks import START
from ..errors import BadEdit
from .calls import Call, Found, Problem, bare
from .fences import Fence, fences
from .harmony import harmony, is_harmony
from .tagged import tagged

SHELLS = ("bash", "sh", "shell", "zsh", "console", "shell-session")
THOUGHT = re.compile(r"\A\s*(?:<think(?:ing)?>)?(.*?)</think(?:ing)?>", re.DOTALL)
OPEN_THOUGHT = re.compile(r"\A\s*<think(?:ing)?>(.*)", re.DOTALL)
LEFT_OVER = re.compile(r"\[TOOL_CALLS\]|<\|python_tag\|>|<\|im_end\|>|<\|eot_id\|>|<\|endoftext\|>")
NAME = re.compile(
    r"(?:#+ +|[-*] +)?(?:\*\*)?(?:file(?: ?name)?|path)? ?:? ?[`\"'*]*(?P<path>[^\s`\"'*:]+)[`\"'*]*:?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer, read."""

    text: str
    """Its words, without calls."""
    thought: str
    calls: tuple[Call, ...]
    problems: tuple[str, ...]
    """What was meant as a call and is none, with how to write it: for the model, as it stands."""


def read_answer(text: str, tools: Mapping[str, Collection[str]], *, shell: str | None = "bash") -> Answer:
    """Read an answer. ``tools`` has the parameters of each tool.

    read_answer('<tool_call>{"name": "ls", "arguments": {"path": "a"}}</tool_call>', {"ls": ["path"]})

    In this order: channels of gpt-oss; calls between tags; SEARCH/REPLACE blocks, if there is ``edit``; JSON
    in fences or alone; one fenced command for the tool ``shell``. The first that gives anything counts.
    """
    if is_harmony(text):
        words, thought, found = harmony(text, list(tools))
        return _answer(words, thought, found)
    thought, text = _thought(text)
    found, spans = tagged(text, tools)
    if found:
        return _answer(_without(text, spans), thought, found)
    text = LEFT_OVER.sub("", text)
    if "edit" in tools and any(START.fullmatch(line.rstrip("\r")) for line in text.split("\n")):
        return _answer(text, thought, [Call("edit", text)])
    found = [*bare(text, list(tools))]
    if not found and shell in tools:
        assert shell is not None
        found = _command(text, shell)
    return _answer(text, thought, found)


def whole_files(text: str) -> list[tuple[str | None, str]]:
    """The files that an answer writes out: the name in the line above a fence or in it, and the content.

    A name of None means that none is given. Raises `BadEdit` for an answer that was cut off.
    """
    lines = text.split("\n")
    found = []
    for fence in fences(text):
        if fence.language in SHELLS and _name(lines, fence) is None:
            continue
        if not fence.closed:
            raise BadEdit("the file is cut off: the last fence is not closed; write a smaller part")
        found.append((_name(lines, fence), fence.content))
    return found


def _name(lines: list[str], fence: Fence) -> str | None:
    """``src/a.py`` above the fence, or in its info as in ``python title=a.py`` or ``python:a.py``."""
    info = fence.info.replace("title=", " ").replace("filename=", " ").replace("file=", " ").replace(":", " ")
    for word in reversed(info.split()):
        if _is_path(word.strip("\"'")):
            return word.strip("\"'")
    above = [line.strip() for line in lines[max(fence.start - 2, 0) : fence.start] if line.strip()]
    named = NAME.fullmatch(above[-1]) if above else None
    return named["path"] if named and _is_path(named["path"]) else None


def _is_path(word: str) -> bool:
    return bool(re.fullmatch(r"[\w@()\[\]+~/. -]*[\w)\]]", word)) and (
        "/" in word or "." in word.strip(".") or word in ("Makefile", "Dockerfile")
    )


def _thought(text: str) -> tuple[str, str]:
    found = THOUGHT.match(text)
    if found is not None:
        return found[1].strip(), text[found.end() :]
    cut = OPEN_THOUGHT.match(text)
    return (cut[1].strip(), "") if cut is not None else ("", text)


def _command(text: str, shell: str) -> list[Found]:
    commands = [fence for fence in fences(text) if fence.language in SHELLS]
    if len(commands) > 1:
        return [Problem(f"there are {len(commands)} commands; write one in a turn")]
    if not commands:
        return []
    if not commands[0].closed:
        return [Problem("the command is cut off: its fence is not closed; write it again")]
    lines = [re.sub(r"^\$ ", "", line) for line in commands[0].content.rstrip("\n").split("\n")]
    return [Call(shell, "\n".join(lines))]


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    for start, end in reversed(spans):
        text = text[:start] + text[end:]
    return text


def _answer(words: str, thought: str, found: list[Found]) -> Answer:
    calls = tuple(each for each in found if isinstance(each, Call))
    problems = tuple(each.text for each in found if isinstance(each, Problem))
    return Answer(words.strip(), thought, calls, problems)
