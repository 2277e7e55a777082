"""The one clock of the screen: everything that changes fast is drawn when it ticks, nothing in between."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from textual.timer import Timer
from textual.widget import Widget

HZ = 20
SLOW = 0.025
"""Seconds of one frame after which the next tick is left out."""


class Clock:
    """Calls its drawers at 20 Hz while one of them has work; stands still otherwise."""

    def __init__(self, owner: Widget) -> None:
        self._timer: Timer = owner.set_interval(1 / HZ, self._tick, pause=True)
        self._drawers: list[Callable[[], bool]] = []
        self._dirty = False
        self._running = False
        self._rest = 0
        self._due = 0.0  # when the next tick should come
        self.ticks = 0
        """Frames drawn since the start."""

    @property
    def running(self) -> bool:
        """Whether something is still to be drawn."""
        return self._dirty

    def add(self, drawer: Callable[[], bool]) -> None:
        """Call ``drawer`` at each tick; it says whether it needs another one."""
        self._drawers.append(drawer)

    def wake(self) -> None:
        """Something has changed: draw at the next tick."""
        self._dirty = True
        if not self._running:
            self._running = True
            self._due = perf_counter() + 2 / HZ
            self._timer.reset()
            self._timer.resume()

    def _tick(self) -> None:
        if self._rest:
            self._rest -= 1
        elif self._dirty:
            late = perf_counter() - self._due
            self._draw()
            self._rest += late > SLOW  # the screen, which is painted after us, or somebody else is slow
        else:  # not at once after a frame: resuming a timer costs a whole interval
            self._running = False
            self._timer.pause()
        self._due = perf_counter() + 1 / HZ

    def _draw(self) -> None:
        begun = perf_counter()
        self._dirty = False  # a drawer may wake it again
        again = [drawer() for drawer in self._drawers]
        self._dirty = self._dirty or any(again)
        self.ticks += 1
        self._rest = min(HZ, int((perf_counter() - begun) / SLOW))
