"""``ultra-chat -p``: one question, its answer on stdout as it comes, nothing else there."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any, TextIO, cast

import msgspec
from ultra_sdk import ChatMessage, Delta, Done, EngineError, RequestError
from ultra_sdk.protocol import Error, ErrorCode, Failed

from ultra_tui.link import Dial

INTERRUPTED = 130


def gather_question(question: str, stdin: TextIO) -> str:
    """The question with what is piped in: ``-`` is replaced by it, otherwise it follows as context."""
    if question == "-":
        return stdin.read()
    if stdin.isatty():
        return question
    context = stdin.read()
    return f"{question}\n\n{context}" if context.strip() else question


async def answer_once(
    dial: Dial, model: str | None, messages: list[ChatMessage], options: Mapping[str, Any], as_json: bool
) -> int:
    """Ask, and print the answer or, with ``as_json``, one event a line. Returns the exit code."""
    task = asyncio.current_task()
    assert task is not None, "runs in a task"
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
    printer = _Printer(as_json)
    try:
        async with dial(model, _status) as client, client.stream(messages=messages, **options) as stream:
            _status("")
            async for event in stream:
                printer.event(event)
    except asyncio.CancelledError:
        printer.end()
        return INTERRUPTED
    except EngineError as error:
        if isinstance(error, RequestError):
            printer.failed(error)
        printer.end()
        _status("")
        print(f"ultra-chat: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    printer.end()
    return 0


class _Printer:
    """Writes events to stdout, each at once."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self._open_line = False
        self._seq = 0

    def event(self, event: object) -> None:
        self._seq = getattr(event, "seq", self._seq)
        if self._json:
            self._write(msgspec.json.encode(event).decode() + "\n")
        elif isinstance(event, Delta) and event.text and event.sample == 0:
            self._write(event.text)
        elif isinstance(event, Done) and event.finish == "length" and sys.stderr.isatty():
            print("\nultra-chat: the answer was cut at its limit of tokens", file=sys.stderr)

    def failed(self, error: RequestError) -> None:
        """The terminal message of a request that failed, as the server sent it."""
        if self._json:
            what = Error(
                cast(ErrorCode, error.code),
                str(error),
                retryable=error.retryable,
                retry_after_ms=error.retry_after_ms,
                param=error.param,
            )
            self.event(Failed(error.request_id or "", self._seq + 1, what))

    def end(self) -> None:
        """End the last line: a text without a line feed would stick to the shell's prompt."""
        if self._open_line:
            self._write("\n")

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self._open_line = not text.endswith("\n")


def _status(text: str) -> None:
    """One line on stderr that replaces itself, if a person is watching."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def give_up_stdout() -> None:
    """The reader has left: let nothing complain about it at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
