"""How far a download is: a bar on a terminal, now and then a line otherwise; always on stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

LINE_SECONDS = 1.0
"""Without a terminal, what is done faster than this says nothing."""


class Meter:
    """Use as a context manager; `update` takes bytes done so far. ``show=False`` makes it silent."""

    def __init__(self, label: str, total: int | None, show: bool = True) -> None:
        self._label, self._total, self._show = label, total, show
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        self._tenths, self._last_line = 0, time.monotonic()

    def __enter__(self) -> Meter:
        if self._show and self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=self._console,
            )
            self._task = self._bar.add_task(self._label, total=self._total)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int) -> None:
        """``done`` bytes of the file are here."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done)
        elif self._show and self._total:
            tenths = min(10, done * 10 // self._total)
            if tenths > self._tenths and time.monotonic() - self._last_line > LINE_SECONDS:
                self._tenths, self._last_line = tenths, time.monotonic()
                print(f"{self._label}: {done / 1e6:.0f} of {self._total / 1e6:.0f} MB", file=sys.stderr)

    def note(self, text: str) -> None:
        """One line beside the bar."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        elif self._show:
            print(text, file=sys.stderr)
