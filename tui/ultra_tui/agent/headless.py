"""``ultra-chat -p``: one turn of the agent; its answer on stdout, what it does on stderr."""

from __future__ import annotations

import asyncio
import signal
import sys

import msgspec
from ultra_sdk import EngineError
from ultra_sdk.agent import (
    AgentError,
    Approval,
    Event,
    Finished,
    PermissionAsked,
    TextDelta,
)
from ultra_sdk.agent.redact import Redactor
from ultra_sdk.agent.truncate import clean

from ultra_tui.agent.dial import AgentDial
from ultra_tui.agent.lines import ending, line

VERIFIED, UNVERIFIED, GAVE_UP, PERMISSION, FAILED, INTERRUPTED = 0, 2, 3, 4, 5, 130
ANSWERS: dict[str, Approval] = {"y": "allow", "yes": "allow", "a": "always", "always": "always"}
SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def work_once(dial: AgentDial, task: str, as_json: bool) -> int:
    """Run one turn and print it. Returns the exit code."""
    printer = _Printer(as_json, Redactor.of(dial.root))
    ends = None
    running = asyncio.current_task()
    assert running is not None, "runs in a task"
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, running.cancel)
    try:
        async with dial.dial(dial.model, _status) as engine:
            _status("")
            async with dial.agent(engine, _ask if _person() else None) as agent:
                turn = agent.turn(task)
                for number in SIGNALS:
                    loop.add_signal_handler(number, turn.cancel)
                async for event in turn:
                    printer.event(event)
                    ends = event if isinstance(event, Finished) else ends
                printer.end(agent.session)
    except asyncio.CancelledError:
        return INTERRUPTED
    except (EngineError, AgentError) as error:
        _status("")
        print(f"ultra-chat: {' '.join(str(error).split())}", file=sys.stderr)
        return FAILED
    return exit_code(ends)


def exit_code(ends: Finished | None) -> int:
    """The code that a turn ends with."""
    if ends is None:
        return FAILED
    if ends.reason == "done":
        return UNVERIFIED if ends.verified is False else VERIFIED
    return {"gave_up": GAVE_UP, "permission": PERMISSION, "failed": FAILED, "cancelled": INTERRUPTED}[
        ends.reason
    ]


class _Printer:
    """Writes events. On a terminal the model's words come as it says them, else the answer alone."""

    def __init__(self, as_json: bool, redactor: Redactor) -> None:
        self._json = as_json
        self._live = sys.stdout.isatty()
        self._open = False
        self._redactor = redactor

    def event(self, event: Event) -> None:
        if self._json:
            _out(msgspec.json.encode(_redacted(msgspec.to_builtins(event), self._redactor)).decode() + "\n")
        elif isinstance(event, TextDelta):
            if self._live:
                _out(clean(event.text))
                self._open = not event.text.endswith("\n")
        elif isinstance(event, Finished):
            self._finish(event)
        elif (said := line(event)) is not None:
            self._close()
            print(said[0], file=sys.stderr, flush=True)

    def end(self, session: str) -> None:
        """The last word: how to go on."""
        if not self._json and sys.stderr.isatty():
            print(f"go on with: ultra-chat --resume {session}", file=sys.stderr)

    def _finish(self, event: Finished) -> None:
        self._close()
        if not self._live and event.summary:
            _out(clean(event.summary) + "\n")
        print(ending(event)[0], file=sys.stderr, flush=True)

    def _close(self) -> None:
        if self._open:
            _out("\n")
        self._open = False


def _redacted(value: object, redactor: Redactor) -> object:
    """What is printed as JSON ends in logs: keys and the values of env files are replaced."""
    if isinstance(value, str):
        return redactor.redact(value)
    if isinstance(value, dict):
        return {key: _redacted(item, redactor) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(item, redactor) for item in value]
    return value


def _person() -> bool:
    """Whether somebody can be asked: there is a terminal to read from and one to write to."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def _ask(request: PermissionAsked) -> Approval:
    """Ask on the terminal. Only a word that says yes allows anything."""
    if request.diff:
        print(clean(request.diff), file=sys.stderr, end="")
    print(f"{clean(request.question)} [y]es, [a]lways, [n]o: ", file=sys.stderr, end="", flush=True)
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[str] = loop.create_future()

    def take() -> None:
        if not answered.done():
            answered.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin.fileno(), take)
    try:
        return ANSWERS.get((await answered).strip().lower(), "deny")
    finally:
        loop.remove_reader(sys.stdin.fileno())


def _out(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _status(text: str) -> None:
    """One line on stderr that replaces itself, if a person is watching."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
