"""Finding stop strings in streamed text without ever letting a part of one out."""

from __future__ import annotations

from collections.abc import Sequence


class _Match:
    """How much of one stop string the text ends with (Knuth, Morris and Pratt)."""

    def __init__(self, stop: str) -> None:
        self.stop, self.length = stop, 0
        self._borders = [0] * (len(stop) + 1)
        for end in range(1, len(stop)):
            self._borders[end + 1] = self._next(self._borders[end], stop[end])

    def _next(self, length: int, char: str) -> int:
        while length and (length == len(self.stop) or self.stop[length] != char):
            length = self._borders[length]
        return length + (self.stop[length] == char)

    def advance(self, char: str) -> bool:
        """One more character; returns whether the whole string is there now."""
        self.length = self._next(self.length, char)
        return self.length == len(self.stop)


class StopScanner:
    """Feed text to `push`; what it returns is safe to show, and ends just before the first stop string.

    Text that might be the beginning of a stop string is held back until that is settled. Of several stop
    strings the one that begins first in the text counts, so a hit is reported only once none that began
    before it can still complete: the result does not depend on how the text was cut. The cost of a push
    grows with the pushed text, not with what came before.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        assert all(stops), "an empty stop string would stop everything"
        self._matches = [_Match(stop) for stop in dict.fromkeys(stops)]
        self._first = frozenset(stop[0] for stop in stops)
        self._held = ""
        self._hit: int | None = None  # where in the held text the first hit begins

    @property
    def hit(self) -> bool:
        """Whether a stop string was found; also right after `flush`, where the end of the text settles it."""
        return self._hit is not None

    def push(self, text: str) -> tuple[str, bool]:
        """(text that is safe, whether it ends here because of a stop string). After a hit, push no more."""
        if not self._held and self._first.isdisjoint(text):
            return text, False
        start = len(self._held)
        self._held += text
        for end, char in enumerate(text, start + 1):
            for match in self._matches:
                if match.advance(char):
                    self._hit = min(end - match.length, end if self._hit is None else self._hit)
            if self._hit is not None and self._open_from(end) >= self._hit:
                return self._held[: self._hit], True
        return self._release(self._open_from(len(self._held))), False

    def flush(self) -> str:
        """The text ended: what was held back, up to a stop string that is in it."""
        held, self._held = self._held[: self._hit], ""
        return held

    def _open_from(self, end: int) -> int:
        """Where the earliest unfinished match begins; ``end`` if there is none."""
        return end - max((m.length for m in self._matches if m.length < len(m.stop)), default=0)

    def _release(self, cut: int) -> str:
        cut = cut if self._hit is None else min(cut, self._hit)
        safe, self._held = self._held[:cut], self._held[cut:]
        if self._hit is not None:
            self._hit -= cut
        return safe
