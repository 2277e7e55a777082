"""What holds for every scanner and any text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scans import Make, found, harmony, marked, pieces_of, scan, source, tagged
from ultra_engine.formats.events import CallArguments, Event, Text
from ultra_engine.formats.harmony import APART, MARK_CODES, HarmonyScanner
from ultra_engine.formats.tagged import TagScanner

TAGS = (
    "<tool_call>|</tool_call>|<tools>|</tools>|<function=read>|<function=|</function>|<parameter=path>"
    "|</parameter>|<arg_key>|</arg_key>|<arg_value>|</arg_value>|<think>|</think>|[TOOL_CALLS]|[ARGS]"
    "|<#python_tag#>|<#channel#>|<#message#>|<#start#>|<#end#>|<#call#>|<#constrain#>"
    '|a|\n|  |read|write|```|```json\n|```py\n|~~~|{|}|[|]|:|,|"|\'|"name"|"arguments"|"path"|"read"|\\'
    '|"name": "|{"name": "read", "arguments": {|<|>|é|true|1|to=read|assistant|final|analysis |json'
).split("|")
SOUP = st.lists(st.sampled_from([tag.replace("#", "|") for tag in TAGS]), max_size=14).map("".join)
CUTS = st.sets(st.integers(0, 200), max_size=6)


def check(make: Make, text: str, cuts: set[int], cut: bool) -> list[Event]:
    events = scan(make, text, cut)
    assert scan(make, pieces_of(text, cuts), cut) == events == scan(make, list(text), cut)
    found(events)  # the arguments of whole calls are JSON
    return events


@settings(max_examples=300)
@given(SOUP, CUTS, st.booleans(), st.booleans())
def test_any_text_is_read_whole_and_the_same_however_it_is_cut(
    text: str, cuts: set[int], thinking: bool, cut: bool
) -> None:
    assert source(check(tagged(thinking=thinking), text, cuts, cut)) == text


@settings(max_examples=300)
@given(SOUP, CUTS, st.booleans())
def test_so_is_any_text_of_gpt_oss(text: str, cuts: set[int], cut: bool) -> None:
    assert source(check(harmony(), marked(text), cuts, cut)).replace(APART, "") == text.replace(APART, "")

    def named() -> HarmonyScanner:
        return HarmonyScanner(
            harmony()()._tools, marks={name: name for name in MARK_CODES}, make_id=lambda: "id"
        )

    check(named, text, cuts, cut)


@given(st.text(max_size=40), CUTS)
def test_text_without_marks_passes_at_once(text: str, cuts: set[int]) -> None:
    scanner = TagScanner(tagged()()._tools)
    heard = 0
    for char in "x" + text:
        [*events] = scanner.push(char)
        heard += sum(len(event.text) for event in events if isinstance(event, Text))
    if not set(text) & set("<[{`~"):
        assert heard == len(text) + 1


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("see a < b", ""),
        ("see <tool", "<tool"),
        ("see <tool_call> x", "<tool_call> x"),
        ("see <tool_call> x y", ""),
        ("see <tool_call>", "<tool_call>"),
        ("[", "["),
        ("{", "{"),
        ('{"name', '{"name'),
        ('{"version"', '{"version"'),
        ('{"version":', ""),
        ('{"name": "other",', ""),
        ("x {", ""),
        ("```py", "```py"),
        ("```py\nx", ""),
        ("```json\n", "```json\n"),
        ("```json\n[1", ""),
    ],
)
def test_no_more_is_held_back_than_may_begin_something(text: str, held: str) -> None:
    scanner = TagScanner(tagged()()._tools)
    said = "".join(event.text for event in scanner.push(text) if isinstance(event, Text))
    assert said + held == text
    assert "".join(event.text for event in scanner.finish() if isinstance(event, Text)) == held


@pytest.mark.parametrize(
    "head",
    [
        '<tool_call>\n{"name": "write", "arguments": {"content": "',
        "<tool_call>\n<function=write>\n<parameter=content>\n",
        '```json\n{"name": "write", "arguments": {"content": "',
    ],
)
def test_arguments_come_as_they_are_written(head: str) -> None:
    scanner = TagScanner(tagged()()._tools)
    scanner.push(head)
    for word in ("def ", "f(x):", " return", ' x < y "'[:6]):
        [event] = scanner.push(word)
        assert isinstance(event, CallArguments) and event.text == json.dumps(word)[1:-1]
