"""The door of the HTTP endpoint: what is wrong is refused by name."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_engine.face import EngineInfo
from ultra_engine.request import SamplingParams
from ultra_engine.server.openai.asked import Asked, read_chat, read_completion
from ultra_engine.server.openai.errors import ApiError
from ultra_engine.server.openai.fields import parse

INFO = EngineInfo("m", "llama", "reference", 512, 1000, 0, 0.0, max_n=8)
MESSAGES = '"messages": [{"role": "user", "content": "hi"}]'


def chat(extra: str = "") -> Asked:
    body = f"{{{MESSAGES}{', ' if extra else ''}{extra}}}"
    return read_chat(parse(body.encode()), "r", INFO)


NUMBERS = ["temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty"]
INTEGERS = ["top_k", "n", "max_tokens", "max_completion_tokens", "seed"]
BAD = [(name, value) for name in NUMBERS for value in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999")]
BAD += [(name, value) for name in NUMBERS + INTEGERS for value in ('"1"', "true", "[]", "{}", "-11", "1e30")]
BAD += [(name, value) for name in INTEGERS for value in ("1.5", "1.0", "NaN", "-1")]
BAD += [
    ("n", "0"),
    ("n", "9"),
    ("max_tokens", "0"),
    ("top_p", "0"),
    ("top_p", "1.01"),
    ("seed", "1" + "0" * 30),
]
BAD += [("stop", "[1]"), ("stop", '[""]'), ("stop", '""'), ("stop", "5"), ("stop", json.dumps(["x"] * 65))]
BAD += [
    ("logit_bias", value)
    for value in ('{"5": NaN}', '{"5": "x"}', '{"x": 1}', '{"1000": 1}', "[]", '{"-1": 1}')
]
BAD += [("top_logprobs", "-1"), ("top_logprobs", "3"), ("logprobs", "1"), ("stream", '"yes"'), ("model", "7")]
BAD += [("stream_options", '{"include_usage": true}'), ("response_format", '{"type": "json_object"}')]
BAD += [("response_format", '"json"'), ("tools", '[{"type": "function"}]'), ("tools", '"no"')]
BAD += [("metadata", '{"a": [NaN]}'), ("tools", "[1]"), ("tools", '[{"type": "web"}]'), ("tools", '{"a": 1}')]
BAD += [
    ("tools", f'[{{"type": "function", "function": {function}}}]')
    for function in (
        '{"name": "a b"}',
        '{"name": 1}',
        '{"name": "a", "parameters": []}',
        '"f"',
        '{"name": ""}',
    )
]
BAD += [
    ("tools", '[{"function": {"name": "f"}}, {"function": {"name": "f"}}]'),
    ("tool_choice", '"required"'),
]
BAD += [("tool_choice", '{"type": "function", "function": {"name": "f"}}'), ("parallel_tool_calls", "false")]
BAD += [("reasoning_effort", '"extreme"'), ("reasoning_effort", "1"), ("chat_template_kwargs", '"x"')]


@pytest.mark.parametrize(("field", "value"), BAD)
def test_what_is_wrong_is_refused_by_name(field: str, value: str) -> None:
    with pytest.raises(ApiError) as refused:
        chat(f'"{field}": {value}')
    assert refused.value.status == 400
    assert re.split(r"[.\[]", refused.value.param or "")[0] == field
    assert json.dumps(refused.value.body(), allow_nan=False)


GOOD = [
    ("temperature", "0"),
    ("temperature", "1e-300"),
    ("temperature", "2"),
    ("top_p", "1e-9"),
    ("top_k", "1"),
]
GOOD += [("min_p", "1"), ("seed", "18446744073709551615"), ("stop", "[]"), ("stop", '"a"'), ("n", "8")]
GOOD += [("logit_bias", '{"999": -100}'), ("tools", "[]"), ("response_format", '{"type": "text"}')]


@pytest.mark.parametrize(("field", "value"), GOOD)
def test_legal_extremes_are_taken(field: str, value: str) -> None:
    assert chat(f'"{field}": {value}').request.messages


OPTIONAL = [*NUMBERS, *INTEGERS, "stop", "logit_bias", "logprobs", "top_logprobs", "response_format", "tools"]
OPTIONAL += ["parallel_tool_calls", "reasoning_effort", "chat_template_kwargs"]
OPTIONAL += ["tool_choice", "stream", "stream_options", "user", "metadata", "store", "service_tier"]


@pytest.mark.parametrize("field", OPTIONAL)
def test_null_is_absent(field: str) -> None:
    assert chat(f'"{field}": null') == chat()


def test_tools_and_effort() -> None:
    function = '{"name": "read", "description": "Read.", "parameters": {"type": "object"}}'
    tools = f'"tools": [{{"type": "function", "function": {function}}}, {{"function": {{"name": "ls"}}}}]'
    assert chat(tools).request.tools == (
        {"name": "read", "description": "Read.", "parameters": {"type": "object"}},
        {"name": "ls", "description": "", "parameters": {}},
    )
    assert chat(f'{tools}, "tool_choice": "none"').request.tools == ()
    assert chat(f'{tools}, "tool_choice": "auto", "parallel_tool_calls": true').request.tools
    for field, wanted in (
        ('"reasoning_effort": "none"', "off"),
        ('"reasoning_effort": "high"', "high"),
        ('"chat_template_kwargs": {"enable_thinking": false}', "off"),
        ('"chat_template_kwargs": {"enable_thinking": true}, "reasoning_effort": "low"', "on"),
        ('"chat_template_kwargs": {}', "auto"),
    ):
        assert chat(field).request.reasoning == wanted
    with pytest.raises(ApiError, match="use /v1/chat/completions"):
        read_completion(parse(b'{"prompt": "x", "tools": [{"function": {"name": "f"}}]}'), "r", INFO)


def test_every_field_arrives() -> None:
    asked = chat(
        '"temperature": 0.5, "top_p": 0.9, "top_k": 4, "min_p": 0.1, "seed": 9, "stop": ["a", "b"], '
        '"presence_penalty": -1, "frequency_penalty": 2, "repetition_penalty": 1.1, "logit_bias": {"7": 3}, '
        '"max_tokens": 5, "max_completion_tokens": 6, "n": 2, "logprobs": true, "top_logprobs": 3, '
        '"stream": true, "stream_options": {"include_usage": true}'
    )
    assert asked.request.sampling == SamplingParams(0.5, 0.9, 4, 0.1, 9, ("a", "b"), 1.1, -1.0, 2.0, {7: 3.0})
    assert (asked.request.max_tokens, asked.request.n, asked.request.logprobs) == (6, 2, 3)
    assert asked.stream and asked.include_usage and asked.logprobs and asked.top_logprobs == 3


def messages(value: Any) -> Asked:
    return read_chat(parse(json.dumps({"messages": value}).encode()), "r", INFO)


USER = {"role": "user", "content": "x"}
SHAPES: list[Any] = [[], "x", 5, {}, None, [1], [None], [{}], [{"role": "user"}], [{"content": "x"}]]
SHAPES += [
    [{"role": "king", "content": "x"}],
    [{"role": "user", "content": 5}],
    [{"role": "tool", "content": "x"}],
]
SHAPES += [
    [{"role": "user", "content": [part]}]
    for part in (1, {"type": "text"}, {"type": "image_url"}, {"text": "x"})
]
SHAPES += [
    [{**USER, "name": 5}],
    [{"role": "assistant", "tool_calls": "x"}],
    [{"role": "assistant", "tool_calls": [1]}],
    [{"role": "assistant", "tool_calls": [{}]}],
    [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": [1]}}]}],
    [{"role": "assistant", "reasoning_content": 1}],
]


@pytest.mark.parametrize("value", SHAPES)
def test_messages_of_the_wrong_shape_are_refused(value: Any) -> None:
    with pytest.raises(ApiError) as refused:
        messages(value)
    assert (refused.value.param or "").startswith("messages")


def test_messages_become_what_a_template_expects() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    asked = messages(
        [{"role": "developer", "content": "d"}, {"role": "user", "content": parts}, {"role": "assistant"}]
    )
    assert asked.request.messages == [
        {"role": "system", "content": "d"},
        {"role": "user", "content": "ab"},
        {"role": "assistant", "content": ""},
    ]
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    asked = messages(
        [
            {"role": "assistant", "content": None, "tool_calls": calls, "reasoning_content": "hm"},
            {"role": "tool", "tool_call_id": "c", "content": "done"},
        ]
    )
    assert asked.request.messages == [
        {"role": "assistant", "content": "", "tool_calls": calls, "reasoning": "hm"},
        {"role": "tool", "content": "done", "tool_call_id": "c"},
    ]


BODIES = [
    b"",
    b"{",
    b"not json",
    b"\xef\xbb\xbf{}",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"[]",
    b'"x"',
    b"null",
    b"\xff",
]


@pytest.mark.parametrize("body", [*BODIES, b'{"seed": ' + b"9" * 5000 + b"}"])
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(ApiError, match="JSON"):
        read_chat(parse(body), "r", INFO)


@pytest.mark.parametrize("prompt", ["", [], None, 5, [1, "x"], [1, 2000], [True], ["a", "b"], [-1], {"a": 1}])
def test_a_completion_needs_one_prompt(prompt: Any) -> None:
    with pytest.raises(ApiError) as refused:
        read_completion(parse(json.dumps({"prompt": prompt}).encode()), "r", INFO)
    assert refused.value.param == "prompt"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*OPTIONAL, "messages", "model"]), json_values, max_size=4))
def test_any_body_is_taken_or_refused_but_never_breaks(body: dict[str, Any]) -> None:
    try:
        asked = read_chat(parse(json.dumps({**json.loads(f"{{{MESSAGES}}}"), **body}).encode()), "r", INFO)
    except ApiError as error:
        assert error.status == 400 and str(error)
    else:
        asked.request.sampling.validate(INFO.vocab_size)
