"""`ultra serve`: one model, one server."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

from ultra_sdk.protocol.runtime import DEFAULT_MODEL

from ..errors import ServerError


def add(subparsers: Any) -> None:
    """Add the subcommand to the parser of `ultra`."""
    parser = subparsers.add_parser("serve", help="serve a model to the clients of this machine")
    parser.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        metavar="MODEL",
        help="a name, org/name on the hub, a file, or a folder (default: %(default)s)",
    )
    parser.add_argument(
        "--tcp",
        nargs="?",
        type=_port,
        const=0,
        metavar="PORT",
        help="listen on 127.0.0.1 instead of a Unix socket (no port: any free one)",
    )
    parser.add_argument(
        "--openai",
        nargs="?",
        type=_port,
        const=8080,
        metavar="PORT",
        help="also serve OpenAI's HTTP API on 127.0.0.1 (no port: 8080)",
    )
    parser.add_argument(
        "--token",
        type=_secret,
        default=os.environ.get("ULTRA_TOKEN"),
        help="the clients' key instead of a random one (better: in ULTRA_TOKEN, which ps does not show)",
    )
    parser.add_argument(
        "--idle-exit", type=_positive, metavar="SECONDS", help="leave after so long without clients"
    )
    parser.add_argument("--context", type=_count, metavar="N", help="positions of the context")
    parser.add_argument(
        "--executor",
        choices=("auto", "cpu", "reference"),
        default="auto",
        help="cpu: the compiled machine; reference: PyTorch; auto: cpu where it is built (default)",
    )
    parser.add_argument(
        "--precision",
        choices=("bfloat16", "float32"),
        help="run the reference executor: bfloat16 is faster, float32 is exact",
    )
    parser.add_argument("--threads", type=_count, metavar="N", help="threads of the processor to use")
    parser.add_argument(
        "--pin", action="store_true", help="keep each thread on one processor (Linux; also ULTRA_PIN=1)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until stopped. Raises `UltraError` for what is the user's to mend."""
    from ..server.claim import Claim

    signal.signal(signal.SIGTERM, _terminated)  # while the model loads; later the server has its own
    if args.openai is not None:
        _require_openai()
    with Claim(args.model, args.tcp, openai_port=args.openai, token=args.token) as claim:
        # PyTorch's threads spin while they wait for each other; when another program takes a core, they spin
        # for it, and everything slows down three- to eightfold. Read once, when torch is loaded.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        # Imported with the claim in hand: a second server is refused before it loads torch.
        from ..engine import Engine

        with _loading(args.model) as progress:
            engine = Engine.open(
                args.model,
                context=args.context,
                executor=args.executor,
                precision=args.precision,
                threads=args.threads,
                pin=args.pin,
                progress=progress,
            )
        asyncio.run(_serve(engine, claim, args.idle_exit))
    return 0


@contextlib.contextmanager
def _loading(model: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr while the weights are loaded, where somebody looks."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"loading {model}", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _terminated(number: int, frame: object) -> None:
    raise SystemExit(128 + number)  # unwinds, so the claim is cleaned up


async def _serve(engine: Any, claim: Any, idle_exit: float | None) -> None:
    from ..server.server import Server

    server = Server(engine, claim, idle_exit=idle_exit)
    server.handle_signals()

    def ready() -> None:
        print(f"serving {engine.info.model} on {claim.place}", flush=True)
        if claim.http is not None:
            port = claim.http.getsockname()[1]
            print(f"OpenAI's API is on http://127.0.0.1:{port}/v1, its key in {claim.file}", flush=True)

    await server.run(ready)


def _require_openai() -> None:
    if any(importlib.util.find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise ServerError("OpenAI's API is not installed here: pip install 'ultra-chat[openai]'")


def _secret(text: str) -> str:
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise argparse.ArgumentTypeError("printable ASCII without spaces")
    return text


def _port(text: str) -> int:
    return _integer(text, 0, 65535)


def _count(text: str) -> int:
    return _integer(text, 1, 2**31)


def _integer(text: str, low: int, high: int) -> int:
    if not (text.isascii() and text.isdecimal() and low <= int(text) <= high):
        raise argparse.ArgumentTypeError(f"an integer from {low} to {high}, not {text!r}")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"a number of seconds above 0, not {text!r}")
    return value
