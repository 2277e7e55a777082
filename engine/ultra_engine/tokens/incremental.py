"""Token ids to text as they come: whole characters only."""

from __future__ import annotations

import codecs
from collections.abc import Mapping

from .vocabulary import Prefix, Vocabulary

_utf8 = codecs.getincrementaldecoder("utf-8")


class IncrementalDecoder:
    """Feed ids to `push`, then `flush` once; the joined text is what decoding all ids at once gives.

    A character that is still incomplete is held back. Bytes that are no UTF-8 become U+FFFD, as in
    ``bytes.decode("utf-8", "replace")`` of the whole. The cost of a push does not depend on what came before.
    """

    def __init__(
        self, vocabulary: Vocabulary, *, skip_special: bool = True, shown: Mapping[int, str] | None = None
    ) -> None:
        """``shown``: ids that give a text of their own, hidden or not."""
        self._pieces = vocabulary.pieces
        self._hidden = vocabulary.hidden if skip_special else frozenset()
        self._decoder = _utf8("replace")
        self._shown = shown or {}
        self._prefix = vocabulary.prefix
        self._held = ""  # a first space of which we do not know yet whether the tokenizer added it

    def push(self, id: int) -> str:
        """The text that became complete with this token, often empty. Unknown and special ids give none."""
        if id in self._shown:
            return self.flush() + self._shown[id]
        if id in self._hidden or not 0 <= id < len(self._pieces):
            return ""
        text = self._decoder.decode(self._pieces[id])
        return text if self._prefix is Prefix.NONE or not text else self._without_prefix(text)

    def flush(self) -> str:
        """What is left, with U+FFFD for an incomplete character; the decoder is then as new."""
        text = self._decoder.decode(b"", final=True)
        if text and self._prefix is not Prefix.NONE:
            text = self._without_prefix(text)
        self._held = ""
        self._decoder.reset()
        return text

    def _without_prefix(self, text: str) -> str:
        """Called until the first space is settled, hardly ever more than once."""
        if self._prefix is Prefix.ALWAYS:
            self._prefix = Prefix.NONE
            return text.removeprefix(" ")
        text, self._held = self._held + text, ""
        if text == " ":
            self._held = text
            return ""
        self._prefix = Prefix.NONE
        return text if text.startswith("  ") else text.removeprefix(" ")
