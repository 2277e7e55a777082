"""One running request."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from .connection import Connection
from .errors import EngineError, IdleTimeout, ProtocolError, RequestError, _Interrupted, from_wire
from .events import Event
from .mailbox import Mailbox
from .protocol import (
    Cancel,
    Create,
    Delta,
    Done,
    Failed,
    Finish,
    LogprobRow,
    SampleDone,
    ToolCall,
    merge_calls,
)
from .result import Result, Sample
from .timeout import Timeout

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from .client import Client

LEAVE_SECONDS = 2.0
"""How long leaving ``async with`` early waits for the server to confirm the cancel."""


class _SampleSoFar:
    """Text as a list of pieces: joined once, not re-added for every delta."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.thoughts: list[str] = []
        self.calls: list[ToolCall] = []
        self.count = 0
        self.tokens: list[int] = []
        self.logprobs: list[LogprobRow] = []
        self.finish: Finish | None = None

    def add(self, delta: Delta) -> None:
        self.pieces.append(delta.text)
        if delta.reasoning:
            self.thoughts.append(delta.reasoning)
        self.calls += delta.tool_calls
        self.count += delta.count
        self.tokens += delta.tokens or ()
        self.logprobs += delta.logprobs or ()

    def text(self) -> str:
        self.pieces = ["".join(self.pieces)]
        return self.pieces[0]

    def tool_calls(self) -> list[ToolCall]:
        self.calls = merge_calls(self.calls)
        return list(self.calls)

    def summed_up(self, finish: Finish) -> Sample:
        calls = self.tool_calls()
        return Sample(
            text=self.text(),
            finish=self.finish or finish,
            token_count=self.count,
            tokens=self.tokens,
            logprobs=self.logprobs,
            reasoning="".join(self.thoughts),
            tool_calls=[call for call in calls if not call.error],
            broken_calls=[call for call in calls if call.error],
        )


class Stream:
    """One request, as an async context manager and an async iterator of events. Made by `Client.stream`.

    Entering sends the request; leaving early cancels it. Iteration ends after `Done`; a `Failed` is raised
    as `RequestError`. No event is lost when ``__anext__`` is cancelled.
    """

    def __init__(self, client: Client, create: Create, timeout: Timeout) -> None:
        self.id = create.id
        self._client = client
        self._create = create
        self._timeout = timeout
        self._deadline: float | None = None
        self._connection: Connection | None = None
        self._mailbox: Mailbox | None = None
        self._samples = [_SampleSoFar() for _ in range(max(1, create.n))]
        self._done: Done | None = None
        self._error: EngineError | None = None

    async def __aenter__(self) -> Stream:
        if self._connection is not None:
            raise RuntimeError("this stream was already started: call stream() again for another one")
        if self._timeout.total is not None:
            self._deadline = asyncio.get_running_loop().time() + self._timeout.total
        connection = await self._client._ready()
        self._mailbox = connection.register(self.id)
        self._connection = connection
        try:
            await connection.send(self._create)
        except BaseException:
            connection.forget(self.id)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Event:
        if self._error is not None:
            raise self._error
        if self._done is not None:
            raise StopAsyncIteration
        if self._mailbox is None:
            raise RuntimeError("enter the stream first: async with engine.stream(...) as stream")
        if self._overdue():
            raise self._fail(self._late(deadline=True))
        if not self._mailbox.ready():
            await self._wait(self._mailbox)
        return self._take(self._mailbox)

    @property
    def text(self) -> TextStream:
        """The answer of sample 0 as it comes: ``async for piece in stream.text``. No reasoning, no calls."""
        return TextStream(self)

    @property
    def reasoning(self) -> ReasoningStream:
        """What sample 0 thinks, as it comes; reading this takes the answer off the stream as well."""
        return ReasoningStream(self)

    def text_so_far(self, sample: int = 0) -> str:
        """The text of a sample that has been read from this stream."""
        return self._samples[sample].text()

    def reasoning_so_far(self, sample: int = 0) -> str:
        """The same of its reasoning."""
        return "".join(self._samples[sample].thoughts)

    def tool_calls_so_far(self, sample: int = 0) -> list[ToolCall]:
        """The same of its calls: the last one may lack the end of its arguments."""
        return self._samples[sample].tool_calls()

    async def result(self) -> Result:
        """Read to the end and sum up. Raises whatever ended the request short of its terminal message."""
        async for _ in self:
            pass
        done = self._done
        assert done is not None, "iteration ends without an exception only after Done"
        samples = [sample.summed_up(done.finish) for sample in self._samples]
        return Result(self.id, samples, done.finish, done.usage, done.timing, done.speculation, done.seed)

    async def cancel(self) -> None:
        """Ask the server to stop, from any task; the stream then ends with ``finish == "cancelled"``."""
        if self._connection is not None and self._mailbox is not None and not self._mailbox.ended:
            await self._connection.send(Cancel(self.id))

    async def aclose(self) -> None:
        """Stop the request if it still runs, and forget it. Waits `LEAVE_SECONDS` at most; idempotent."""
        connection, mailbox = self._connection, self._mailbox
        if connection is None or mailbox is None:
            return
        try:
            if not mailbox.ended:
                with contextlib.suppress(EngineError, TimeoutError, StopAsyncIteration):
                    async with asyncio.timeout(LEAVE_SECONDS):
                        await self.cancel()
                        while not mailbox.ended:
                            await mailbox.wait()
                            self._take(mailbox)
        finally:
            connection.forget(self.id)
            mailbox.fail(RequestError("the stream was closed", code="cancelled", request_id=self.id))

    # --- receiving ----------------------------------------------------------------------------------

    async def _wait(self, mailbox: Mailbox) -> None:
        now = asyncio.get_running_loop().time()
        left = None if self._deadline is None else self._deadline - now
        idle = self._timeout.idle
        limit = min((seconds for seconds in (idle, left) if seconds is not None), default=None)
        try:
            async with asyncio.timeout(limit):
                await mailbox.wait()
        except TimeoutError as error:
            raise self._fail(self._late(limit == left)) from error

    def _overdue(self) -> bool:
        """Whether the deadline has passed with more to come; events that wait are no reason to go on."""
        if self._deadline is None or self._mailbox is None or self._mailbox.ended:
            return False
        return asyncio.get_running_loop().time() >= self._deadline

    def _late(self, deadline: bool) -> EngineError:
        if deadline:
            message = f"the request did not end within {self._timeout.total:g} s"
            return RequestError(message, code="deadline_exceeded", request_id=self.id)
        return IdleTimeout(f"nothing arrived for {self._timeout.idle:g} s")

    def _take(self, mailbox: Mailbox) -> Event:
        try:
            message = mailbox.pop()
        except EngineError as error:
            raise self._fail(error) from None
        if message is None:
            raise StopAsyncIteration
        if isinstance(message, Failed):
            raise self._fail(from_wire(message.error, self.id))
        if isinstance(message, Delta):
            self._sample(message.sample).add(message)
        elif isinstance(message, SampleDone):
            self._sample(message.sample).finish = message.finish
        elif isinstance(message, Done):
            self._done = message
        return message

    def _sample(self, index: int) -> _SampleSoFar:
        if not 0 <= index < len(self._samples):
            raise self._fail(ProtocolError(f"request {self.id}: there is no sample {index}"))
        return self._samples[index]

    def _fail(self, error: EngineError) -> EngineError:
        if isinstance(error, _Interrupted):
            error.partial = self.text_so_far()
        self._error = error
        return error


class TextStream:
    """The answer of sample 0, piece by piece."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while True:
            event = await self._stream.__anext__()
            if isinstance(event, Delta) and event.sample == 0 and (piece := self._piece(event)):
                return piece

    def _piece(self, delta: Delta) -> str:
        return delta.text


class ReasoningStream(TextStream):
    """The reasoning of sample 0, piece by piece."""

    def _piece(self, delta: Delta) -> str:
        return delta.reasoning
