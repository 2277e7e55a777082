"""One streamed answer: fragments in, blocks of the transcript out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

from ultra_sdk import ToolCall

from ultra_tui.markdown.splitter import Closed, FenceClosed, FenceLine, FenceOpened, Splitter
from ultra_tui.transcript.asides import CallBlock, ThoughtBlock
from ultra_tui.transcript.blocks import Block, CodeBlock, MarkdownBlock

Insert = Callable[[Block], None]
"""Puts a finished block at the end of the answer."""


@dataclass(frozen=True, slots=True)
class _Thought:
    text: str


_Waiting = str | _Thought | ToolCall


class Answer:
    """Collects fragments cheaply; ``flush`` turns them into blocks, at most once for each clock tick."""

    def __init__(self, insert: Insert, expanded: bool = False) -> None:
        """``expanded``: show all of the reasoning."""
        self._insert = insert
        self._expanded = expanded
        self._waiting: list[_Waiting] = []
        self._source: list[str] = []
        self._splitter = Splitter()
        self._code: CodeBlock | None = None
        self._thought: ThoughtBlock | None = None
        self._calls: dict[int, CallBlock] = {}
        self._last: Block | None = None
        self._changed: list[Block] = []

    @property
    def source(self) -> str:
        """The text as the model wrote it, without reasoning and calls."""
        return "".join(self._source)

    @property
    def code(self) -> CodeBlock | None:
        """The code block that is open, if one is."""
        return self._code

    def add(self, text: str) -> None:
        """Take a fragment; nothing is parsed or drawn here."""
        self._waiting.append(text)
        self._source.append(text)

    def think(self, text: str) -> None:
        """Take a fragment of the reasoning."""
        self._waiting.append(_Thought(text))

    def call(self, piece: ToolCall) -> None:
        """Take a piece of a call."""
        self._waiting.append(piece)

    def flush(self) -> Block | None:
        """Insert what the new fragments closed; return the open block, to be shown after them."""
        self._take_waiting()
        if self._code is not None:
            self._code.show_open(self._splitter.tail)
            return None
        tail = self._splitter.tail
        return MarkdownBlock(tail, self._splitter.tail_gap or self._empty) if tail.strip() else None

    def changed(self) -> list[Block]:
        """The inserted blocks whose rows have changed since this was asked last."""
        changed, self._changed = self._changed, []
        return changed

    def finish(self) -> None:
        """End the answer and insert what was still open."""
        self._take_waiting()
        if self._thought is not None:  # without an answer it is all there is
            self._thought.expand(True)
        self._end_thought()
        self._end_text()

    def _take_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for kind, own in groupby(waiting, type):
            if kind is str:
                self._end_thought()
                self._take(self._splitter.feed("".join(map(str, own)).replace("\r\n", "\n")))
            else:
                self._end_text()
                for part in own:
                    self._aside(part)

    def _aside(self, part: _Waiting) -> None:
        """Show what is beside the answer in a block of its own."""
        block: ThoughtBlock | CallBlock | None
        if isinstance(part, _Thought):
            block = self._thought
            if block is None:
                block = self._thought = ThoughtBlock(self._expanded)
                self._show(block)
            block.add(part.text)
        else:
            assert isinstance(part, ToolCall)
            self._end_thought()
            block = self._calls.get(part.index)
            if block is None:
                block = self._calls[part.index] = CallBlock(not isinstance(self._last, CallBlock))
                self._show(block)
            block.add(part)
        self._changed.append(block)

    def _end_thought(self) -> None:
        if self._thought is not None:
            self._thought.close()
            self._changed.append(self._thought)
            self._thought = None

    def _end_text(self) -> None:
        self._take(self._splitter.finish())
        self._splitter = Splitter()

    @property
    def _empty(self) -> bool:
        """Whether no text stands right before what comes."""
        return self._last is None or isinstance(self._last, (ThoughtBlock, CallBlock))

    def _show(self, block: Block) -> None:
        self._insert(block)
        self._last = block

    def _take(self, pieces: list[Closed | FenceOpened | FenceLine | FenceClosed]) -> None:
        for piece in pieces:
            match piece:
                case Closed(source, gap):
                    self._show(MarkdownBlock(source, gap or self._empty))
                case FenceOpened(language, gap):
                    self._code = CodeBlock(language, gap or self._empty)
                    self._show(self._code)
                case FenceLine(text):
                    assert self._code is not None, "a line of code outside a code block"
                    self._code.append(text)
                case FenceClosed():
                    if self._code is not None:
                        self._code.show_open("")
                    self._code = None
