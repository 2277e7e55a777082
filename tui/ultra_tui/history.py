"""What was sent before, walked through without ever losing what is being written."""

from __future__ import annotations


class History:
    """Entries in order; the draft is the text that was there before the walk began."""

    def __init__(self) -> None:
        self._entries: list[str] = []
        self._at: int | None = None
        self._draft = ""

    def add(self, text: str) -> None:
        """Remember a sent text, once if it is sent twice in a row; the walk ends."""
        if not self._entries or self._entries[-1] != text:
            self._entries.append(text)
        self._at = None

    def back(self, current: str) -> str | None:
        """The entry before; None at the first one. ``current`` is kept as the draft when the walk begins."""
        if self._at is None:
            self._draft, self._at = current, len(self._entries)
        if self._at == 0:
            if not self._entries:
                self._at = None
            return None
        self._at -= 1
        return self._entries[self._at]

    def forward(self) -> str | None:
        """The entry after, and the draft after the last one; None when no walk is on."""
        if self._at is None:
            return None
        self._at += 1
        if self._at < len(self._entries):
            return self._entries[self._at]
        self._at = None
        return self._draft
