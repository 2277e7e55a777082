"""The wire, version 1: every message as a msgspec struct. This is the only definition of them.

JSON text frames, one message each, tagged by ``type``. A request id is chosen by the client and is unique
in a session. ``seq`` counts the messages of one request from 1 without gaps; every admitted request ends in
exactly one terminal message, ``done`` or ``failed``. Unknown fields are ignored. Times are milliseconds.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

SUBPROTOCOL = "engine.v1"
PROTOCOL_VERSION = 1

Finish = Literal["stop", "length", "cancelled", "error", "tool_calls"]
"""``tool_calls`` is a ``stop`` after which the model waits for the results of its calls."""

ToolChoice = Literal["auto", "none"]
ReasoningEffort = Literal["auto", "off", "on", "low", "medium", "high"]
"""``auto`` is the model's own default; a model without levels takes all but ``off`` for ``on``."""

ErrorCode = Literal[
    "bad_message",
    "unsupported_version",
    "unauthorized",
    "invalid_request",
    "prompt_too_long",
    "message_too_large",
    "duplicate_id",
    "unknown_id",
    "queue_full",
    "over_capacity",
    "cancelled",
    "deadline_exceeded",
    "slow_consumer",
    "engine_failed",
    "out_of_memory",
    "shutting_down",
]


class Message(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type"):
    """Base of every message: immutable, tagged, defaults left out of the JSON."""


# --- values -----------------------------------------------------------------------------------------


class ToolSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """A function that the model may call; ``parameters`` is a JSON schema of an object."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call of a tool, or a piece of one: the first has ``id`` and ``name``, more ``arguments`` follow.

    Together the arguments are JSON, an object in all but odd cases, whatever form the model wrote them in.
    """

    index: int = 0
    """Which call of its sample this is, from 0."""
    id: str = ""
    name: str = ""
    arguments: str = ""
    error: str = ""
    """Not empty: it is no sound call, and this says why, for the model to read. ``arguments`` is then what
    there is of them, or what the model wrote instead of a call."""

    def parse(self) -> Any:
        """The arguments as a value. Raises `msgspec.DecodeError` if they are no JSON, as after an error."""
        return msgspec.json.decode(self.arguments or "{}")


class ChatMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn of a conversation, as the model's chat template sees it.

    ``tool_calls`` and ``reasoning`` are an assistant's; the result of a call is a turn of role ``tool`` with
    the call's id as ``tool_call_id``. What a template does with the reasoning of earlier turns is its choice.
    """

    role: str
    content: str | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning: str | None = None


class Sampling(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the next token is drawn. The defaults are greedy decoding, unpenalised."""

    temperature: float = 0.0
    """0 is greedy; up to 100."""
    top_p: float = 1.0
    """Nucleus mass, in (0, 1]."""
    top_k: int = 0
    """Keep the k most likely tokens; 0 keeps all."""
    min_p: float = 0.0
    """Drop tokens below this fraction of the most likely one, in [0, 1]."""
    seed: int | None = None
    """Noise is keyed by (seed, position); without one the server draws a seed and reports it."""
    stop: list[str] = []
    """The text ends just before the first of these; none of their bytes is ever sent."""
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: dict[str, float] = {}
    """Token id (as a JSON key) to a number added to its logit."""


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Token counts of one request, all samples together."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


class Timing(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the time of one request went, in milliseconds; rates are for the client to derive."""

    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    ttft_ms: float = 0.0
    decode_ms: float = 0.0
    total_ms: float = 0.0
    load_ms: float = 0.0


class Speculation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Engine steps of one request, and what drafting brought."""

    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    accept_hist: list[int] = []


class Error(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong, for a program (``code``, ``param``) and for a person (``message``)."""

    code: ErrorCode
    message: str
    retryable: bool = False
    retry_after_ms: int | None = None
    param: str | None = None


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the server accepts, published in ``hello`` so that a client can check before it sends."""

    max_message_bytes: int
    max_prompt_tokens: int
    max_queue: int
    max_active: int
    max_n: int


class LogprobRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One generated token: its bytes as text, its id, its log probability, and the likeliest others."""

    token: str
    id: int
    logprob: float
    top: list[tuple[str, int, float]] = []


# --- client to server -------------------------------------------------------------------------------


class Create(Message, frozen=True, tag="create"):
    """Start a request. Exactly one of ``prompt``, ``messages`` and ``tokens`` is given."""

    id: str
    prompt: str | None = None
    messages: list[ChatMessage] | None = None
    tokens: list[int] | None = None
    max_tokens: int | None = None
    """None: up to the end of the context."""
    sampling: Sampling = Sampling()
    n: int = 1
    logprobs: int = 0
    return_tokens: bool = False
    on_disconnect: Literal["cancel", "keep"] = "cancel"
    tools: list[ToolSpec] = []
    """With ``messages`` only: what the model may call."""
    tool_choice: ToolChoice = "auto"
    """``none``: as if there were no tools."""
    reasoning: ReasoningEffort = "auto"
    """How much a reasoning model thinks before it answers, where its template has a say in that."""


class Cancel(Message, frozen=True, tag="cancel"):
    """Stop a request; idempotent, unknown ids are ignored. The terminal message still comes."""

    id: str


class Ping(Message, frozen=True, tag="ping"):
    t: float = 0.0


# --- server to client -------------------------------------------------------------------------------


class Hello(Message, frozen=True, tag="hello"):
    """The first message of a connection."""

    protocol: int
    server: str
    model: str
    session: str
    capabilities: list[str]
    """``tools``: requests may have tools. ``reasoning``: the model thinks before it answers."""
    limits: Limits
    heartbeat_ms: int
    context_tokens: int = 0
    """Positions of the model's context as it is served: prompt and answer together."""


class Queued(Message, frozen=True, tag="queued"):
    id: str
    seq: int
    position: int = 0
    """Requests ahead of this one."""


class Prefill(Message, frozen=True, tag="prefill"):
    """Prompt tokens done so far, of ``total``; ``cached`` of them needed no work."""

    id: str
    seq: int
    done: int
    total: int
    cached: int = 0


class Delta(Message, frozen=True, tag="delta"):
    """What is new of one sample: one engine step or more. ``offset`` is the index of its first token.

    Of what one message says, ``reasoning`` came before ``text``, and that before ``tool_calls``.
    """

    id: str
    seq: int
    sample: int = 0
    offset: int = 0
    text: str = ""
    count: int = 0
    tokens: list[int] | None = None
    logprobs: list[LogprobRow] | None = None
    reasoning: str = ""
    tool_calls: list[ToolCall] = []


class SampleDone(Message, frozen=True, tag="sample_done"):
    id: str
    seq: int
    finish: Finish
    sample: int = 0


class Done(Message, frozen=True, tag="done"):
    """The terminal message of a request that ran; ``finish`` is sample 0's unless it was cancelled."""

    id: str
    seq: int
    finish: Finish
    usage: Usage = Usage()
    timing: Timing = Timing()
    speculation: Speculation = Speculation()
    seed: int = 0


class Failed(Message, frozen=True, tag="failed"):
    """The terminal message of a request that could not run, or could not go on."""

    id: str
    seq: int
    error: Error
    usage: Usage | None = None


class Fault(Message, frozen=True, tag="error"):
    """A fault of the connection, not of one request; ``ref`` quotes the offending id if there is one."""

    error: Error
    ref: str | None = None


class Goaway(Message, frozen=True, tag="goaway"):
    """The server is leaving: running requests have ``drain_ms`` to end, new ones are refused."""

    reason: str
    drain_ms: int = 0


class Pong(Message, frozen=True, tag="pong"):
    t: float = 0.0


ClientMessage = Create | Cancel | Ping
ServerMessage = Hello | Queued | Prefill | Delta | SampleDone | Done | Failed | Fault | Goaway | Pong
Terminal = Done | Failed
