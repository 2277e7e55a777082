"""Orderly leaving on the signals that would kill the app with the terminal in its modes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from textual.app import App

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def leave_on_signals(app: App[Any], alive: int | None) -> Iterator[None]:
    """While open, SIGTERM, SIGHUP and the end of ``alive`` (a pipe from the parent) make the app exit."""
    loop = asyncio.get_running_loop()

    def leave(number: int) -> None:
        app.exit(return_code=128 + number)

    def orphaned(pipe: int) -> None:
        loop.remove_reader(pipe)
        leave(signal.SIGHUP)

    for number in SIGNALS:
        loop.add_signal_handler(number, leave, number)
    if alive is not None:
        loop.add_reader(alive, orphaned, alive)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        if alive is not None:
            loop.remove_reader(alive)
