"""The transcript widget: one `ScrollView` over the blocks of the conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter

from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from ultra_sdk import ToolCall

from ultra_tui.clock import Clock
from ultra_tui.compat import set_virtual_size
from ultra_tui.palette import make_palette
from ultra_tui.transcript.answer import Answer
from ultra_tui.transcript.asides import ThoughtBlock
from ultra_tui.transcript.blocks import Block, Look
from ultra_tui.transcript.layout import Layout
from ultra_tui.transcript.overlay import overlay_chip, overlay_selection, selected_rows

SLICE = 0.008
"""Seconds of one tick that may go into re-rendering what cannot be seen."""


class Transcript(ScrollView, can_focus=False):
    """Blocks in rows. It follows its end until the person scrolls up, and again when they are back there."""

    DEFAULT_CSS = """
    Transcript { height: 1fr; background: $background; overflow-x: hidden;
                 scrollbar-gutter: stable; scrollbar-size-vertical: 1;
                 scrollbar-color: $foreground 20%; scrollbar-color-hover: $foreground 40%;
                 scrollbar-color-active: $primary; scrollbar-background: $background;
                 scrollbar-background-hover: $background; scrollbar-background-active: $background; }
    """

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.record = Layout()
        self.following = True
        """Whether the view stays at the end as lines come."""
        self._clock: Clock | None = None
        self._answer: Answer | None = None
        self._at = 0  # the index at which the open answer inserts
        self._tail: Block | None = None  # its open block, at that index
        self._look: Look | None = None
        self._stale = 0  # blocks below this index may have strips of an older look
        self._thoughts_shown = False
        self._moving = False  # the scroll offset is changed by ourselves
        self._seen = 0  # the row after the last one that was on screen while not following

    # --- content ---

    def attach(self, clock: Clock) -> None:
        """Draw when ``clock`` ticks."""
        self._clock = clock
        clock.add(self.tick)

    def add(self, block: Block) -> None:
        """Append a block; while an answer is open it goes below that."""
        with self._keeping_place():
            self._insert(len(self.record), block)

    def redraw(self, block: Block) -> None:
        """Render a block anew whose content has changed."""
        if self._look is not None and block in self.record.blocks:
            block.forget()
            with self._keeping_place():
                self._freshen(self.record.blocks.index(block))

    def begin_answer(self) -> Answer:
        """Start an answer at the end. One is open at a time."""
        assert self._answer is None, "an answer is open already"
        self._at = len(self.record)
        self._answer = Answer(self._insert_answer_block, self._thoughts_shown)
        return self._answer

    def fragment(self, text: str) -> None:
        """More text of the open answer: cheap, drawn at the next tick."""
        assert self._answer is not None, "no answer is open"
        self._answer.add(text)
        self._wake()

    def thought(self, text: str) -> None:
        """More of what the model thinks; not part of the answer."""
        assert self._answer is not None, "no answer is open"
        self._answer.think(text)
        self._wake()

    def called(self, piece: ToolCall) -> None:
        """A piece of a tool call; not part of the answer either."""
        assert self._answer is not None, "no answer is open"
        self._answer.call(piece)
        self._wake()

    def toggle_thoughts(self) -> None:
        """Show all of the reasoning everywhere, or a line of each again."""
        thoughts = [block for block in self.record.blocks if isinstance(block, ThoughtBlock)]
        self._thoughts_shown = not (self._thoughts_shown or any(block.expanded for block in thoughts))
        for block in thoughts:
            block.expand(self._thoughts_shown)
        with self._keeping_place():
            self._refresh_changed(thoughts)

    def end_answer(self, footer: Block | None = None) -> str:
        """Close the open answer and return its source."""
        assert self._answer is not None, "no answer is open"
        answer = self._answer
        with self._keeping_place():
            self._drop_tail()
            answer.finish()
            self._refresh_changed(answer.changed())
            if footer is not None:
                self._insert_answer_block(footer)
            self._answer = None
        return answer.source

    def clear(self) -> None:
        """Forget everything that was shown."""
        assert self._answer is None, "an answer is open"
        self.record.clear()
        self._stale = 0
        self.following = True
        self._fit()

    # --- drawing ---

    def tick(self) -> bool:
        """Draw what changed since the last tick; True while stale blocks remain to be re-rendered."""
        if self._look is None:
            return False
        with self._keeping_place():
            if self._answer is not None:
                self._flush(self._answer)
            self._refresh_stale()
        return self._stale > 0

    def render_line(self, y: int) -> Strip:
        row = self.scroll_offset.y + y
        if self._look is None or row >= self.record.rows:
            return Strip.blank(self.size.width, self._blank_style())
        strip = self._row(row)
        if strip.cell_length != self.size.width:  # stale: of the width before
            strip = strip.adjust_cell_length(self.size.width, self._look[1].text)
        if self.text_selection is not None:
            strip = overlay_selection(strip, self.text_selection.get_span(row), self._look[1])
        unseen = self.unseen
        if unseen and y == self.size.height - 1:
            strip = overlay_chip(strip, unseen, self._look)
        return strip.apply_offsets(0, row)

    def _row(self, row: int) -> Strip:
        index, offset = self.record.locate(row)
        strips = self.record.blocks[index].kept
        return strips[offset] if offset < len(strips) else Strip.blank(self.size.width, self._blank_style())

    @property
    def unseen(self) -> int:
        """Rows that came below while the view was held."""
        return 0 if self.following else max(0, self.record.rows - self._seen)

    def _blank_style(self) -> Style:
        return self._look[1].text if self._look is not None else self.rich_style

    def _flush(self, answer: Answer) -> None:
        code = answer.code
        self._drop_tail()
        tail = answer.flush()
        self._refresh_changed(answer.changed())
        if tail is not None:
            self._insert(self._at, tail)
            self._tail = tail
        if answer.code is not None and answer.code is code:
            self._measure(self._at - 1)
        elif code is not None:
            self._measure(self.record.blocks.index(code))

    def _refresh_changed(self, blocks: Sequence[Block]) -> None:
        """Render blocks anew that have other rows now."""
        if self._look is not None:
            for block in dict.fromkeys(blocks):
                self._freshen(self.record.blocks.index(block))

    def _drop_tail(self) -> None:
        if self._tail is not None:
            self.record.remove(self._at)
            self._tail = None
            if self._at < self._stale:
                self._stale -= 1

    def _insert_answer_block(self, block: Block) -> None:
        if self._at > 0:
            self._measure(self._at - 1)
        self._insert(self._at, block)
        self._at += 1

    def _insert(self, index: int, block: Block) -> None:
        height = len(block.strips(self._look)) if self._look is not None else 0
        self.record.insert(index, block, height)
        if index < self._stale:
            self._stale += 1

    def _measure(self, index: int) -> None:
        if self._look is not None:
            block = self.record.blocks[index]
            if block.is_fresh(self._look):
                self.record.set_height(index, len(block.kept))

    # --- look ---

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._restyle())

    def on_resize(self, event: events.Resize) -> None:
        self._restyle()

    def _restyle(self) -> None:
        """Render the visible part anew for the present width and theme; the rest follows tick by tick."""
        if self.size.width < 1:
            return
        look = (self.size.width, make_palette(self.app.get_css_variables()))
        if look != self._look:
            place = self._place()
            self._look = look
            self._stale = len(self.record)
            self._settle(place)
            self._wake()
        else:
            self._fit()

    def _refresh_stale(self) -> None:
        """Re-render blocks of an older look, the last ones first, for one time slice."""
        end = perf_counter() + SLICE
        while self._stale > 0 and perf_counter() < end:
            self._stale -= 1
            self._freshen(self._stale)

    def _freshen(self, index: int) -> bool:
        assert self._look is not None
        strips = self.record.blocks[index].strips(self._look)
        return self.record.set_height(index, len(strips))

    def _settle(self, place: tuple[Block, int] | None) -> None:
        """Freshen the blocks on screen and scroll to ``place`` (None: the end)."""
        if place is None:
            index, need = len(self.record) - 1, self.size.height
            while index >= 0 and need > 0:
                self._freshen(index)
                need -= len(self.record.blocks[index].kept)
                index -= 1
        else:
            index, need = self.record.blocks.index(place[0]), self.size.height + place[1]
            while index < len(self.record) and need > 0:
                self._freshen(index)
                need -= len(self.record.blocks[index].kept)
                index += 1
        self._fit(place)

    # --- scrolling ---

    @contextmanager
    def _keeping_place(self) -> Iterator[None]:
        """Change blocks, then show the end if the view follows it, or else the same rows as before."""
        place, rows = self._place(), self.record.rows
        yield
        if rows == self.record.rows and self.virtual_size.height == rows:
            self._fit(place, moved=False)
        else:
            self._fit(place)

    def _place(self) -> tuple[Block, int] | None:
        """The block at the top of the view and the offset of the first visible row in it."""
        row = self.scroll_offset.y
        if self.following or row >= self.record.rows:
            return None
        index, offset = self.record.locate(row)
        return self.record.blocks[index], offset

    def _fit(self, place: tuple[Block, int] | None = None, moved: bool = True) -> None:
        if moved:
            self._moving = True
            try:
                self._scroll_to_place(place)
            finally:
                self._moving = False
        self.refresh()

    def _scroll_to_place(self, place: tuple[Block, int] | None) -> None:
        rows = self.record.rows
        set_virtual_size(self, Size(self.size.width, rows))
        if place is None:
            top = max(0, rows - self.size.height) if self.following else self.scroll_offset.y
        elif place[0] in self.record.blocks:
            index = self.record.blocks.index(place[0])
            height = len(place[0].kept)
            top = self.record.start(index) + min(place[1], max(0, height - 1))
        else:  # the block was the tail and has been replaced: the row stays
            top = self.scroll_offset.y
        self.scroll_to(y=top, animate=False, immediate=True, force=True)

    def follow(self) -> None:
        """Go to the end and stay there."""
        self.following = True
        self._settle(None)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._moving:
            if new_value < old_value and new_value < self.max_scroll_y:
                self.following = False
            elif new_value >= self.max_scroll_y:
                self.following = True
            if self._stale and self._look is not None:
                self._settle(self._place())
        bottom = round(new_value) + self.size.height
        self._seen = bottom if self.following else max(self._seen, bottom)

    def on_click(self, event: events.Click) -> None:
        if self.unseen and event.y == self.size.height - 1:
            self.follow()

    def _wake(self) -> None:
        if self._clock is not None:
            self._clock.wake()

    # --- selection ---

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        rows = range(self.record.rows)
        return "\n".join(selected_rows(selection, [self._row(row) for row in rows])), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()
