"""Searching the lines of files by a regular expression, in Python's dialect.

Where ripgrep is installed it says which files are worth reading, and nothing more: what matches is decided
here, so the results are the same with it and without it. Patterns that could take for ever run in a process
of their own. Of our own modules this uses only those that need the standard library alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import AgentError, ToolError
from ..workspace.globs import CLASSES
from ..workspace.root import Root
from ..workspace.text import Text, Undecodable

MAX_BYTES = 8 << 20
MAX_FOUND = 2000
SECONDS = 10.0
BATCH_CHARS = 100_000
PACKAGES = str(Path(__file__).resolve().parents[3])
CHILD = (
    f"import sys; sys.path.insert(0, {PACKAGES!r}); from ultra_sdk.agent.tools.search import child; child()"
)

ODD_BYTES = r"(?-u:[\r\x1c-\x1f\x80-\xff])"
"""Where the two dialects could see different things; a file with such a byte is always read."""
SHARED = re.compile(
    r"(?:\\[dDwWsSbBtfv]|\\[^\w\s<>]|\(\?:|\((?!\?)|\[\^?\]?(?:\\[dDwWsStfv]|\\[^\w\s]|[^\[\]\\&~|-]|-(?!-))*\]"
    r"|[^\\(\[])*"
)
"""Patterns that mean the same for ripgrep, or at least match wherever ours do."""


@dataclass(frozen=True, slots=True)
class Match:
    """One line that matches, numbered from 1."""

    path: str
    line: int
    text: str
    column: int


def compiled(pattern: str, ignore_case: bool) -> tuple[re.Pattern[str], bool]:
    """The expression, and whether it is one: a pattern that is none is searched for as it is written."""
    flags = re.IGNORECASE if ignore_case else 0
    translated = re.sub(r"\[:(\w+):\]", lambda m: CLASSES.get(m[1], m[0]), pattern)
    translated = re.sub(r"((?:^|[^\\])(?:\\\\)*)\\[<>]", r"\1\\b", translated)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(translated, flags), True
    except (re.error, OverflowError, RecursionError):
        return re.compile(re.escape(pattern), flags), False


def search(root: Root, paths: list[str], pattern: str, ignore_case: bool) -> list[Match]:
    """The lines that match, in the order of ``paths``, at most `MAX_FOUND`. Raises `ToolError`."""
    regex, is_regex = compiled(pattern, ignore_case)
    paths = _candidates(root, paths, regex, is_regex, ignore_case)
    if not is_regex or not _slow(regex.pattern):
        return list(_found(root, paths, regex))
    request = {"root": str(root.path), "paths": paths, "pattern": pattern, "ignore_case": ignore_case}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", CHILD],
            input=json.dumps(request).encode(),
            stdout=subprocess.PIPE,
            timeout=SECONDS,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise ToolError(f"the pattern {pattern!r} takes too long; use a simpler one") from None
    except subprocess.CalledProcessError:
        raise ToolError(f"the pattern {pattern!r} cannot be searched for; use a simpler one") from None
    return [Match(*fields) for fields in json.loads(done.stdout)]


def child() -> None:
    """The process for patterns that could take for ever."""
    request = json.loads(sys.stdin.buffer.read())
    regex = compiled(request["pattern"], request["ignore_case"])[0]
    found = [
        (m.path, m.line, m.text, m.column) for m in _found(Root(request["root"]), request["paths"], regex)
    ]
    sys.stdout.write(json.dumps(found))


def _found(root: Root, paths: list[str], regex: re.Pattern[str]) -> Iterator[Match]:
    left = MAX_FOUND
    for path in paths:
        try:
            lines = Text.decode(root.read(path, MAX_BYTES)[0]).lines
        except (AgentError, Undecodable):
            continue  # gone, binary or huge: nothing that could be edited
        for number, line in enumerate(lines, 1):
            found = regex.search(line)
            if found is not None:
                yield Match(path, number, line, found.start())
                left -= 1
                if not left:
                    return


def _slow(pattern: str) -> bool:
    """Whether matching could take more than polynomial time, or a high power."""
    bare = re.sub(r"\\[^1-9]|\[\^?\]?[^\]]*\]", "x", pattern)
    return bool(re.search(r"\)[*+{]|\\[1-9]|\(\?P?[=(]", bare)) or len(re.findall(r"[*+]|\{\d*,", bare)) > 2


def _candidates(
    root: Root, paths: list[str], regex: re.Pattern[str], is_regex: bool, ignore_case: bool
) -> list[str]:
    """The paths that ripgrep does not rule out; all of them if it is not there or has any doubt."""
    program = _ripgrep(root)
    if program is None or len(paths) < 2 or not (is_regex and SHARED.fullmatch(regex.pattern)):
        return paths
    args = [program, "--no-config", "--files-with-matches", "--null", "--text", "--encoding", "none"]
    args += ["--no-messages", "--ignore-case"] if ignore_case else ["--no-messages", "--case-sensitive"]
    args += ["-e", regex.pattern, "-e", ODD_BYTES, "--"]
    possible: set[str] = set()
    for batch in _batches(paths):
        try:
            done = subprocess.run(
                args + [f"./{path}" for path in batch],
                cwd=root.path,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=SECONDS,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return paths
        if done.returncode not in (0, 1):
            return paths
        possible |= {os.fsdecode(name).removeprefix("./") for name in done.stdout.split(b"\0")}
    return [path for path in paths if path in possible]


def _batches(paths: list[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for path in paths:
        if size > BATCH_CHARS:
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += len(path) + 3
    if batch:
        yield batch


def _ripgrep(root: Root) -> str | None:
    """The program, unless it lies in the project: that is not ours to run."""
    program = shutil.which("rg")
    if program is None or Path(os.path.realpath(program)).is_relative_to(root.path):
        return None
    return program
