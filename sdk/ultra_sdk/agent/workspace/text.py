"""A text file as it lies on the disk: encoding, byte-order mark and every line's own ending are kept.

The content is seen with ``\\n`` alone. New content is laid over the old one line by line, so that lines which
stay keep their endings, and only what was touched differs in bytes.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
UNKNOWN = "unknown 8-bit"
"""Bytes that are not UTF-8 and say nothing about themselves: each is shown as one character, and kept."""
DECLARED = re.compile(rb"coding[:=][ \t]*([-\w.]+)")
HIGH = re.compile(r"[^\x00-\x7f]+")
MAX_ALIGNMENT = 4_000_000
"""Old times new lines above which only lines that are unique are looked for."""


class Undecodable(ValueError):
    """The bytes are no text that could be written back unchanged."""


class Unencodable(ValueError):
    """The new content has characters which the file's encoding has not, or is not known to have."""


@dataclass(frozen=True, slots=True)
class Text:
    """Decoded content and how to write it back.

    text = Text.decode(b"a\\r\\nb\\n")
    text.with_content("a\\nB\\n").encode()   # b"a\\r\\nB\\n"
    """

    content: str = ""
    ends: tuple[str, ...] = ()
    """The ending of each line; the last is empty if the file does not end in one."""
    encoding: str = "utf-8"
    bom: bytes = b""

    @classmethod
    def decode(cls, data: bytes) -> Text:
        """Raises `Undecodable` for binary data."""
        bom, encoding = next(((b, e) for b, e in BOMS if data.startswith(b)), (b"", ""))
        body = data[len(bom) :]
        if not bom and b"\0" in data:
            raise Undecodable("is binary")
        encoding = encoding or _encoding(body)
        codec = "latin-1" if encoding == UNKNOWN else encoding
        try:
            raw = body.decode(codec)
            exact = raw.encode(codec) == body
        except UnicodeError:
            exact = False
        if not exact:
            raise Undecodable(f"is not valid {encoding}")
        lines, ends = _split(raw)
        content = "".join(line + ("\n" if end else "") for line, end in zip(lines, ends, strict=True))
        return cls(content, tuple(ends), encoding, bom)

    def encode(self) -> bytes:
        """The bytes of the file."""
        lines = self.lines
        raw = "".join(line + end for line, end in zip(lines, self.ends, strict=True))
        return self.bom + raw.encode("latin-1" if self.encoding == UNKNOWN else self.encoding)

    @property
    def lines(self) -> list[str]:
        """The lines without their endings."""
        return split_lines(self.content)

    @property
    def newline(self) -> str:
        """The ending that most lines have."""
        counts = Counter(end for end in self.ends if end)
        return counts.most_common(1)[0][0] if counts else "\n"

    def with_content(self, content: str) -> Text:
        """The same file with new content, its lines ending in ``\\n`` (`unified`). Raises `Unencodable`."""
        self._check(content)
        return Text(content, tuple(self._ends(split_lines(content), content)), self.encoding, self.bom)

    def _check(self, content: str) -> None:
        if self.encoding == UNKNOWN:
            # What is copied from the file is right in whatever encoding it has; anything else is a guess.
            strange = set(HIGH.findall(content)) - set(HIGH.findall(self.content))
            if strange:
                raise Unencodable(f"its encoding is not known, so {min(strange)!r} cannot be written into it")
            return
        try:
            content.encode(self.encoding)
        except UnicodeEncodeError as error:
            bad = content[error.start]
            raise Unencodable(f"{self.encoding} has no character {bad!r} (U+{ord(bad):04X})") from None

    def _ends(self, lines: list[str], content: str) -> list[str]:
        ends = [""] * len(lines)
        for new, old in _aligned(self.lines, lines).items():
            ends[new] = self.ends[old]
        for i, end in enumerate(ends):
            ends[i] = end or (ends[i - 1] if i else self.newline)
        if lines and not content.endswith("\n"):
            ends[-1] = ""
        return ends


def unified(written: str) -> str:
    """Text as a model or a person wrote it, with ``\\n`` as its only line ending and no byte-order mark."""
    return written.removeprefix("\ufeff").replace("\r\n", "\n")


def split_lines(content: str) -> list[str]:
    """The lines of content whose only line ending is ``\\n``."""
    lines = content.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def _encoding(body: bytes) -> str:
    try:
        body.decode("utf-8")
        return "utf-8"
    except UnicodeDecodeError:
        pass
    for line in body.split(b"\n", 2)[:2]:
        if found := DECLARED.search(line):
            name = found[1].decode("ascii", "replace")
            try:
                if body.decode(name).encode(name) == body:
                    return codecs.lookup(name).name
            except (LookupError, UnicodeError):
                continue
    return UNKNOWN


def _split(raw: str) -> tuple[list[str], list[str]]:
    if "\n" not in raw and "\r" in raw:
        lines = raw.split("\r")
        ends = ["\r"] * len(lines)
    else:
        lines = raw.split("\n")
        ends = ["\r\n" if line.endswith("\r") else "\n" for line in lines]
        lines[:-1] = [line.removesuffix("\r") for line in lines[:-1]]
    ends[-1] = ""
    if lines[-1] == "":
        lines.pop()
        ends.pop()
    return lines, ends


def _aligned(old: list[str], new: list[str]) -> dict[int, int]:
    """For lines of ``new``, the line of ``old`` that stands in its place."""
    pairs: dict[int, int] = {}
    marks = _anchors(old, new) if len(old) * len(new) > MAX_ALIGNMENT else []
    a = c = 0
    for b, d in [*marks, (len(old), len(new))]:
        pairs |= {c + j: a + i for j, i in _between(old[a:b], new[c:d]).items()}
        if b < len(old):
            pairs[d] = b
        a, c = b + 1, d + 1
    return pairs


def _between(old: list[str], new: list[str]) -> dict[int, int]:
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    rest = shorter - head
    tail = next((i for i in range(rest) if old[-1 - i] != new[-1 - i]), rest)
    pairs = {i: i for i in range(head)}
    pairs |= {len(new) - 1 - i: len(old) - 1 - i for i in range(tail)}
    before, after = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(before) * len(after) > MAX_ALIGNMENT:
        return pairs | {head + i: head + i for i in range(min(len(before), len(after)))}
    for _, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        pairs |= {head + c + i: head + a + i for i in range(min(b - a, d - c))}
    return pairs


def _anchors(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """Lines that are in both texts once, in the longest run that has the same order in both."""
    counts = Counter(old)
    where = {line: i for i, line in enumerate(old) if counts[line] == 1}
    counts = Counter(new)
    common = [(where[line], i) for i, line in enumerate(new) if counts[line] == 1 and line in where]
    tops: list[int] = []
    chains: list[tuple[tuple[int, int], Any]] = []
    for pair in common:
        at = bisect_left(tops, pair[0])
        chain = (pair, chains[at - 1] if at else None)
        tops[at : at + 1], chains[at : at + 1] = [pair[0]], [chain]
    run, link = [], chains[-1] if chains else None
    while link is not None:
        run.append(link[0])
        link = link[1]
    return run[::-1]
