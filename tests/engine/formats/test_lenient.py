"""JSON as models write it: read whole, and made strict as it comes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_engine.formats.cursor import Cursor, finished
from ultra_engine.formats.lenient import NotJson, parse, whole
from ultra_engine.formats.strict import Strict

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


def streamed(text: str, cuts: list[int], cut_off: bool = False) -> str:
    """The strict JSON of a value, or what is wrong with it, its text arriving in pieces."""
    cursor, out = Cursor(), list[str]()
    work = Strict(cursor, out.append).value()
    places = [0, *sorted(cuts), len(text)]
    try:
        for start, end in zip(places, places[1:], strict=False):
            cursor.feed(text[start:end])
            next(work)
        cursor.end(cut_off)
        finished(work)
    except NotJson as error:
        return f"{''.join(out)}!{error}"
    except StopIteration:
        pass
    return "".join(out)


@given(VALUES, st.lists(st.integers(0, 60), max_size=5), st.booleans())
def test_json_passes_as_it_comes(value: Any, cuts: list[int], ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    passed = streamed(text, [cut for cut in cuts if cut < len(text)])
    assert (
        passed == streamed(text, []) == streamed(text, list(range(len(text)))) and json.loads(passed) == value
    )


@given(st.text("{}[]:,'\"\\\ntrue1 u d8", max_size=30), st.lists(st.integers(0, 30), max_size=5))
def test_what_comes_of_it_does_not_depend_on_the_pieces(text: str, cuts: list[int]) -> None:
    want = streamed(text, [])
    assert streamed(text, [cut for cut in cuts if cut < len(text)]) == want
    if "!" not in want:
        json.loads(want)


@pytest.mark.parametrize(
    ("text", "strict"),
    [
        ("{'a': 'it\\'s', b: True,}", '{"a": "it\'s", "b": true}'),
        ('{"a": "x\ny\tz"}', '{"a": "x\\ny\\tz"}'),
        ('"\\d+ \\ud83d\\ude00 \\ud83d \\u00e9 \\u12"', '"\\\\d+ \\ud83d\\ude00 \\ufffd \\u00e9 \\\\u12"'),
        ('{"a": [1, {"b": 2', '{"a": [1, {"b": 2}]}'),
        ('{"a": 1</tool_call>', '{"a": 1}'),
    ],
)
def test_what_is_handed_on(text: str, strict: str) -> None:
    assert streamed(text, []) == streamed(text, list(range(1, len(text)))) == strict


def test_what_was_cut_is_not_closed() -> None:
    for text in ('{"a": 1', '{"a": [1', '{"a": "x"', "tru", "1"):
        assert streamed(text, [], cut_off=True).endswith("it is cut off")


def test_a_whole_value_has_nothing_behind_it() -> None:
    assert whole(" [1,] ") == [1]
    with pytest.raises(NotJson, match="something follows it"):
        whole("1 2")
