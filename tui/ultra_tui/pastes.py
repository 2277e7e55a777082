"""Long pasted texts, shown in the prompt as one short mark each."""

from __future__ import annotations

LONG_LINES = 10
LONG_CHARACTERS = 1000


class Pastes:
    """The texts behind the marks of a prompt. A mark stands for its text wherever it is found whole."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def mark(self, text: str) -> str:
        """Keep ``text`` and return the mark that stands for it."""
        lines = text.count("\n") + 1
        name = f"Pasted {lines:,} lines" if lines > 1 else f"Pasted {len(text):,} characters"
        mark, number = f"[{name}]", 1
        while self._texts.get(mark, text) != text:
            number += 1
            mark = f"[{name} #{number}]"
        self._texts[mark] = text
        return mark

    def expand(self, shown: str) -> str:
        """The text with every mark replaced by what it stands for, once."""
        parts = [(shown, False)]
        for mark, text in self._texts.items():
            parts = [new for part, done in parts for new in _replace(part, done, mark, text)]
        return "".join(part for part, _ in parts)

    def shown(self, text: str) -> str:
        """How a sent text looks in the prompt: the pastes in it as their marks again."""
        for mark, paste in sorted(self._texts.items(), key=lambda item: -len(item[1])):
            text = text.replace(paste, mark)
        return text

    def ending_at(self, line: str, column: int) -> int | None:
        """Where the mark begins of which ``column`` is the end or an inner place; None if there is none."""
        for mark in self._texts:
            start = line.find(mark)
            while start >= 0:
                if start < column <= start + len(mark):
                    return start
                start = line.find(mark, start + 1)
        return None

    def length_at(self, line: str, column: int) -> int:
        """The length of the mark that begins at ``column``."""
        return max((len(mark) for mark in self._texts if line.startswith(mark, column)), default=0)


def is_long(text: str) -> bool:
    """Whether a pasted text is better shown as a mark."""
    return text.count("\n") >= LONG_LINES or len(text) > LONG_CHARACTERS


def _replace(part: str, done: bool, mark: str, text: str) -> list[tuple[str, bool]]:
    """Pieces of ``part``; what was put in for a mark is never searched again."""
    if done or mark not in part:
        return [(part, done)]
    pieces: list[tuple[str, bool]] = []
    for index, piece in enumerate(part.split(mark)):
        if index:
            pieces.append((text, True))
        pieces.append((piece, False))
    return pieces
