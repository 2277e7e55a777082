from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ultra_engine import request as engine
from ultra_engine.face import EngineInfo
from ultra_engine.server.session import FINISHED_IDS, Abort, Order, Session, Submit
from ultra_sdk.protocol import (
    Cancel,
    ChatMessage,
    Create,
    Delta,
    Done,
    Failed,
    Fault,
    Goaway,
    Hello,
    Ping,
    Pong,
    Prefill,
    Queued,
    SampleDone,
    Sampling,
    ServerMessage,
    ToolCall,
    ToolSpec,
)

INFO = EngineInfo("m", "llama", "reference", 512, 1000, 0, 0.0, max_queue=4, max_active=1, max_n=8)
NUMBERED = (Queued, Prefill, Delta, SampleDone, Done, Failed)


class Client:
    """A session, and all that it has said."""

    def __init__(self) -> None:
        self.session = Session(INFO, "s1", "test")
        self.heard: list[ServerMessage] = []
        self.now = 0.0

    def say(self, message: Any) -> list[Order]:
        data = message if isinstance(message, bytes) else msgspec.json.encode(message)
        return self.session.receive(data, self.now)

    def hear(self) -> list[ServerMessage]:
        new = [msgspec.json.decode(data, type=ServerMessage) for data in self.session.outbox.flush()]
        self.heard += new
        return new


@pytest.fixture
def client() -> Iterator[Client]:
    client = Client()
    [hello] = client.hear()
    assert isinstance(hello, Hello)
    yield client


def test_the_first_message_is_hello_with_the_limits() -> None:
    [hello] = Client().hear()
    assert isinstance(hello, Hello)
    assert (hello.protocol, hello.model, hello.context_tokens, hello.capabilities) == (1, "m", 512, [])
    assert (hello.limits.max_prompt_tokens, hello.limits.max_n) == (511, 8)


def test_a_create_becomes_an_engine_request_under_an_id_of_this_session(client: Client) -> None:
    sampling = Sampling(temperature=0.5, stop=["x"], logit_bias={"7": 1.5}, seed=3)
    [order] = client.say(Create("a", prompt="hi", max_tokens=5, n=2, sampling=sampling))
    assert isinstance(order, Submit) and order.id == "a"
    want = engine.SamplingParams(temperature=0.5, stop=("x",), logit_bias={7: 1.5}, seed=3)
    assert order.request == engine.Request("s1/a", "hi", max_tokens=5, n=2, sampling=want)
    assert client.hear() == []


def test_messages_reach_the_template_as_plain_dicts(client: Client) -> None:
    frame = {"type": "create", "id": "a", "messages": [{"role": "user", "content": "hi"}]}
    [order] = client.say(json.dumps(frame).encode())
    assert isinstance(order, Submit) and order.request.messages == [{"role": "user", "content": "hi"}]


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "prompt"),
    ({"prompt": "x", "tokens": [1]}, "prompt"),
    ({"prompt": "x", "messages": []}, "prompt"),
    ({"prompt": ""}, "prompt"),
    ({"messages": []}, "messages"),
    ({"tokens": []}, "tokens"),
    ({"tokens": [5, 1000]}, "tokens"),
    ({"tokens": [-1]}, "tokens"),
    ({"prompt": "x", "n": 0}, "n"),
    ({"prompt": "x", "n": 9}, "n"),
    ({"prompt": "x", "n": 10**30}, "n"),
    ({"prompt": "x", "max_tokens": 0}, "max_tokens"),
    ({"prompt": "x", "max_tokens": "x"}, "max_tokens"),
    ({"prompt": "x", "logprobs": -1}, "logprobs"),
    ({"prompt": "x", "logprobs": 21}, "logprobs"),
    ({"prompt": "x", "on_disconnect": "keep"}, "on_disconnect"),
    ({"prompt": "x", "on_disconnect": "other"}, "on_disconnect"),
    ({"prompt": "x", "sampling": {"temperature": -0.1}}, "temperature"),
    ({"prompt": "x", "sampling": {"temperature": "hot"}}, "temperature"),
    ({"prompt": "x", "sampling": {"temperature": True}}, "temperature"),
    ({"prompt": "x", "sampling": {"top_p": 0}}, "top_p"),
    ({"prompt": "x", "sampling": {"seed": -1}}, "seed"),
    ({"prompt": "x", "sampling": {"stop": [""]}}, "stop"),
    ({"prompt": "x", "sampling": {"logit_bias": {"x": 1}}}, "logit_bias"),
    ({"prompt": "x", "sampling": {"logit_bias": {"1000": 1}}}, "logit_bias"),
    ({"prompt": "x", "sampling": {"logit_bias": {"-1": 1}}}, "logit_bias"),
    ({"prompt": "x", "tools": [{"name": "f"}]}, "tools"),
    ({"messages": [{"role": "user"}], "tools": [{"name": "f"}, {"name": "f"}]}, "tools"),
    ({"messages": [{"role": "user"}], "tools": [{"name": "a b"}]}, "tools"),
    ({"messages": [{"role": "user"}], "tools": [{"name": "x" * 200}]}, "tools"),
    ({"messages": [{"role": "user"}], "tool_choice": "required"}, "tool_choice"),
    ({"messages": [{"role": "user"}], "reasoning": "extreme"}, "reasoning"),
    ({"prompt": "x", "sampling": {"logit_bias": {"٣": 1}}}, "logit_bias"),
]


@pytest.mark.parametrize(("fields", "param"), BAD)
def test_an_invalid_create_fails_by_name_without_reaching_the_engine(
    client: Client, fields: dict[str, Any], param: str
) -> None:
    assert client.say(json.dumps({"type": "create", "id": "a", **fields}).encode()) == []
    [failed] = client.hear()
    assert isinstance(failed, Failed) and (failed.id, failed.seq) == ("a", 1)
    assert (failed.error.code, failed.error.param) == ("invalid_request", param)
    assert client.say(Create("b", prompt="x")), "the connection lives on"


@pytest.mark.parametrize("number", [b"1e999", b"-1e999"])
def test_an_infinite_temperature_is_refused(client: Client, number: bytes) -> None:
    frame = b'{"type":"create","id":"a","prompt":"x","sampling":{"temperature":%s}}' % number
    assert client.say(frame) == []
    [message] = client.hear()
    assert isinstance(message, (Failed, Fault))


NONSENSE = [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"type":"create"}', b'{"id":"a"}', b"[" * 100_000]
NONSENSE += [
    b'{"type":"attach","id":"a"}',
    b'{"type":7}',
    b'{"type":"cancel","id":[]}',
    b'{"type":"create","id":""}',
]
NONSENSE += [
    b'{"type":"create","id":"%s","prompt":"x"}' % (b"a" * 129),
    b'{"type":"create","id":"a","prompt":NaN}',
]


@pytest.mark.parametrize("frame", NONSENSE)
def test_nonsense_gets_an_error_and_the_connection_lives(client: Client, frame: bytes) -> None:
    assert client.say(frame) == []
    [fault] = client.hear()
    assert isinstance(fault, Fault) and fault.error.code == "bad_message"
    client.say(Ping(1.5))
    assert client.hear() == [Pong(1.5)]


def test_an_unknown_type_is_answered_with_a_reference(client: Client) -> None:
    client.say(b'{"type":"attach","id":"a","offsets":[0]}')
    [fault] = client.hear()
    assert isinstance(fault, Fault) and fault.ref == "a"


def test_an_id_is_good_for_one_request(client: Client) -> None:
    assert client.say(Create("a", prompt="x"))
    assert client.say(Create("a", prompt="x")) == []
    client.session.event("a", engine.Done("stop", engine.Stats(), 0), 0.0)
    assert client.say(Create("a", prompt="x")) == []
    faults = [message for message in client.hear() if isinstance(message, Fault)]
    assert [(fault.error.code, fault.ref) for fault in faults] == [("duplicate_id", "a")] * 2


def test_remembered_ids_are_bounded(client: Client) -> None:
    for number in range(FINISHED_IDS + 10):
        client.say(Create(f"r{number}", prompt=""))
    assert len(client.session._finished) == FINISHED_IDS


def test_cancel_reaches_the_engine_while_the_request_runs_and_never_else(client: Client) -> None:
    assert client.say(Cancel("a")) == []
    client.say(Create("a", prompt="x"))
    assert client.say(Cancel("a")) == client.say(Cancel("a")) == [Abort("s1/a")]
    client.session.event("a", engine.Done("cancelled", engine.Stats(), 0), 0.0)
    assert client.say(Cancel("a")) == []
    assert [type(message) for message in client.hear()] == [Done]


def test_too_many_requests_on_one_connection_are_told_to_wait(client: Client) -> None:
    for number in range(INFO.max_queue + INFO.max_active):
        assert client.say(Create(str(number), prompt="x"))
    client.say(Create("more", prompt="x"))
    [failed] = client.hear()
    assert isinstance(failed, Failed) and failed.error.code == "queue_full"
    assert failed.error.retryable and failed.error.retry_after_ms


def test_disconnect_aborts_what_runs_and_silences_it(client: Client) -> None:
    client.say(Create("a", prompt="x"))
    client.say(Create("b", prompt="x"))
    client.session.event("a", engine.Done("stop", engine.Stats(), 0), 0.0)
    client.hear()
    assert client.session.disconnect() == [Abort("s1/b")]
    client.session.event("b", engine.Delta(0, 0, "x", (1,)), 0.0)
    assert client.hear() == []


def test_a_silent_request_repeats_its_state(client: Client) -> None:
    client.say(Create("a", prompt="x"))
    client.session.heartbeat(0.5, 1.0)
    assert client.hear() == []
    client.session.heartbeat(1.0, 1.0)
    assert client.hear() == [Queued("a", 1, 0)]
    client.session.event("a", engine.Prefill(3, 9, 1), 1.5)
    client.hear()
    client.session.heartbeat(2.0, 1.0)
    assert client.hear() == []
    client.session.heartbeat(2.5, 1.0)
    assert client.hear() == [Prefill("a", 3, 3, 9, 1)]


def test_a_leaving_server_refuses_new_requests_and_ends_the_running_ones(client: Client) -> None:
    client.say(Create("a", prompt="x"))
    client.session.goaway("bye", 5)
    client.say(Create("b", prompt="x"))
    client.session.abandon("stopped")
    goaway, refused, ended = client.hear()
    assert goaway == Goaway("bye", 5)
    assert isinstance(refused, Failed) and isinstance(ended, Failed)
    assert [refused.id, ended.id] == ["b", "a"]
    assert refused.error.code == ended.error.code == "shutting_down" and ended.error.retryable
    assert client.session.running == 0


def test_an_unknown_engine_code_stays_on_the_closed_list(client: Client) -> None:
    client.say(Create("a", prompt="x"))
    client.session.event("a", engine.Failed("meltdown", "m"), 0.0)
    [failed] = client.hear()
    assert isinstance(failed, Failed) and failed.error.code == "engine_failed"


def test_tokens_and_logprobs_are_sent_when_asked_for(client: Client) -> None:
    client.say(Create("a", prompt="x", return_tokens=True, logprobs=1))
    row = engine.TokenLogprob(b"\xe2\x82", 7, float("-inf"), ((b"y", 8, -0.5),))
    client.session.event("a", engine.Delta(0, 0, "x", (7,), (row,)), 0.0)
    [delta] = client.hear()
    assert isinstance(delta, Delta) and delta.tokens == [7] and delta.logprobs is not None
    assert delta.logprobs[0].top == [("y", 8, -0.5)] and delta.logprobs[0].logprob < -1000


def test_tools_go_to_the_engine_unless_none_may_be_called(client: Client) -> None:
    read = ToolSpec("read", "Read.", {"type": "object"})
    messages = [
        ChatMessage("assistant", tool_calls=[ToolCall(0, "c1", "read", "{}")], reasoning="hm"),
        ChatMessage("tool", "text", tool_call_id="c1"),
    ]
    [order] = client.say(Create("a", messages=messages, tools=[read], reasoning="low"))
    assert isinstance(order, Submit)
    assert order.request.tools == (
        {"name": "read", "description": "Read.", "parameters": {"type": "object"}},
    )
    assert order.request.reasoning == "low" and order.request.messages == [
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "name": "read", "arguments": "{}"}],
            "reasoning": "hm",
        },
        {"role": "tool", "content": "text", "tool_call_id": "c1"},
    ]
    [order] = client.say(Create("b", messages=messages, tools=[read], tool_choice="none"))
    assert isinstance(order, Submit) and order.request.tools == ()


def test_reasoning_and_calls_are_sent_beside_the_text(client: Client) -> None:
    client.say(Create("a", messages=[ChatMessage("user", "x")]))
    say = client.session.event
    say("a", engine.Delta(0, 0, "", (1,), reasoning="hm"), 0.0)
    say("a", engine.Delta(0, 1, "So:", (2,)), 0.0)
    say("a", engine.Delta(0, 2, "", (3,), calls=(engine.CallPiece(0, "c1", "read"),)), 0.0)
    say("a", engine.Delta(0, 3, "", (), calls=(engine.CallPiece(0, arguments="{}"),)), 0.0)
    say("a", engine.Delta(0, 3, " Done", (4,)), 0.0)
    say("a", engine.Delta(0, 4, "", (), calls=(engine.CallPiece(1, error="none"),)), 0.0)
    say("a", engine.Delta(0, 4, "", ()), 0.0)
    assert client.hear() == [
        Delta("a", 1, 0, 0, "So:", 3, reasoning="hm", tool_calls=[ToolCall(0, "c1", "read", "{}")]),
        Delta("a", 2, 0, 3, " Done", 1, tool_calls=[ToolCall(1, error="none")]),
    ]


# --- the promises of the wire, whatever clients and engines do ---------------------------------------

ids = st.sampled_from(["a", "b", "c"])
events = st.one_of(
    st.builds(engine.Queued, st.integers(0, 3)),
    st.builds(engine.Prefill, st.integers(0, 9), st.just(9), st.just(0)),
    st.builds(engine.Delta, st.integers(0, 1), st.just(0), st.text(max_size=3), st.just((1,))),
    st.builds(engine.SampleDone, st.integers(0, 1), st.sampled_from(["stop", "length"])),
    st.builds(engine.Done, st.just("stop"), st.just(engine.Stats()), st.just(0)),
    st.builds(engine.Failed, st.text(max_size=5), st.text(max_size=5)),
)
actions = st.one_of(
    st.tuples(st.just("create"), ids, st.booleans()),
    st.tuples(st.just("cancel"), ids, st.none()),
    st.tuples(st.just("event"), ids, events),
    st.tuples(st.just("bytes"), ids, st.binary(max_size=20)),
    st.tuples(st.just("beat"), ids, st.none()),
    st.tuples(st.just("flush"), ids, st.none()),
)


def act(client: Client, action: tuple[str, str, Any], admitted: set[str]) -> None:
    kind, request_id, value = action
    client.now += 0.7
    if kind == "create":
        if request_id not in admitted:
            admitted.add(request_id)
        client.say(Create(request_id, prompt="x" if value else ""))
    elif kind == "cancel":
        client.say(Cancel(request_id))
    elif kind == "event":
        client.session.event(request_id, value, client.now)
    elif kind == "bytes":
        client.say(value)
    elif kind == "beat":
        client.session.heartbeat(client.now, 1.0)
    else:
        client.hear()


@settings(max_examples=200)
@given(st.lists(actions, max_size=40))
def test_one_terminal_last_and_numbers_without_gaps(script: list[tuple[str, str, Any]]) -> None:
    client = Client()
    admitted: set[str] = set()
    for action in script:
        act(client, action, admitted)
    client.session.abandon("over")
    client.hear()
    assert client.session.running == 0
    for request_id in "abc":
        own = [m for m in client.heard if isinstance(m, NUMBERED) and m.id == request_id]
        terminals = [message for message in own if isinstance(message, (Done, Failed))]
        assert len(terminals) == (request_id in admitted)
        assert own[-1:] == terminals
        assert [message.seq for message in own] == list(range(1, len(own) + 1))


@given(st.binary(max_size=200))
def test_any_bytes_are_answered_or_ignored_but_never_raise(data: bytes) -> None:
    client = Client()
    client.say(data)
    client.say(Ping(2.0))
    assert client.hear()[-1] == Pong(2.0)
