"""Errors in the form ``{"error": {"message", "type", "param", "code"}}``."""

from __future__ import annotations

from typing import Any

from ...request import Failed


class ApiError(Exception):
    """A request that gets an error object instead of an answer."""

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        status: int = 400,
        kind: str = "invalid_request_error",
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.param, self.status, self.kind, self.code = param, status, kind, code

    def body(self) -> dict[str, Any]:
        error = {"message": str(self), "type": self.kind, "param": self.param, "code": self.code}
        return {"error": error}


_STATUS = {
    "invalid_request": 400,
    "prompt_too_long": 400,
    "queue_full": 429,
    "over_capacity": 429,
    "shutting_down": 503,
}
_THEIR_CODE = {"prompt_too_long": "context_length_exceeded"}


def from_event(event: Failed) -> ApiError:
    """The error object for a request that the engine refused or failed."""
    status = _STATUS.get(event.code, 500)
    kind = {400: "invalid_request_error", 429: "rate_limit_error"}.get(status, "server_error")
    code = _THEIR_CODE.get(event.code, event.code)
    return ApiError(event.message, param=event.param, status=status, kind=kind, code=code)
