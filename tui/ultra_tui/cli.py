"""The command ``ultra-chat``."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ultra_tui import __version__

if TYPE_CHECKING:
    from ultra_sdk import Client

    from ultra_tui.agent.dial import AgentDial
    from ultra_tui.link import Dial, EngineLink

INTERRUPTED = 130
MODES = ("read-only", "ask", "auto-edit", "auto")
WRONG_USAGE = 64
DESCRIPTION = "A coding agent in the terminal, driven by a local model; it works in the current folder."
CODES = """exit codes of -p, where a turn of the agent ends:
  0    done: nothing had to be changed, or the project's checks pass after the change
  2    done, but no check shows that it is right
  3    gave up: a limit of steps, tokens, time or repeated failures was reached
  4    something needed a permission that --mode does not give, and nobody could be asked
  5    the engine or the session failed
  64   wrong usage
  130  interrupted
With --chat: 0, or 1 if no answer came."""


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit code, see `CODES`."""
    arguments = _parser().parse_args(argv)
    arguments.chat = arguments.chat or arguments.system is not None
    if arguments.chat and (arguments.mode or arguments.check or arguments.resume is not None):
        _parser().error("--mode, --check and --resume are the agent's; leave out --chat and --system")
    try:
        if arguments.print is not None:
            return _print(arguments)
        if arguments.json:
            _parser().error("--json needs -p")
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            print("ultra-chat: this is no terminal; use -p 'question' for pipes", file=sys.stderr)
            return WRONG_USAGE
        from ultra_tui.guard import supervise

        return supervise(lambda alive: asyncio.run(_full_screen(arguments, alive)))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        from ultra_tui.headless import give_up_stdout

        give_up_stdout()
        return 0


class _Parser(argparse.ArgumentParser):
    """Wrong usage has a code that no turn ends with."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(WRONG_USAGE, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="ultra-chat",
        description=DESCRIPTION,
        epilog=CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("-p", "--print", metavar="TASK", help="do it, print the answer and exit; '-': read it from stdin")
    add("--json", action="store_true", help="with -p: one event a line")
    add("--mode", choices=MODES, help="what the agent may do without asking; ask is the default")
    add(
        "--check", action="append", metavar="COMMAND", help="a command that says whether the project is right"
    )
    add("--resume", nargs="?", const="", metavar="SESSION", help="go on with the last session, or this one")
    add("--chat", action="store_true", help="chat alone: no files, no commands")
    add("--model", metavar="M", help="name, path or hub repository of the model")
    add("--url", metavar="U", help="a running server: ws://host:port or a Unix socket")
    add("--system", metavar="TEXT", help="system prompt of a chat (implies --chat)")
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
        return WRONG_USAGE
    if not arguments.chat:
        from ultra_tui.agent.headless import work_once

        return asyncio.run(work_once(_agent_dial(arguments), question, arguments.json))
    messages = [ChatMessage("system", arguments.system)] if arguments.system else []
    messages.append(ChatMessage("user", question))
    dial = _dialer(arguments.url)
    return asyncio.run(answer_once(dial, arguments.model, messages, _options(arguments), arguments.json))


def _agent_dial(arguments: argparse.Namespace) -> AgentDial:
    from ultra_tui.agent.dial import AgentDial

    return AgentDial(
        _dialer(arguments.url),
        arguments.model,
        Path.cwd(),
        arguments.mode or "ask",
        tuple(arguments.check or ()),
        arguments.resume,
        _options(arguments),
    )


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

    agent = None if arguments.chat else _agent_dial(arguments)
    app = ChatApp(link, _options(arguments), arguments.system, agent)
    avoid_pauses()
    with stderr_guard(), leave_on_signals(app, alive):
        await app.run_async()
    return app.return_code or 0
