"""An engine with a script instead of a model, for tests of everything above the engine.

It keeps every promise of `EngineFace`: a worker thread, one terminal event per request, cancel within a step,
stop strings never shown in part. One token is one chunk of the script.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .errors import PromptTooLong, RequestError
from .face import EngineInfo
from .request import (
    CallPiece,
    Delta,
    Done,
    Event,
    Failed,
    Finish,
    Prefill,
    Queued,
    Request,
    SampleDone,
    Sink,
    Stats,
)


@dataclass(frozen=True, slots=True)
class Thought:
    """A chunk of reasoning."""

    text: str


Chunk = str | Thought | CallPiece


@dataclass(frozen=True, slots=True)
class Reply:
    """What to say: each chunk is one token, and one engine step."""

    chunks: Sequence[Chunk] = ("Hello", ", ", "world", ".")
    delay: float = 0.0
    """Seconds before each chunk."""
    prefill: float = 0.0
    """Seconds before the first."""
    fail: Failed | None = None
    """Emit this after the chunks, instead of finishing."""
    crash: bool = False
    """Raise an unforeseen exception after the chunks: the worker must survive it."""


Script = Reply | Callable[[Request], Reply]


@dataclass(slots=True, eq=False)
class _Job:
    request: Request
    sink: Sink
    cancelled: threading.Event = field(default_factory=threading.Event)


class ScriptedEngine:
    """Implements `EngineFace`. A prompt has one token per word."""

    def __init__(
        self, script: Script | None = None, *, context_tokens: int = 4096, max_queue: int = 256
    ) -> None:
        self.requests: list[Request] = []
        """Everything that was submitted, in order."""
        self.cancels: list[str] = []
        """The ids that were cancelled, in order."""
        self._script = script or Reply()
        self._info = EngineInfo(
            model="scripted",
            family="scripted",
            executor="script",
            context_tokens=context_tokens,
            vocab_size=1000,
            parameters=0,
            load_ms=0.0,
            max_queue=max_queue,
            capabilities=("tools", "reasoning"),
        )
        self._jobs: deque[_Job] = deque()
        self._running: _Job | None = None
        self._changed = threading.Condition()
        self._closing = False
        self._worker = threading.Thread(target=self._work, name="scripted engine")
        self._worker.start()

    @property
    def info(self) -> EngineInfo:
        return self._info

    def submit(self, request: Request, sink: Sink) -> None:
        with self._changed:
            self.requests.append(request)
            if self._closing:
                sink(_stopped())
            elif len(self._jobs) >= self._info.max_queue:
                sink(Failed("queue_full", "the queue is full", retryable=True))
            else:
                sink(Queued(len(self._jobs) + (self._running is not None)))
                self._jobs.append(_Job(request, sink))
                self._changed.notify_all()

    def cancel(self, request_id: str) -> None:
        with self._changed:
            self.cancels.append(request_id)
            if self._running is not None and self._running.request.id == request_id:
                self._running.cancelled.set()
            waiting = [job for job in self._jobs if job.request.id == request_id]
            for job in waiting:
                self._jobs.remove(job)
                _finish(job, "cancelled", Stats())

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._running is not None:
            self._running.cancelled.set()
        self._worker.join()

    # --- the worker thread --------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._closing)
                if self._closing:
                    break
                job = self._running = self._jobs.popleft()
            try:
                self._run(job)
            except RequestError as error:
                job.sink(Failed(error.code, str(error), error.param))
            except Exception as error:  # the boundary: whatever happens, the client hears an end
                job.sink(Failed("engine_failed", f"the engine failed: {type(error).__name__}"))
            with self._changed:
                self._running = None
        for job in self._jobs:
            job.sink(_stopped())

    def _run(self, job: _Job) -> None:
        request, started = job.request, time.monotonic()
        request.sampling.validate(self._info.vocab_size)
        prompt_tokens = count_tokens(request)
        if prompt_tokens >= self._info.context_tokens:
            raise PromptTooLong(prompt_tokens, self._info.context_tokens - 1)
        reply = self._script(request) if callable(self._script) else self._script
        chunks, finish = limit(reply.chunks, request, self._info.context_tokens - prompt_tokens)
        job.sink(Prefill(prompt_tokens, prompt_tokens, 0))
        job.cancelled.wait(reply.prefill)
        first = time.monotonic()
        sent = 0
        for offset, chunk in enumerate(chunks):
            if job.cancelled.wait(reply.delay) if reply.delay else job.cancelled.is_set():
                break
            for sample in range(request.n):
                job.sink(_delta(chunk, sample, offset, offset % self._info.vocab_size))
            sent += 1
        now = time.monotonic()
        stats = Stats(
            prompt_tokens=prompt_tokens,
            output_tokens=sent * request.n,
            ttft_ms=(first - started) * 1000,
            decode_ms=(now - first) * 1000,
            total_ms=(now - started) * 1000,
            steps=sent,
        )
        self._end(job, reply, "cancelled" if job.cancelled.is_set() else finish, stats)

    def _end(self, job: _Job, reply: Reply, finish: Finish, stats: Stats) -> None:
        if self._closing:
            job.sink(_stopped())
            return
        if finish != "cancelled":
            if reply.crash:
                raise RuntimeError("scripted crash")
            if reply.fail is not None:
                job.sink(reply.fail)
                return
        _finish(job, finish, stats)


def _finish(job: _Job, finish: Finish, stats: Stats) -> None:
    for sample in range(job.request.n):
        job.sink(SampleDone(sample, finish))
    job.sink(Done(finish, stats, job.request.sampling.seed or 0))


def _delta(chunk: Chunk, sample: int, offset: int, token: int) -> Delta:
    if isinstance(chunk, Thought):
        return Delta(sample, offset, "", (token,), reasoning=chunk.text)
    if isinstance(chunk, CallPiece):
        return Delta(sample, offset, "", (token,), calls=(chunk,))
    return Delta(sample, offset, chunk, (token,))


def count_tokens(request: Request) -> int:
    """The length of the prompt in this engine's tokens: words."""
    if request.tokens is not None:
        return len(request.tokens)
    texts = (
        [request.prompt or ""] if request.messages is None else [m["content"] or "" for m in request.messages]
    )
    return sum(len(text.split()) for text in texts)


def limit(chunks: Sequence[Chunk], request: Request, room: int) -> tuple[list[Chunk], Finish]:
    """The chunks that will be shown, with stop strings and lengths applied, and why they end."""
    most = min(room, request.max_tokens or room)
    shown, finish = list(chunks[:most]), "length" if len(chunks) > most else "stop"
    text = "".join(chunk for chunk in shown if isinstance(chunk, str))
    cut = min((at for stop in request.sampling.stop if (at := text.find(stop)) >= 0), default=None)
    if cut is not None:
        kept: list[Chunk] = []
        for chunk in shown:
            if not isinstance(chunk, str):
                kept.append(chunk)
                continue
            kept.append(chunk[: max(0, cut)])
            cut -= len(chunk)
            if cut < 0:
                break
        return kept, "stop"
    if finish == "stop" and any(isinstance(chunk, CallPiece) for chunk in shown):
        return shown, "tool_calls"
    return shown, "length" if finish == "length" else "stop"


def _stopped() -> Event:
    return Failed("shutting_down", "the server was stopped", retryable=True)
