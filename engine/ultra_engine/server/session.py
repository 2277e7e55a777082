"""The protocol of one connection, without sockets, tasks or clocks: frames and engine events in, frames and
orders to the engine out.

It keeps the promises of the wire: every request that is admitted ends in exactly one terminal message,
nothing of it comes after, and no fault of one request touches another or the connection.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

import msgspec
from ultra_sdk.protocol import (
    PROTOCOL_VERSION,
    Cancel,
    ClientMessage,
    Create,
    Delta,
    Done,
    Error,
    ErrorCode,
    Failed,
    Fault,
    Goaway,
    Hello,
    Limits,
    Ping,
    Pong,
    Prefill,
    Queued,
)

from ..errors import RequestError
from ..face import EngineInfo
from ..request import Event, Request
from .outbox import Outbox
from .translate import says_nothing, to_code, to_message, to_request

MAX_MESSAGE_BYTES = 8 * 2**20
MAX_ID = 128
HEARTBEAT_SECONDS = 2.0
FINISHED_IDS = 4096
"""How many ended ids a session remembers, to tell a duplicate from a new one."""

_decode = msgspec.json.Decoder(ClientMessage).decode


class _Envelope(msgspec.Struct):
    type: str | None = None
    id: str | None = None


_peek = msgspec.json.Decoder(_Envelope).decode


@dataclass(frozen=True, slots=True)
class Submit:
    """Give this to the engine, and its events to `Session.event` under ``id``."""

    id: str
    request: Request


@dataclass(frozen=True, slots=True)
class Abort:
    """Cancel this in the engine."""

    engine_id: str


Order = Submit | Abort


@dataclass(slots=True)
class _Running:
    engine_id: str
    return_tokens: bool
    status: Queued | Prefill
    spoke: float
    """When its last message was queued, by the caller's clock."""


class Session:
    """One connection. Times are seconds on the caller's clock, which only has to be monotone."""

    def __init__(self, info: EngineInfo, session_id: str, server: str) -> None:
        self.id = session_id
        self.outbox = Outbox()
        self._info = info
        self._running: dict[str, _Running] = {}
        self._finished: set[str] = set()
        self._finished_order: deque[str] = deque()
        self._leaving = False
        self._limits = Limits(
            max_message_bytes=MAX_MESSAGE_BYTES,
            max_prompt_tokens=max(0, info.context_tokens - 1),
            max_queue=info.max_queue,
            max_active=info.max_active,
            max_n=info.max_n,
        )
        self.outbox.put(
            Hello(
                protocol=PROTOCOL_VERSION,
                server=server,
                model=info.model,
                session=session_id,
                capabilities=[],
                limits=self._limits,
                heartbeat_ms=int(HEARTBEAT_SECONDS * 1000),
                context_tokens=info.context_tokens,
            )
        )

    @property
    def running(self) -> int:
        """Requests that have not got their terminal message yet."""
        return len(self._running)

    def receive(self, data: bytes, now: float) -> list[Order]:
        """Take in one frame, whatever it holds."""
        try:
            message = _decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            self._refuse_malformed(data, error)
            return []
        if isinstance(message, Create):
            return self._create(message, now)
        if isinstance(message, Cancel):
            running = self._running.get(message.id)
            return [] if running is None else [Abort(running.engine_id)]
        assert isinstance(message, Ping)
        self.outbox.put(Pong(message.t))
        return []

    def event(self, request_id: str, event: Event, now: float) -> None:
        """Take in an event of a request; after its terminal one, nothing more of it is passed on."""
        running = self._running.get(request_id)
        if running is None:
            return
        message = to_message(event, request_id, running.return_tokens)
        if isinstance(message, Delta) and says_nothing(message):
            return
        running.spoke = now
        if isinstance(message, (Queued, Prefill)):
            running.status = message
        elif isinstance(message, (Done, Failed)):
            self._finish(request_id)
        self.outbox.put(message)

    def heartbeat(self, now: float, silence: float) -> None:
        """Repeat the state of every request that has said nothing for ``silence`` seconds."""
        for running in self._running.values():
            if now - running.spoke >= silence:
                running.spoke = now
                self.outbox.put(running.status)

    def goaway(self, reason: str, drain_ms: int) -> None:
        """Announce that the server leaves, and refuse what comes from now on."""
        self._leaving = True
        self.outbox.put(Goaway(reason, drain_ms))

    def abandon(self, message: str) -> None:
        """End what the engine has left without a terminal event."""
        for request_id in list(self._running):
            self._fail(request_id, "shutting_down", message, retryable=True)

    def disconnect(self) -> list[Order]:
        """The client is gone: stop its requests."""
        orders: list[Order] = [Abort(running.engine_id) for running in self._running.values()]
        self._running.clear()
        return orders

    # --- requests -----------------------------------------------------------------------------------

    def _create(self, create: Create, now: float) -> list[Order]:
        if not self._admit_id(create.id):
            return []
        if self._leaving:
            self._fail(create.id, "shutting_down", "the server is leaving", retryable=True)
            return []
        if len(self._running) >= self._info.max_queue + self._info.max_active:
            self._fail(create.id, "queue_full", "too many requests on this connection", retryable=True)
            return []
        engine_id = f"{self.id}/{create.id}"
        try:
            request = to_request(create, engine_id, self._info)
        except RequestError as error:
            self._fail(create.id, to_code(error.code), str(error), param=error.param)
            return []
        status = Queued(create.id, 0, 0)
        self._running[create.id] = _Running(engine_id, create.return_tokens, status, now)
        return [Submit(create.id, request)]

    def _admit_id(self, request_id: str) -> bool:
        if not 1 <= len(request_id) <= MAX_ID:
            self._fault("bad_message", f"an id has 1 to {MAX_ID} characters", None)
        elif request_id in self._running or request_id in self._finished:
            self._fault("duplicate_id", "this id was used before on this connection", request_id)
        else:
            return True
        return False

    def _fail(
        self,
        request_id: str,
        code: ErrorCode,
        message: str,
        *,
        param: str | None = None,
        retryable: bool = False,
    ) -> None:
        wait = 1000 if code == "queue_full" else None
        self.outbox.put(Failed(request_id, 0, Error(code, message, retryable, wait, param)))
        self._finish(request_id)

    def _finish(self, request_id: str) -> None:
        self._running.pop(request_id, None)
        self._finished.add(request_id)
        self._finished_order.append(request_id)
        if len(self._finished_order) > FINISHED_IDS:
            self._finished.discard(self._finished_order.popleft())

    def _refuse_malformed(self, data: bytes, error: Exception) -> None:
        """A create that can be told apart by its id fails as a request; anything else is a fault."""
        try:
            envelope = _peek(data)
        except (msgspec.DecodeError, RecursionError):
            self._fault("bad_message", f"not a message: {error}", None)
            return
        if envelope.type != "create" or envelope.id is None:
            self._fault("bad_message", str(error), envelope.id)
        elif self._admit_id(envelope.id):
            self._fail(envelope.id, "invalid_request", str(error), param=_path(str(error)))

    def _fault(self, code: ErrorCode, message: str, ref: str | None) -> None:
        self.outbox.put(Fault(Error(code, message), ref))


def _path(error: str) -> str | None:
    """The field that msgspec complains about: it ends its message with "at `$.sampling.seed`"."""
    found = re.search(r"`\$\.?([^`]*)`$", error)
    return found[1].rpartition(".")[2] or None if found else None
