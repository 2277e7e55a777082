"""From drawn tokens to deltas: what a model writes is told apart, and every token is accounted for."""

from __future__ import annotations

from typing import Any

import pytest
import tokenizer_files as files
from hypothesis import given
from hypothesis import strategies as st
from ultra_engine.formats.format import PLAIN, Format, Reading
from ultra_engine.formats.tools import Tools
from ultra_engine.request import Delta, Request, SamplingParams
from ultra_engine.sample import Sample
from ultra_engine.tokens.tokenizer import Tokenizer
from ultra_engine.weights.gguf import GGUFFile

MARKS = [
    "<|start|>",
    "<|channel|>",
    "<|message|>",
    "<|end|>",
    "<|call|>",
    "<|return|>",
    "<|constrain|>",
    "<think>",
]
TOOLS = Tools([{"name": "read", "parameters": {}}])
CALL = '<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>'


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Bytes, with the marks of gpt-oss as control tokens and ``<tool_call>`` as a word."""
    path = tmp_path_factory.mktemp("tokenizer") / "t.gguf"
    tokens = [files.BYTE_ALPHABET[byte] for byte in range(256)] + ["<|im_end|>", *MARKS, "<tool_call>"]
    types = [files.NORMAL] * 256 + [files.CONTROL] * (1 + len(MARKS)) + [files.USER]
    more: dict[str, Any] = {"tokens": tokens, "token_type": types, "merges": []}
    with GGUFFile.open(files.byte_level(path, bos_token_id=None, eos_token_id=256, **more)) as file:
        return Tokenizer.from_gguf(file)


def play(
    tokenizer: Tokenizer, text: str, reading: Reading, limit: int = 10_000, stop: tuple[str, ...] = ()
) -> tuple[Sample, list[Delta]]:
    """A sample that draws the tokens of ``text``, with the rules of deltas checked."""
    request = Request("r", messages=[], sampling=SamplingParams(stop=stop))
    sample = Sample(0, request, 0, [], tokenizer, limit, reading)
    deltas: list[Delta] = []
    ids = [*tokenizer.encode(text, special=True, bos=False), 256]
    for id in ids:
        deltas += sample.take(id)
        if sample.finish:
            break
    offset = 0
    for delta in deltas:
        assert delta.offset == offset and (delta.tokens or delta.text or delta.reasoning or delta.calls)
        offset += len(delta.tokens)
    assert offset == len(sample.tokens)
    return sample, deltas


def said(deltas: list[Delta]) -> tuple[str, str, str]:
    """Reasoning, text, and calls in words."""
    calls = [call for delta in deltas for call in delta.calls]
    return (
        "".join(delta.reasoning for delta in deltas),
        "".join(delta.text for delta in deltas),
        "".join(f"{call.name}{call.arguments}{'!' if call.error else ''}" for call in calls),
    )


TAGS = Format(False, True, {"<think>": 264})


def test_reasoning_text_and_calls_are_told_apart(tokenizer: Tokenizer) -> None:
    sample, deltas = play(tokenizer, f"<think>\nhm é\n</think>\n\nSo: {CALL}", Reading(TAGS, TOOLS))
    assert said(deltas) == ("hm é", "So: ", 'read{"path": "a"}')
    assert sample.finish == "tool_calls"
    [begin] = [call for delta in deltas for call in delta.calls if call.name]
    assert (begin.index, len(begin.id)) == (0, 9)


def test_without_a_format_everything_is_text(tokenizer: Tokenizer) -> None:
    sample, deltas = play(tokenizer, CALL, PLAIN)
    assert said(deltas) == ("", CALL, "") and sample.finish == "stop"
    assert len(deltas) == len(sample.tokens)


def test_hidden_tokens_are_seen_by_the_scanner_alone(tokenizer: Tokenizer) -> None:
    control = tokenizer.control_ids
    text = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.read"
    text += '<|constrain|>json<|message|>{"path": "a"}'
    harmony = Format.of("<|channel|><|message|>", control)
    sample, deltas = play(tokenizer, text, Reading(harmony, TOOLS))
    assert said(deltas) == ("hm", "", 'read{"path": "a"}') and sample.finish == "tool_calls"
    assert said(play(tokenizer, text, PLAIN)[1])[1] == (
        'analysishmassistantcommentary to=functions.readjson{"path": "a"}'
    )
    qwen = Reading(Format(False, True, control), TOOLS)
    assert said(play(tokenizer, "<think>hm</think>ok", qwen)[1]) == ("hm", "ok", "")
    assert said(play(tokenizer, "a<|end|>b", qwen)[1])[1] == "ab"
    assert said(play(tokenizer, "hm</think>ok", Reading(TAGS, TOOLS, "assistant\n<think>\n"))[1])[0] == "hm"


@pytest.mark.parametrize("limit", [1, 20, 45])
def test_a_call_that_is_cut_is_no_call(tokenizer: Tokenizer, limit: int) -> None:
    sample, deltas = play(tokenizer, f"So: {CALL}", Reading(TAGS, TOOLS), limit=limit)
    assert sample.finish == "length" and len(sample.tokens) == limit
    pieces = [call for delta in deltas for call in delta.calls]
    assert (limit == 1 and not pieces) or pieces[-1].error


def test_stop_strings_end_a_call_too(tokenizer: Tokenizer) -> None:
    sample, deltas = play(tokenizer, f"So: {CALL}", Reading(TAGS, TOOLS), stop=('"a"',))
    assert sample.finish == "stop" and said(deltas) == ("", "So: ", 'read{"path": !')
    sample, deltas = play(tokenizer, f"{CALL}\nSTOP more", Reading(TAGS, TOOLS), stop=("STOP",))
    assert sample.finish == "tool_calls" and said(deltas) == ("", "", 'read{"path": "a"}')


def test_what_never_was_a_call_is_told_with_its_text(tokenizer: Tokenizer) -> None:
    sample, deltas = play(tokenizer, "<tool_call></tool_call>", Reading(TAGS, TOOLS))
    [piece] = [call for delta in deltas for call in delta.calls]
    assert piece.arguments == "<tool_call></tool_call>" and "is empty" in piece.error and not piece.name
    assert sample.finish == "stop"


def test_one_delta_says_reasoning_before_text_before_calls(tokenizer: Tokenizer) -> None:
    request = Request("r", messages=[])
    sample = Sample(0, request, 0, [], tokenizer, 10, Reading(TAGS, TOOLS))
    first = Delta(0, 0, "", (7,))
    order = sample._deltas(f"<think>hm</think>a{CALL}b{CALL}", first)
    assert [(delta.reasoning, delta.text, bool(delta.calls)) for delta in order] == [
        ("hm", "a", True),
        ("", "b", True),
    ]
    assert [(delta.offset, delta.tokens) for delta in order] == [(0, (7,)), (1, ())]


@given(st.lists(st.sampled_from([CALL, "<think>", "</think>", "x", "\n", "<|channel|>", "<|message|>", "é"])))
def test_every_token_is_in_a_delta(tokenizer: Tokenizer, parts: list[str]) -> None:
    for reading in (Reading(TAGS, TOOLS), Reading(Format(True, True, tokenizer.control_ids), TOOLS)):
        sample, deltas = play(tokenizer, "".join(parts), reading)
        assert sample.tokens == [token for delta in deltas for token in delta.tokens]
