"""The engine's public face and its worker thread.

Two threads: one prepares requests (templates, tokens, checks), so that a bad one is refused before it queues;
one owns the model and runs requests first come, first served. Callers never wait for either.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from .errors import PromptTooLong, RequestError, UltraError
from .face import EngineInfo
from .formats.format import PLAIN, Reading
from .generation import Generation
from .model import LoadProgress, Model
from .request import Done, Failed, Queued, Request, Sink, Stats
from .weights.hub import resolve

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Job:
    """One admitted request."""

    request: Request
    sink: Sink
    submitted: float = field(default_factory=time.monotonic)
    prompt: list[int] = field(default_factory=list)
    reading: Reading = PLAIN
    cancelled: threading.Event = field(default_factory=threading.Event)


class Engine:
    """Serves one model; satisfies `face.EngineFace`. A context manager: leaving it closes it."""

    def __init__(self, model: Model, info: EngineInfo) -> None:
        self.info = info
        self._model = model
        self._jobs: dict[str, _Job] = {}
        self._waiting: deque[_Job] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._prepare_pool = ThreadPoolExecutor(1, thread_name_prefix="ultra-prepare")
        self._worker = threading.Thread(target=self._work, name="ultra-worker", daemon=True)
        self._worker.start()

    @classmethod
    def open(
        cls,
        model: str,
        *,
        context: int | None = None,
        executor: str = "auto",
        precision: str | None = None,
        threads: int | None = None,
        pin: bool = False,
        progress: LoadProgress = lambda done, total: None,
    ) -> Engine:
        """Find (or download), load and serve a model.

        model: a registry name, ``org/name`` on the hub, or a path.
        context: positions, prompt and answer together; None takes the model's, up to `MAX_CONTEXT`.
        executor: "cpu", the compiled machine; "reference"; "auto" takes the machine where it is built.
        precision: of the reference executor, and so a choice of it: "bfloat16", or "float32", the exact
            definition.
        threads: of the processor; None takes all.
        pin: keep each thread of the CPU machine on one processor (Linux alone).
        Raises `ModelError`.
        """
        path = resolve(model)
        loaded = Model.load(
            path,
            context=context,
            executor=executor,
            precision=precision,
            threads=threads,
            pin=pin,
            progress=progress,
        )
        info = EngineInfo(
            model=model,
            family=loaded.config.family,
            executor=loaded.executor,
            context_tokens=loaded.runner.context,
            vocab_size=loaded.tokenizer.vocab_size,
            parameters=loaded.parameters,
            load_ms=loaded.load_ms,
            capabilities=_capabilities(loaded),
        )
        return cls(loaded, info)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- called from any thread ---------------------------------------------------------------------

    def submit(self, request: Request, sink: Sink) -> None:
        """See `EngineFace.submit`."""
        job = _Job(request, sink)
        with self._wake:
            refusal = self._refusal(request)
            if refusal is None:
                self._jobs[request.id] = job
                self._prepare_pool.submit(self._prepare, job)
        if refusal is not None:
            sink(refusal)

    def _refusal(self, request: Request) -> Failed | None:
        if self._closing:
            return Failed("shutting_down", "the engine is shutting down", retryable=True)
        if request.id in self._jobs:
            return Failed("duplicate_id", f"request {request.id!r} is running already", "id")
        if len(self._jobs) >= self.info.max_queue:
            return Failed("queue_full", f"{len(self._jobs)} requests are waiting already", retryable=True)
        return None

    def cancel(self, request_id: str) -> None:
        """See `EngineFace.cancel`."""
        with self._wake:
            job = self._jobs.get(request_id)
            if job is None:
                return
            job.cancelled.set()
            queued = job in self._waiting
            if queued:
                self._waiting.remove(job)
        if queued:
            self._end(job, _cancelled(job))

    def close(self) -> None:
        """See `EngineFace.close`."""
        with self._wake:
            self._closing = True
            waiting = list(self._waiting)
            self._waiting.clear()
            self._wake.notify_all()
        for job in waiting:
            self._end(job, _shutting_down())
        self._prepare_pool.shutdown(wait=True)
        if threading.current_thread() is not self._worker:
            self._worker.join()
        self._model.close()

    # --- the preparing thread -----------------------------------------------------------------------

    def _prepare(self, job: _Job) -> None:
        try:
            job.prompt = self._encode(job.request)
            job.reading = self._model.reading(job.request, job.prompt)
        except UltraError as error:
            self._end(job, Failed(error.code, str(error), getattr(error, "param", None)))
            return
        except Exception as error:  # the request's boundary: it must get its terminal event
            log.exception("preparing a request failed")
            self._end(job, Failed("engine_failed", f"preparing the prompt failed: {type(error).__name__}"))
            return
        with self._wake:
            closing, cancelled = self._closing, job.cancelled.is_set()
            if not closing and not cancelled:
                # Told before the worker can see it, so that no later event overtakes this one.
                job.sink(Queued(len(self._jobs) - 1))
                self._waiting.append(job)
                self._wake.notify_all()
        if closing:
            self._end(job, _shutting_down())
        elif cancelled:
            self._end(job, _cancelled(job))

    def _encode(self, request: Request) -> list[int]:
        """Token ids of the prompt, everything about the request checked."""
        request.sampling.validate(self.info.vocab_size)
        if not 1 <= request.n <= self.info.max_n:
            raise RequestError(f"n must be 1 to {self.info.max_n}, not {request.n}", "n")
        if request.max_tokens is not None and request.max_tokens < 1:
            raise RequestError(f"max_tokens must be at least 1, not {request.max_tokens}", "max_tokens")
        if not 0 <= request.logprobs <= 20:
            raise RequestError(f"logprobs must be 0 to 20, not {request.logprobs}", "logprobs")
        prompt = self._model.encode(request)
        limit = self.info.context_tokens - 1  # room for one token of answer
        if len(prompt) > limit:
            raise PromptTooLong(len(prompt), limit)
        return prompt

    # --- the worker thread --------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._waiting or self._closing)
                if self._closing:
                    return
                job = self._waiting.popleft()
            self._end(job, self._run(job))

    def _run(self, job: _Job) -> Done | Failed:
        seed = job.request.sampling.seed
        generation = Generation(
            job.request,
            job.prompt,
            secrets.randbits(32) if seed is None else seed,
            self._model.tokenizer,
            job.submitted,
            job.reading,
        )
        try:
            done = generation.run(
                self._model.runner, job.sink, lambda: job.cancelled.is_set() or self._closing
            )
        except MemoryError:
            self._model.runner.truncate(0)
            return Failed("out_of_memory", "the engine ran out of memory", stats=generation.stats)
        except Exception as error:  # the request's boundary: it fails, the engine lives
            log.exception("a request failed")
            self._model.runner.truncate(0)
            reason = str(error) if isinstance(error, ArithmeticError) else type(error).__name__
            return Failed("engine_failed", f"the engine failed: {reason}", stats=generation.stats)
        if done.finish == "cancelled" and not job.cancelled.is_set():
            return _shutting_down(done.stats)
        return done

    def _end(self, job: _Job, event: Done | Failed) -> None:
        """The one place that ends a job: exactly one terminal event each."""
        with self._wake:
            ended = self._jobs.pop(job.request.id, None)
        assert ended is job, f"{job.request.id} ended twice"
        try:
            job.sink(event)
        except Exception:  # a sink that breaks its promise must not take the worker with it
            log.exception("the receiver of a request failed")


def _capabilities(model: Model) -> tuple[str, ...]:
    chats = ("tools",) if model.template.source is not None else ()
    return (*chats, "reasoning") if model.format.reasoning else chats


def _cancelled(job: _Job) -> Done:
    waited = (time.monotonic() - job.submitted) * 1000
    return Done("cancelled", Stats(len(job.prompt), queue_ms=waited, total_ms=waited), 0)


def _shutting_down(stats: Stats | None = None) -> Failed:
    return Failed("shutting_down", "the engine is shutting down", retryable=True, stats=stats)
