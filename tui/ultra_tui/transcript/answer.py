"""One streamed answer: fragments in, blocks of the transcript out."""

from __future__ import annotations

from collections.abc import Callable

from ultra_tui.markdown.splitter import Closed, FenceClosed, FenceLine, FenceOpened, Splitter
from ultra_tui.transcript.blocks import Block, CodeBlock, MarkdownBlock

Insert = Callable[[Block], None]
"""Puts a finished block at the end of the answer."""


class Answer:
    """Collects fragments cheaply; ``flush`` turns them into blocks, at most once for each clock tick."""

    def __init__(self, insert: Insert) -> None:
        self._insert = insert
        self._fragments: list[str] = []
        self._source: list[str] = []
        self._splitter = Splitter()
        self._code: CodeBlock | None = None
        self._empty = True

    @property
    def source(self) -> str:
        """The text as the model wrote it."""
        return "".join(self._source)

    @property
    def code(self) -> CodeBlock | None:
        """The code block that is open, if one is."""
        return self._code

    def add(self, text: str) -> None:
        """Take a fragment; nothing is parsed or drawn here."""
        self._fragments.append(text)
        self._source.append(text)

    def flush(self) -> Block | None:
        """Insert what the new fragments closed; return the open block, to be shown after them."""
        text, self._fragments = "".join(self._fragments), []
        self._take(self._splitter.feed(text.replace("\r\n", "\n")))
        if self._code is not None:
            self._code.show_open(self._splitter.tail)
            return None
        tail = self._splitter.tail
        return MarkdownBlock(tail, self._splitter.tail_gap or self._empty) if tail.strip() else None

    def finish(self) -> None:
        """End the answer and insert what was still open."""
        self.flush()
        self._take(self._splitter.finish())

    def _take(self, pieces: list[Closed | FenceOpened | FenceLine | FenceClosed]) -> None:
        for piece in pieces:
            match piece:
                case Closed(source, gap):
                    self._insert(MarkdownBlock(source, gap or self._empty))
                case FenceOpened(language, gap):
                    self._code = CodeBlock(language, gap or self._empty)
                    self._insert(self._code)
                case FenceLine(text):
                    assert self._code is not None, "a line of code outside a code block"
                    self._code.append(text)
                case FenceClosed():
                    if self._code is not None:
                        self._code.show_open("")
                    self._code = None
            self._empty = False
