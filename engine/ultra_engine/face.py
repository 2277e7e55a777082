"""What the server needs of an engine: `Engine` is the real one, `testing.ScriptedEngine` for tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .request import Request, Sink


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What is being served, for ``hello`` and ``/info``."""

    model: str
    family: str
    executor: str
    context_tokens: int
    vocab_size: int
    parameters: int
    load_ms: float
    max_queue: int = 256
    max_active: int = 1
    max_n: int = 16
    capabilities: tuple[str, ...] = ()
    """See `Hello` on the wire."""


class EngineFace(Protocol):
    """Thread-safe; no method blocks on the model."""

    @property
    def info(self) -> EngineInfo: ...

    def submit(self, request: Request, sink: Sink) -> None:
        """Queue a request. Its events reach ``sink`` in order, on an engine thread or the caller's, and end
        in exactly one `Done` or `Failed`. A bad request (sampling out of range, a prompt that is empty or too
        long) fails in the same way: submit itself does not raise."""
        ...

    def cancel(self, request_id: str) -> None:
        """Stop a request, queued or running; unknown ids are ignored. The terminal event still comes."""
        ...

    def close(self) -> None:
        """Fail what is queued and running with ``shutting_down``, join the worker."""
        ...
