"""What failed, read from the output of test programs and linters."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from .detect import Kind

DETAILS = 15
MESSAGE_CHARS = 300


class Failure(msgspec.Struct, frozen=True):
    """One failure: the test's name or the place, the assertion or message, and at most 15 lines around it."""

    name: str
    message: str
    details: tuple[str, ...] = ()


def parse_failures(kind: Kind, output: str) -> list[Failure]:
    """The failures that ``output`` tells of; none if it is not understood.

    parse_failures("lint", "a.py:1:2: F401 unused\\n")   # [Failure("a.py:1:2", "F401 unused")]
    """
    reader = READERS.get(kind)
    return reader(output) if reader is not None else []


def _pytest(output: str) -> list[Failure]:
    found: dict[str, Failure] = {}
    for name, body in _sections(output, re.compile(r"_{3,} (?:ERROR (?:collecting|at \w+ of) )?(.+?) _{3,}")):
        lines = [line for line in body if not re.match(r"[=_-]{3,}", line)]
        marked = [line[1:].strip() for line in lines if re.match(r"E\s", line)]
        message = marked[0] if marked else next((line for line in reversed(lines) if line.strip()), "")
        found[name] = _failure(name, message, lines)
    short = re.findall(r"^(?:FAILED|ERROR) (\S+?)(?: - (.*))?$", output, re.M)
    for place, message in short:
        name = place.rpartition("::")[2]
        known = next((key for key in found if key.rpartition(".")[2] == name or key == place), None)
        if known is not None:
            full = found.pop(known)
            found[place] = _failure(place, full.message, full.details)
        else:
            found.setdefault(place, _failure(place, message, []))
    return list(found.values())


def _unittest(output: str) -> list[Failure]:
    found = []
    for name, body in _sections(output, re.compile(r"(?:FAIL|ERROR): (.+)")):
        lines = [
            line for line in _until(body, re.compile(r"={20,}|Ran \d+ test")) if not re.match(r"-{20,}", line)
        ]
        said = [line for line in lines if re.match(r"\w[\w.]*(?:Error|Exception|Failure|Exit)\b", line)]
        found.append(_failure(name, said[-1] if said else _last(lines), lines))
    return found


def _cargo(output: str) -> list[Failure]:
    found = [
        _failure(name, _panic(body), _until(body, re.compile(r"failures:")))
        for name, body in _sections(output, re.compile(r"---- (\S+) stdout ----"))
    ]
    for error in re.finditer(r"^(error(?:\[E\d+\])?: .+)\n\s*--> (\S+)((?:\n.+)*)", output, re.M):
        found.append(_failure(error[2], error[1], error[3].split("\n")))
    return found


def _panic(body: list[str]) -> str:
    for line, after in zip(body, [*body[1:], ""], strict=True):
        if "panicked at" in line:
            return f"{line.strip()} {after.strip()}".strip()
    return _last(body)


def _go(output: str) -> list[Failure]:
    found = []
    for name, body in _sections(output, re.compile(r"\s*--- FAIL: (\S+).*")):
        lines = _until(body, re.compile(r"(?:FAIL|ok|PASS|exit status)\b"))
        found.append(_failure(name, (lines or [""])[0], lines))
    for place, message in re.findall(r"^(\S+\.go:\d+:\d+): (.+)$", output, re.M):
        found.append(_failure(place, message, []))
    return found


def _node(output: str) -> list[Failure]:
    found = []
    for name, body in _sections(output, re.compile(r"\s*● (.+)")):
        lines = [line for line in body if line.strip()]
        found.append(_failure(name, (lines or [""])[0], lines))
    for name, body in _sections(output, re.compile(r"\s*not ok \d+ -? ?(.+)")):
        lines = _until(body, re.compile(r"\s*(?:\.\.\.|(?:not )?ok \d)"))
        said = next((m[1].strip("'\" ") for line in lines if (m := re.match(r"\s*error: (.+)", line))), "")
        found.append(_failure(name, said or _last(lines), lines))
    for name, body in _sections(output, re.compile(r"\s*FAIL\s+(.+ > .+)")):  # vitest
        lines = [line for line in body if line.strip()]
        found.append(_failure(name, (lines or [""])[0], lines))
    return list({failure.name: failure for failure in found}.values())


def _lint(output: str) -> list[Failure]:
    colons = re.findall(r"^([^\s:()]+:\d+(?::\d+)?): (.+)$", output, re.M)
    parens = re.findall(r"^([^\s:()]+\(\d+,\d+\)): (.+)$", output, re.M)
    return [
        _failure(place, message, []) for place, message in colons + parens if not message.startswith("note:")
    ]


READERS: dict[Kind, Callable[[str], list[Failure]]] = {
    "pytest": _pytest,
    "unittest": _unittest,
    "cargo": _cargo,
    "go": _go,
    "node": _node,
    "lint": _lint,
}


def _sections(output: str, header: re.Pattern[str]) -> list[tuple[str, list[str]]]:
    """The parts of an output that begin with a line that is a header."""
    sections: list[tuple[str, list[str]]] = []
    for line in output.split("\n"):
        if found := header.fullmatch(line.rstrip()):
            sections.append((found[1], []))
        elif re.match(r"={5,} (?:short test summary|\d+ (?:failed|passed|error)|FAILURES|ERRORS)", line):
            sections.append(("", []))
        elif sections:
            sections[-1][1].append(line.rstrip())
    return [(name, body) for name, body in sections if name]


def _until(lines: list[str], end: re.Pattern[str]) -> list[str]:
    return lines[: next((i for i, line in enumerate(lines) if end.match(line)), len(lines))]


def _last(lines: list[str]) -> str:
    return next((line for line in reversed(lines) if line.strip()), "")


def _failure(name: str, message: str, lines: list[str] | tuple[str, ...]) -> Failure:
    kept = [line for line in lines if line.strip()]
    return Failure(
        name, message.strip()[:MESSAGE_CHARS], tuple(line[:MESSAGE_CHARS] for line in kept[-DETAILS:])
    )
