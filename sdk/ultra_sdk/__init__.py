"""Typed async client of an Ultra engine.

async with connect() as engine:
    async with engine.stream("def fib(n):", max_tokens=64) as stream:
        async for text in stream.text:
            print(text, end="")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import Client as Client
    from .client import Options as Options
    from .client import connect as connect
    from .errors import ConnectError as ConnectError
    from .errors import ConnectionLost as ConnectionLost
    from .errors import EngineError as EngineError
    from .errors import EngineFailed as EngineFailed
    from .errors import IdleTimeout as IdleTimeout
    from .errors import InvalidRequest as InvalidRequest
    from .errors import PromptTooLong as PromptTooLong
    from .errors import ProtocolError as ProtocolError
    from .errors import QueueFull as QueueFull
    from .errors import RequestError as RequestError
    from .errors import StreamTruncated as StreamTruncated
    from .errors import Unauthorized as Unauthorized
    from .events import Event as Event
    from .events import Unknown as Unknown
    from .protocol import ChatMessage as ChatMessage
    from .protocol import Delta as Delta
    from .protocol import Done as Done
    from .protocol import Hello as Hello
    from .protocol import Prefill as Prefill
    from .protocol import Queued as Queued
    from .protocol import SampleDone as SampleDone
    from .protocol import Sampling as Sampling
    from .protocol import Timing as Timing
    from .protocol import ToolCall as ToolCall
    from .protocol import ToolSpec as ToolSpec
    from .protocol import Usage as Usage
    from .result import Result as Result
    from .result import Sample as Sample
    from .stream import Stream as Stream
    from .timeout import Timeout as Timeout

_HOMES = {
    "client": ("Client", "Options", "connect"),
    "errors": (
        "ConnectError",
        "ConnectionLost",
        "EngineError",
        "EngineFailed",
        "IdleTimeout",
        "InvalidRequest",
        "PromptTooLong",
        "ProtocolError",
        "QueueFull",
        "RequestError",
        "StreamTruncated",
        "Unauthorized",
    ),
    "events": ("Event", "Unknown"),
    "protocol": (
        "ChatMessage",
        "Delta",
        "Done",
        "Hello",
        "Prefill",
        "Queued",
        "SampleDone",
        "Sampling",
        "Timing",
        "ToolCall",
        "ToolSpec",
        "Usage",
    ),
    "result": ("Result", "Sample"),
    "stream": ("Stream",),
    "timeout": ("Timeout",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import ultra_sdk` itself costs next to nothing."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
