"""What can go wrong for a user of the SDK.

    EngineError
    ├── ConnectError          no server could be reached or started
    ├── ConnectionLost        the connection broke under a running request (partial)
    ├── IdleTimeout           nothing arrived, not even a heartbeat, for `Timeout.idle` seconds (partial)
    ├── ProtocolError         the server broke the protocol
    ├── StreamTruncated       the server closed in order, but the request never ended (partial)
    └── RequestError          the server refused or failed one request (code, retryable, param, request_id)
        ├── InvalidRequest
        ├── PromptTooLong
        ├── QueueFull             (retry_after_ms)
        ├── EngineFailed
        └── Unauthorized

Each can be pickled and carries no token. ``partial`` is the text of sample 0 that had arrived.
"""

from __future__ import annotations

from typing import Any

from .protocol import Error


class EngineError(Exception):
    """Base of every error of this package."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own way calls the class with `args`, which here are not the arguments of __init__.
        return _rebuild, (type(self), self.args, self.__dict__.copy())


def _rebuild(kind: type[EngineError], args: tuple[object, ...], state: dict[str, object]) -> EngineError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class ConnectError(EngineError):
    """No server could be reached or started. The message says what to do."""


class _Interrupted(EngineError):
    def __init__(self, message: str, partial: str = "") -> None:
        super().__init__(message)
        self.partial = partial


class ConnectionLost(_Interrupted):
    """The connection broke under a running request; ``partial`` is what had arrived of sample 0."""


class IdleTimeout(_Interrupted):
    """Nothing arrived for `Timeout.idle` seconds, not even a heartbeat."""


class StreamTruncated(_Interrupted):
    """The server closed the connection in order, but the request never got its terminal message."""


class ProtocolError(EngineError):
    """The server broke the protocol: a gap in ``seq``, a message that cannot be decoded."""


class RequestError(EngineError):
    """The server refused or failed one request. ``code`` is the wire's error code."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "engine_failed",
        retryable: bool = False,
        retry_after_ms: int | None = None,
        param: str | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms
        self.param = param
        self.request_id = request_id


class InvalidRequest(RequestError):
    """A field of the request is out of range; ``param`` names it."""


class PromptTooLong(RequestError):
    """The prompt does not fit into the model's context."""


class QueueFull(RequestError):
    """The server has too much to do; try again after ``retry_after_ms``."""


class EngineFailed(RequestError):
    """The engine could not go on with this request."""


class Unauthorized(RequestError):
    """The server does not accept our token."""


_BY_CODE: dict[str, type[RequestError]] = {
    "invalid_request": InvalidRequest,
    "message_too_large": InvalidRequest,
    "duplicate_id": InvalidRequest,
    "bad_message": InvalidRequest,
    "prompt_too_long": PromptTooLong,
    "queue_full": QueueFull,
    "over_capacity": QueueFull,
    "engine_failed": EngineFailed,
    "out_of_memory": EngineFailed,
    "unauthorized": Unauthorized,
}


def from_wire(error: Error, request_id: str | None) -> RequestError:
    """The exception for an `Error` that the server sent."""
    return _BY_CODE.get(error.code, RequestError)(
        error.message,
        code=error.code,
        retryable=error.retryable,
        retry_after_ms=error.retry_after_ms,
        param=error.param,
        request_id=request_id,
    )
