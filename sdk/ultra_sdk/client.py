"""The way in: `connect`, and the `Client` it returns."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec

from .connection import Connection
from .discovery import Target
from .protocol import ChatMessage, Create, Hello, ReasoningEffort, Sampling, ToolCall, ToolChoice, ToolSpec
from .reach import reach
from .result import Result
from .stream import Stream
from .timeout import Timeout

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Unpack

Messages = Sequence[ChatMessage | Mapping[str, Any]]
Tools = Sequence[ToolSpec | Mapping[str, Any]]


class Options(TypedDict, total=False):
    """The keyword arguments of `Client.stream` and `Client.generate`.

    ``messages``, ``raw`` or ``tokens`` replace the prompt. Messages and ``tools`` may be mappings, in our
    form or OpenAI's. Those from ``temperature`` on are fields of `Sampling` and override those of
    ``sampling``; ``stop`` may be one string.
    """

    messages: Messages | None
    raw: str | None
    tokens: Sequence[int] | None
    max_tokens: int | None
    n: int
    logprobs: int
    return_tokens: bool
    tools: Tools
    tool_choice: ToolChoice
    reasoning: ReasoningEffort
    id: str
    timeout: Timeout
    sampling: Sampling
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    seed: int | None
    stop: str | Sequence[str]
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int | str, float]


def connect(
    model: str | None = None,
    *,
    url: str | None = None,
    unix: str | None = None,
    token: str | None = None,
    start: bool = True,
    timeout: Timeout | None = None,
    on_status: Callable[[str], None] | None = None,
) -> Client:
    """A client of the server of ``model``, to be entered with ``async with``.

    ``url`` (``ws://127.0.0.1:PORT``) or ``unix`` (a socket's path) name a server; without a ``token`` it is
    ``ULTRA_TOKEN``'s or that of its runtime file. Otherwise a running one is found through the runtime files:
    that of ``model``, or the newest. If none runs and ``start`` is true, one is started in the background; it
    leaves by itself after 15 idle minutes. ``on_status`` hears, in words, what takes long. Entering raises
    `ConnectError` or `Unauthorized`.
    """
    return Client(Target(model, url, unix, token, start), timeout or Timeout(), on_status)


class Client:
    """A connection to one server, and the requests on it. Made by `connect`.

    If the connection breaks, its requests fail and the next one connects anew; nothing is ever run twice.
    """

    def __init__(
        self, target: Target, timeout: Timeout, on_status: Callable[[str], None] | None = None
    ) -> None:
        self._target = target
        self._timeout = timeout
        self._on_status = on_status
        self._connection: Connection | None = None
        self._entered = False
        self._connecting = asyncio.Lock()
        self._closing: list[Connection] = []

    async def __aenter__(self) -> Client:
        if self._entered:
            raise RuntimeError("this client is already open")
        self._entered = True
        try:
            await self._ready()
        except BaseException:
            self._entered = False
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection; the server cancels what still runs on it. Idempotent."""
        self._entered = False
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    @property
    def info(self) -> Hello:
        """What the server said of itself: model, context, limits, capabilities."""
        if self._connection is None:
            raise RuntimeError("enter the client first: async with connect() as engine")
        return self._connection.hello

    def stream(self, prompt: str | Messages | None = None, **options: Unpack[Options]) -> Stream:
        """A request as a stream of events; nothing is sent before it is entered with ``async with``.

        A string is a question: one user's message, put through the model's chat template as a list of
        messages is. ``raw`` is text that the model continues as it stands.
        """
        timeout = options.get("timeout", self._timeout)
        return Stream(self, build(prompt, options), timeout)

    async def generate(self, prompt: str | Messages | None = None, **options: Unpack[Options]) -> Result:
        """Run a request to its end. Raises any `EngineError`, never returns half an answer."""
        async with self.stream(prompt, **options) as stream:
            return await stream.result()

    async def send_raw(self, data: bytes) -> None:
        """Send one text frame as it is: for experiments with the protocol."""
        await (await self._ready()).send_raw(data)

    async def _ready(self) -> Connection:
        """The connection, made anew if the last one can take no more requests."""
        if not self._entered:
            raise RuntimeError("enter the client first: async with connect() as engine")
        async with self._connecting:
            if self._connection is None or not self._connection.usable:
                old, self._connection = self._connection, None
                if old is not None:
                    await old.close()
                connection = await reach(self._target, self._timeout.connect, self._on_status)
                # Whatever was found first is what a later reconnection must find, or start, again.
                self._target = self._target.pinned(connection)
                self._connection = connection
            return self._connection


_SAMPLING = frozenset(Sampling.__struct_fields__)


def build(prompt: str | Messages | None, options: Options) -> Create:
    """The wire message for these arguments. Raises `TypeError` for an argument that does not exist."""
    values: dict[str, Any] = dict(options)
    values.pop("timeout", None)
    sampling: Sampling = values.pop("sampling", None) or Sampling()
    chosen = {name: values.pop(name) for name in _SAMPLING & values.keys()}
    if "stop" in chosen:
        chosen["stop"] = [chosen["stop"]] if isinstance(chosen["stop"], str) else list(chosen["stop"])
    if "logit_bias" in chosen:
        chosen["logit_bias"] = {str(token): bias for token, bias in chosen["logit_bias"].items()}
    if prompt is not None:
        if values.get("messages") is not None:
            raise TypeError("messages were given twice")
        values["messages"] = [ChatMessage("user", prompt)] if isinstance(prompt, str) else prompt
    if values.get("messages") is not None:
        values["messages"] = [_message(message) for message in values["messages"]]
    if "tools" in values:
        values["tools"] = [_tool(tool) for tool in values["tools"] or ()]
    if values.get("tokens") is not None:
        values["tokens"] = list(values["tokens"])
    values.setdefault("id", secrets.token_hex(8))
    return Create(
        prompt=values.pop("raw", None), sampling=msgspec.structs.replace(sampling, **chosen), **values
    )


def _message(message: ChatMessage | Mapping[str, Any]) -> ChatMessage:
    if isinstance(message, ChatMessage):
        return message
    values = dict(message)
    calls = values.get("tool_calls")
    if calls is not None:
        values["tool_calls"] = [_call(index, call) for index, call in enumerate(calls)]
    return msgspec.convert(values, ChatMessage)


def _call(index: int, call: ToolCall | Mapping[str, Any]) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    values = {"index": index, **call, **call.get("function", {})}
    if isinstance(values.get("arguments"), Mapping):
        values["arguments"] = msgspec.json.encode(values["arguments"]).decode()
    return msgspec.convert(values, ToolCall)


def _tool(tool: ToolSpec | Mapping[str, Any]) -> ToolSpec:
    return tool if isinstance(tool, ToolSpec) else msgspec.convert(dict(tool.get("function", tool)), ToolSpec)
