"""A server with a script instead of a model: for tests of programs that use this SDK.

    with FakeEngine(["Hello", Answer(["never ", "ends"], then="hang")]) as fake:
        async with connect(unix=fake.unix, token=fake.token) as engine: ...
        assert fake.creates[0].prompt == "hi"

It speaks the real protocol on a real Unix socket, from a thread of its own, so it serves programs in this
process and, through ``fake.env``, in others. ``async with`` works too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from websockets.asyncio.server import Server, ServerConnection, unix_serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from .protocol import (
    PROTOCOL_VERSION,
    SUBPROTOCOL,
    Cancel,
    ClientMessage,
    Create,
    Delta,
    Done,
    Error,
    Failed,
    Finish,
    Hello,
    Limits,
    Ping,
    Pong,
    Prefill,
    Queued,
    SampleDone,
    ServerMessage,
    Timing,
    ToolCall,
    Usage,
)
from .protocol.runtime import RuntimeInfo, write_info

if TYPE_CHECKING:
    from types import TracebackType

MAX_MESSAGE_BYTES = 2**23

Ending = Literal["done", "hang", "silent", "drop", "close"]
HEARTBEAT_SECONDS = 1.0


class Thought(msgspec.Struct, frozen=True):
    """A chunk of reasoning."""

    text: str


Chunk = str | Thought | ToolCall


class Answer(msgspec.Struct, frozen=True):
    """What to say to one request: each chunk is one delta of one token.

    Answer([Thought("Let me see."), "I read it.", ToolCall(0, "c1", "read", '{"path": "a.py"}')])
    """

    chunks: Sequence[Chunk] = ()
    delay: float = 0.0
    """Seconds before each chunk."""
    error: Error | None = None
    """Fail with this after the chunks."""
    then: Ending = "done"
    """After the chunks: finish; send only heartbeats until cancelled; send nothing at all, whatever happens;
    break the connection; close it in order."""
    finish: Finish | None = None
    """None: ``tool_calls`` if one of the chunks is a sound call, ``stop`` otherwise."""
    prompt_tokens: int = 8
    position: int = 0
    """The place in the queue that is reported first."""


Script = str | Answer | Sequence[str | Answer] | Callable[[Create], str | Answer]


class FakeEngine:
    """Answers the n-th request with the n-th entry of ``script``, and every later one with the last entry.

    A string is an answer cut into words. A callable gets each `Create` and returns its answer.
    """

    def __init__(self, script: Script = "Hello.", *, model: str = "fake", context_tokens: int = 4096) -> None:
        self.model = model
        self.token = secrets.token_urlsafe(32)
        self.creates: list[Create] = []
        """Every request so far, in order."""
        self.cancels: list[str] = []
        """The ids of the requests that a client asked to cancel."""
        self.context_tokens = context_tokens
        self._script = script
        self._folder = Path(tempfile.mkdtemp(prefix="ultra-fake-"))
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._server: Server | None = None
        self._ready = threading.Event()

    @property
    def unix(self) -> str:
        """The socket to `connect` to."""
        return str(self._folder / "fake.sock")

    @property
    def env(self) -> dict[str, str]:
        """Environment in which `connect()` without arguments finds this server."""
        return {"ULTRA_RUNTIME_DIR": str(self._folder)}

    def __enter__(self) -> FakeEngine:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="fake engine")
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None and self._stop is not None and self._thread is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def __aenter__(self) -> FakeEngine:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, value, trace)

    def drop(self) -> None:
        """Break every connection, as a crash would."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._abort)

    def _abort(self) -> None:
        assert self._server is not None
        for connection in self._server.connections:
            connection.transport.abort()

    def answer(self, create: Create) -> Answer:
        """The answer to the request that was just recorded."""
        script = self._script
        if callable(script):
            chosen = script(create)
        elif isinstance(script, (str, Answer)):
            chosen = script
        else:
            chosen = script[min(len(self.creates), len(script)) - 1]
        return Answer(_words(chosen)) if isinstance(chosen, str) else chosen

    # --- the server's own thread --------------------------------------------------------------------

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with unix_serve(
            self._connected,
            self.unix,
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            compression=None,
            max_size=MAX_MESSAGE_BYTES,
            process_request=self._admit,
            close_timeout=1,
        ) as self._server:
            write_info(self._info(), self._folder)
            self._ready.set()
            await self._stop.wait()

    def _info(self) -> RuntimeInfo:
        return RuntimeInfo(
            pid=os.getpid(),
            token=self.token,
            model=self.model,
            name=self.model,
            protocol=PROTOCOL_VERSION,
            server="fake",
            started=time.time(),
            unix=self.unix,
        )

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.headers.get("Authorization") == f"Bearer {self.token}":
            return None
        return connection.respond(HTTPStatus.UNAUTHORIZED, "unauthorized\n")

    def _hello(self) -> Hello:
        limits = Limits(MAX_MESSAGE_BYTES, self.context_tokens - 1, 256, 64, 64)
        return Hello(
            protocol=PROTOCOL_VERSION,
            server="fake",
            model=self.model,
            session=secrets.token_hex(8),
            capabilities=["tools", "reasoning"],
            limits=limits,
            heartbeat_ms=2000,
            context_tokens=self.context_tokens,
        )

    async def _connected(self, socket: ServerConnection) -> None:
        from websockets.exceptions import ConnectionClosed

        running: dict[str, _Run] = {}
        tasks: set[asyncio.Task[None]] = set()
        try:
            await _send(socket, self._hello())
            async for data in socket:
                message: ClientMessage = msgspec.json.decode(data, type=ClientMessage)
                if isinstance(message, Create):
                    self.creates.append(message)
                    run = running[message.id] = _Run(socket, message, self.answer(message))
                    tasks.add(asyncio.create_task(run.play()))
                elif isinstance(message, Cancel):
                    self.cancels.append(message.id)
                    if message.id in running:
                        running[message.id].cancelled.set()
                elif isinstance(message, Ping):
                    await _send(socket, Pong(message.t))
        except ConnectionClosed:
            pass
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class _Run:
    """One request being answered."""

    def __init__(self, socket: ServerConnection, create: Create, answer: Answer) -> None:
        self.cancelled = asyncio.Event()
        self._socket = socket
        self._create = create
        self._answer = answer
        self._seq = 0
        self._sent = 0
        self._started = time.monotonic()
        self._first: float | None = None

    async def play(self) -> None:
        create, answer = self._create, self._answer
        await self._say(Queued, position=answer.position)
        await self._say(Prefill, done=answer.prompt_tokens, total=answer.prompt_tokens)
        for index, chunk in enumerate(answer.chunks):
            if await self._pause(answer.delay):
                return await self._end("cancelled")
            if create.max_tokens is not None and index >= create.max_tokens:
                return await self._end("length")
            self._first = self._first or time.monotonic()
            for sample in range(create.n):
                await self._say(Delta, sample=sample, offset=index, count=1, **_part(chunk))
            self._sent += 1
        if answer.error is not None:
            await self._say(Failed, error=answer.error)
        elif answer.then == "done":
            calls = any(isinstance(chunk, ToolCall) and not chunk.error for chunk in answer.chunks)
            await self._end(answer.finish or ("tool_calls" if calls else "stop"))
        elif answer.then == "drop":
            self._socket.transport.abort()
        elif answer.then == "close":
            await self._socket.close()
        elif answer.then == "hang":
            while not await self._pause(HEARTBEAT_SECONDS):
                await self._say(Prefill, done=answer.prompt_tokens, total=answer.prompt_tokens)
            await self._end("cancelled")

    async def _pause(self, seconds: float) -> bool:
        """Sleep, and say whether the request has been cancelled."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.cancelled.wait()
        return self.cancelled.is_set()

    async def _end(self, finish: Finish) -> None:
        now = time.monotonic()
        for sample in range(self._create.n):
            await self._say(SampleDone, sample=sample, finish=finish)
        first = self._first or now
        await self._say(
            Done,
            finish=finish,
            usage=Usage(self._answer.prompt_tokens, 0, self._sent * self._create.n),
            timing=Timing(
                ttft_ms=(first - self._started) * 1000,
                decode_ms=(now - first) * 1000,
                total_ms=(now - self._started) * 1000,
            ),
            seed=self._create.sampling.seed or 0,
        )

    async def _say(self, kind: Callable[..., ServerMessage], **fields: Any) -> None:
        self._seq += 1
        await _send(self._socket, kind(id=self._create.id, seq=self._seq, **fields))


async def _send(socket: ServerConnection, message: ServerMessage) -> None:
    await socket.send(msgspec.json.encode(message), text=True)


def _part(chunk: Chunk) -> dict[str, Any]:
    """The field of a delta in which a chunk is sent."""
    if isinstance(chunk, Thought):
        return {"reasoning": chunk.text}
    return {"tool_calls": [chunk]} if isinstance(chunk, ToolCall) else {"text": chunk}


def _words(text: str) -> list[Chunk]:
    """The pieces of ``text``, each with the white space before it: joined they are ``text`` again."""
    pieces: list[Chunk] = []
    for word in text.split(" "):
        pieces.append(f" {word}" if pieces else word)
    return pieces
