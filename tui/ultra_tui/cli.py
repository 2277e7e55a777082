"""The command ``ultra-chat``."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ultra_tui import __version__

if TYPE_CHECKING:
    from ultra_sdk import Client

    from ultra_tui.link import Dial, EngineLink

INTERRUPTED = 130


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, 1 for an error, 2 for wrong usage, 130 when interrupted."""
    arguments = _parser().parse_args(argv)
    try:
        if arguments.print is not None:
            return _print(arguments)
        if arguments.json:
            _parser().error("--json needs -p")
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            print("ultra-chat: this is no terminal; use -p 'question' for pipes", file=sys.stderr)
            return 2
        from ultra_tui.guard import supervise

        return supervise(lambda alive: asyncio.run(_full_screen(arguments, alive)))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        from ultra_tui.headless import give_up_stdout

        give_up_stdout()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ultra-chat", description="Chat with a local coding model in the terminal."
    )
    add = parser.add_argument
    add("-p", "--print", metavar="QUESTION", help="print the answer and exit; '-': read it from stdin")
    add("--json", action="store_true", help="with -p: one event of the protocol a line")
    add("--model", metavar="M", help="name, path or hub repository of the model")
    add("--url", metavar="U", help="a running server: ws://host:port or a Unix socket")
    add("--system", metavar="TEXT", help="system prompt")
    add("--max-tokens", type=_whole(1), metavar="N", help="most tokens of one answer")
    add("--temperature", type=_real, metavar="T", help="0 (the default) is greedy")
    add("--seed", type=_whole(0), metavar="S", help="makes sampling repeatable")
    add("--version", action="version", version=f"ultra-chat {__version__}")
    return parser


def _whole(least: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
        if number < least:
            raise argparse.ArgumentTypeError(f"must be {least} or more")
        return number

    return convert


def _real(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError("must be between 0 and 100")
    return number


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    names = ("max_tokens", "temperature", "seed")
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}


def _dialer(url: str | None) -> Dial:
    """How clients are made: of the server at ``url`` (an address or a socket's path), or of any that runs."""
    from ultra_sdk import connect

    path = url.removeprefix("unix:") if url and url.startswith(("unix:", "/", "./")) else None

    def dial(model: str | None, on_status: Callable[[str], None]) -> Client:
        if path is not None:
            return connect(model, unix=path, on_status=on_status)
        return connect(model, url=url, on_status=on_status)

    return dial


def _print(arguments: argparse.Namespace) -> int:
    from ultra_sdk import ChatMessage

    from ultra_tui.headless import answer_once, gather_question

    question = gather_question(arguments.print, sys.stdin)
    if not question.strip():
        print("ultra-chat: the question is empty", file=sys.stderr)
        return 2
    messages = [ChatMessage("system", arguments.system)] if arguments.system else []
    messages.append(ChatMessage("user", question))
    dial = _dialer(arguments.url)
    return asyncio.run(answer_once(dial, arguments.model, messages, _options(arguments), arguments.json))


async def _full_screen(arguments: argparse.Namespace, alive: int | None) -> int:
    """Download what must be downloaded on the plain terminal, then take the screen."""
    from ultra_sdk import EngineError

    from ultra_tui.link import EngineLink

    link = EngineLink(_dialer(arguments.url), arguments.model)
    opening = link.open()
    await link.fetched.wait()
    if opening.done() and isinstance(error := opening.exception(), EngineError):
        print(f"ultra-chat: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return await _run_app(link, arguments, alive)


async def _run_app(link: EngineLink, arguments: argparse.Namespace, alive: int | None) -> int:
    from ultra_tui.app import ChatApp
    from ultra_tui.exits import leave_on_signals
    from ultra_tui.pauses import avoid_pauses
    from ultra_tui.stderr_guard import stderr_guard

    app = ChatApp(link, _options(arguments), arguments.system)
    avoid_pauses()
    with stderr_guard(), leave_on_signals(app, alive):
        await app.run_async()
    return app.return_code or 0
