from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_sdk.agent.parsing.lenient import NotJson, parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(VALUES, st.booleans(), st.sampled_from(["", " trailing", "\n</tool_call>"]))
def test_json_is_read_as_json(value: Any, ascii_only: bool, after: str) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert parse(text + after) == (value, len(text))


@given(VALUES.filter(lambda value: isinstance(value, dict | list) and value))
def test_the_tolerant_reader_reads_json_too(value: Any) -> None:
    text = json.dumps(value)
    spoiled = text[:-1] + "," + text[-1]
    assert parse(spoiled)[0] == value
    assert parse(text[:-1])[0] == value  # the last bracket is missing


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1,}', {"a": 1}),
        ("[1, 2,]", [1, 2]),
        ("{'a': 'it\\'s'}", {"a": "it's"}),
        ("{a: True, b: None, c: False}", {"a": True, "b": None, "c": False}),
        ('{"a": "line\nbreak\ttab"}', {"a": "line\nbreak\ttab"}),
        ('{"a": "line\nbreak",}', {"a": "line\nbreak"}),
        ('{"re": "\\d+\\.",}', {"re": "\\d+\\."}),
        ('{"a": "\\ud83d\\ude00\\n",}', {"a": "😀\n"}),
        ('{"a": {"b": [1, {"c": 2', {"a": {"b": [1, {"c": 2}]}}),
        ('{"a": "x", ', {"a": "x"}),
        ("{'a': -1.5e3}", {"a": -1500.0}),
        ("{}", {}),
    ],
)
def test_what_models_write(text: str, value: Any) -> None:
    assert parse(text)[0] == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"content": "half of a fi', "a string is cut off"),
        ("{'a': 'b", "a string is cut off"),
        ('{"a": ', "it is cut off"),
        ('{"a" "b"}', "a colon is missing after 'a'"),
        ('{"a": "say "hi" now"}', "a quote in a string has no backslash"),
        ("{a: b}", "a value is missing"),
        ("", "it is cut off"),
        ("[" * 5000, "nested too deeply"),
        ("{1: 2}", "a name is missing"),
        ("9" * 5000, "too long"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(NotJson, match=said):
        parse(text)


@given(st.text("{}[]:,'\"\\ntrue1 \n", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        _, end = parse(text)
    except NotJson as error:
        assert 0 <= error.at <= len(text) + 1
    else:
        assert 0 < end <= len(text)
