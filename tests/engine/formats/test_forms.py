"""Every form in which models write calls, whole and broken, and code that must come through unharmed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from call_forms import CODE, READ, TEXT_FORMS, Form, fenced, glm, gpt_oss, hermes, qwen_coder
from hypothesis import given
from hypothesis import strategies as st
from scans import NO_TOOLS, Make, found, harmony, marked, pieces_of, scan, source, tagged


@pytest.mark.parametrize("form", TEXT_FORMS)
@given(content=CODE, cuts=st.sets(st.integers(0, 400), max_size=8))
def test_code_comes_through_every_form_however_it_is_cut(form: Form, content: str, cuts: set[int]) -> None:
    text = f"I write it.\n{form('src/a b.py', content)}\nDone."
    events = scan(tagged(), pieces_of(text, cuts))
    assert events == scan(tagged(), text) and source(events) == text
    answer = found(events)
    assert answer.calls == [("write", {"path": "src/a b.py", "content": content})]
    assert answer.problems == [] and answer.text == "I write it.\n\nDone."


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "read", "arguments": {"path": "a.py"}}',
        '<tool_call>\n{"name": "read", "arguments": {"path": "a.py"}\n</tool_call>',
        '<tool_call>\n{"name": "read", "arguments": {"path": "a.py"\n</tool_call>',
        "<tool_call>{'name': 'read', 'arguments': {'path': 'a.py',}}</tool_call>",
        '<tool_call>{"arguments": {"path": "a.py"}, "name": "read"}</tool_call>',
        '<tool_call>{"id": "x", "type": "f", "name": "read", "arguments": {"path": "a.py"}}</tool_call>',
        '<tools>{"name": "read", "arguments": {"path": "a.py"}}</tools>',
        '<function_call>{"name": "read", "arguments": {"path": "a.py"}}</function_call>',
        '<tool_call>{"name": "read", "arguments": "{\\"path\\": \\"a.py\\"}"}</tool_call>',
        '```json\n{"name": "read", "arguments": {"path": "a.py"}}\n```',
        '```\n{"name": "read", "arguments": {"path": "a.py"}}\n```',
        '```xml\n<tool_call>\n{"name": "read", "arguments": {"path": "a.py"}}\n</tool_call>\n```',
        'I read it:\n{"name": "read", "arguments": {"path": "a.py"}}\n',
        '{"name": "read",\n "parameters": {\n  "path": "a.py"}}',
        '[TOOL_CALLS][{"name": "read", "arguments": {"path": "a.py"}}]',
        '[TOOL_CALLS] [{"name": "read", "arguments": {"path": "a.py"}, "id": "abc"}]',
        '[TOOL_CALLS]read[ARGS]{"path": "a.py"}',
        '[TOOL_CALLS]read{"path": "a.py"}',
        '<|python_tag|>{"name": "functions.read", "parameters": {"path": "a.py"}}',
        '<|python_tag|>{"type": "function", "name": "read", "parameters": {"path": "a.py"}}',
        '{"function": {"name": "read", "arguments": {"path": "a.py"}}}',
        '{"type": "function", "function": {"name": "read", "arguments": "{\\"path\\": \\"a.py\\"}"}}',
        '{"tool": "read", "path": "a.py"}',
        '{"read": {"path": "a.py"}}',
        "<function=read><parameter=path>a.py</parameter></function>",
        '<function=read>{"path": "a.py"}</function>',
        "<tool_call>\n<function=read>\n<parameter=path>\na.py\n</function>\n</tool_call>",
        "<tool_call>\n<function=read>\n<parameter=path>\na.py\n</parameter>\n</tool_call>",
        "<tool_call>\n<function=read>\n<parameter=path>\na.py\n</tool_call>",
        "<tool_call>\n<function=read>\n<parameter=path>\na.py\n</parameter>\n",
        "<function=read>\n<parameter=path>\na.py\n</parameter>\n</function>\n</tool_call>",
        '<function="read"><parameter="path">a.py</parameter></function>',
        "<tool_call>\r\n<function=read>\r\n<parameter=path>\r\na.py\r\n</parameter>\r\n</function>",
        "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a.py</arg_value>\n</tool_call>",
        "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a.py</arg_value>\n",
        '<think>\nFirst {"name": "bash"} no.\n</think>\n{"name": "read", "arguments": {"path": "a.py"}}',
        '<think>\nI read it.\n<tool_call>\n{"name": "read", "arguments": {"path": "a.py"}}\n</tool_call>',
        "<think>\n<tool_call>\n<function=read>\n<parameter=path>\na.py\n</parameter>\n</function>\n</tool_call>",
    ],
)
def test_forms_that_models_emit(text: str) -> None:
    events = scan(tagged(), text)
    answer = found(events)
    assert answer.calls == READ and answer.problems == [] and source(events) == text
    assert scan(tagged(), list(text)) == events
    assert answer.text.strip() in ("", "I read it:")


def test_several_calls_and_the_words_around_them() -> None:
    text = "First\n" + hermes("a", "1") + "\nthen\n" + qwen_coder("b", "2") + "\n" + glm("c", "3") + "\nend"
    answer = found(scan(tagged(), text))
    assert [arguments["path"] for _, arguments in answer.calls] == ["a", "b", "c"]
    assert answer.text == "First\n\nthen\n\nend"
    both = '[{"name": "read", "arguments": {"path": "a.py"}}, {"name": "bash", "arguments": {"cmd": "ls"}}]'
    for several in (both, f"<tool_call>{both}</tool_call>", both[1:-1], both[1:-1].replace("}}, ", "}}; ")):
        assert [name for name, _ in found(scan(tagged(), several)).calls] == ["read", "bash"]
    twice = fenced("a", "1") + "\n\n" + fenced("b", "2")
    assert [arguments["path"] for _, arguments in found(scan(tagged(), twice)).calls] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (
            "<function=write>\n<parameter=path>a</function>\n<parameter=content>\nx < y\n"
            "</function></tool_call>",
            {"path": "a", "content": "x < y"},
        ),
        (
            "<function=write>\n<parameter=path>\na\n<parameter=content>\nx\n</function>",
            {"path": "a", "content": "x"},
        ),
        (
            "<function=write>\n<parameter=junk\n1\n</parameter>\n<parameter=path>\na\n</parameter>\n</function>",
            {"path": "a"},
        ),
        (
            "<function=write>\n<parameter=path>\na\n</parameter>\n<parameter=path>\nb\n</parameter>\n</function>",
            {"path": "a"},
        ),
        (
            "<function=write>\nwhat?\n</parameter><b>\n<parameter=path>\na\n</parameter>\n</function>",
            {"path": "a"},
        ),
        ("<function=write><parameter=path></parameter></function>", {"path": ""}),
        ("<function=write><parameter=path>\n</parameter></function>", {"path": ""}),
        ("<function=write><parameter=path>\n\n\na\n\n</parameter></function>", {"path": "\n\na\n"}),
        ("<function=write></function>", {}),
        ("<function=write>\n</tool_call>", {}),
    ],
)
def test_parameters_close_in_odd_ways(text: str, arguments: dict[str, str]) -> None:
    events = scan(tagged(), text)
    assert found(events).calls == [("write", arguments)] and found(events).problems == []
    assert scan(tagged(), list(text)) == events and source(events) == text


def test_a_bad_pair_costs_only_itself() -> None:
    bad = "<arg_key>content</arg_key>\n<arg_valuee>x < y</arg_value>\n"
    text = glm("a", "b").replace("<arg_key>content", f"{bad}<arg_key>content")
    assert found(scan(tagged(), text)).calls == [("write", {"path": "a", "content": "b"})]
    assert found(scan(tagged(), glm("a", "b").replace("<arg_value>b", "b"))).calls == [
        ("write", {"path": "a"})
    ]


def test_a_broken_call_does_not_hide_the_next() -> None:
    for broken in (
        "<|python_tag|>print(1)\n",
        "[TOOL_CALLS]write x\n",
        "<tool_call>write x\n",
        "<tool_call>{a\n",
    ):
        answer = found(scan(tagged(), broken + hermes("b", "x")))
        assert answer.calls == [("write", {"path": "b", "content": "x"})], broken
        assert len(answer.problems) <= 1


@pytest.mark.parametrize(
    ("value", "read"),
    [("3", 3), (" 3 ", 3), ("three", "three"), ("", ""), ("True", True), ("[1, 2", [1, 2]), ("3 4", "3 4")],
)
def test_values_get_the_type_of_their_parameter(value: str, read: Any) -> None:
    qwen = (
        f"<function=read>\n<parameter=lines>\n{value}\n</parameter>\n"
        "<parameter=path>\n1\n</parameter>\n</function>"
    )
    pairs = (
        f"<tool_call>read\n<arg_key>lines</arg_key>\n<arg_value>{value}</arg_value>\n"
        "<arg_key>path</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"
    )
    for text in (qwen, pairs):
        assert found(scan(tagged(), text)).calls == [("read", {"lines": read, "path": "1"})]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('<tool_call>{"name": "write", "arguments": {"path": "a", "content": "half', "a string is cut off"),
        ('<tool_call>{"name": "write", "arguments": {"content": "half</tool_call>', "a string is cut off"),
        ("<tool_call>\n<function=write>\n<parameter=content>\nhalf of", "the call of write is cut off"),
        ("<tool_call>write\n<arg_key>content</arg_key>\n<arg_value>half", "the call of write is cut off"),
        ('<tool_call>{"arguments": {}}</tool_call>', "has no name"),
        ("<tool_call></tool_call>", "is empty"),
        ("<tool_call>[]</tool_call>", "is empty"),
        ("<tool_call>[1, 2]</tool_call>", "has no name"),
        ("<tool_call>\nread a.py\n</tool_call>", "is not valid; write <tool_call>{"),
        ('<tool_call>{"name": "bash", "arguments": {"cmd": "say "hi" now"}}</tool_call>', "has no backslash"),
        ('<tool_call>{"name": "bash" "arguments": {}}</tool_call>', "a comma is missing"),
        (
            '<tool_call>{"name": "bash", "arguments": {"cmd" "ls"}}</tool_call>',
            "a colon is missing after 'cmd'",
        ),
        ("<|python_tag|>print(1)", "is not valid"),
        ('{"name": "bash", "arguments": {"cmd": "half', "a string is cut off"),
    ],
)
def test_what_is_no_call_is_told_and_never_run(text: str, said: str) -> None:
    events = scan(tagged(), text)
    answer = found(events)
    assert answer.calls == [] and said in answer.problems[0] and answer.text == ""
    assert source(events) == text and scan(tagged(), list(text)) == events
    after = found(scan(tagged(), [text, "\n", hermes("b", "x")]))
    assert after.calls == [("write", {"path": "b", "content": "x"})] or "cut off" in said or "python" in text


def test_an_answer_that_was_cut_runs_nothing_that_may_lack_its_end() -> None:
    for text in (
        '<tool_call>{"name": "read", "arguments": {"path": "a.py", "lines": 1',
        '<tool_call>{"name": "read", "arguments": {"path": "a.py"',
        "<tool_call>\n<function=write>\n<parameter=path>\na.py\n</parameter>\n",
        "<tool_call>write\n<arg_key>path</arg_key>\n<arg_value>a.py</arg_value>\n",
    ):
        assert found(scan(tagged(), text)).calls and found(scan(tagged(), text)).problems == []
        cut = found(scan(tagged(), text, cut=True))
        assert cut.calls == [] and "cut off" in cut.problems[0]
    text = marked("<|channel|>commentary to=functions.bash code<|message|>rm -rf build")
    assert "cut off" in found(scan(harmony(), text, cut=True)).problems[0]


@pytest.mark.parametrize(
    "text",
    [
        'The JSON {"name": "read", "arguments": {}} is\n{not a call}\n',
        '{"name": "package", "version": 1}',
        '{"name": "read", "version": "1.0"}',
        '{"foo": {"name": "read", "arguments": {}}}',
        '```json\n{\n  "name": "other",\n  "arguments": {}\n}\n```\nmore',
        '```python\nx = "<tool_call>"\n<tool_call>{"name": "read", "arguments": {}}</tool_call>\n```\n',
        '````md\n```json\n{"name": "read", "arguments": {}}\n```\n````\n',
        "```js\n```json\n```\n{\n",
        "Use the `<tool_call>` tag, or <function=foo> or <tool> or [TOOL_CALLS].",
        "<tool>hammer</tool> and <tools>\nsaw\n</tools>",
        "[link](x) and\n[1, 2]\n[]\n{}\n[{}]\n",
        "a\n  {\n    int x;\n  }\n",
        "``\n`x`\n~~strike~~\n",
        "<tool_call>" + "x" * 500 + "</tool_call>",
        "half a tag <tool_ca",
        "```",
        "```json",
        '{"name": "',
    ],
)
def test_what_is_text_stays_text(text: str) -> None:
    assert found(scan(tagged(), text)).text == text
    assert found(scan(tagged(), list(text))).text == text


@pytest.mark.parametrize("form", TEXT_FORMS)
def test_without_tools_there_are_no_calls(form: Form) -> None:
    text = form("a", "b")
    assert found(scan(tagged(NO_TOOLS), text)).text == text
    answer = found(scan(harmony(NO_TOOLS), marked(gpt_oss("a", "b"))))
    assert answer.calls == [] and json.loads(answer.text) == {"path": "a", "content": "b"}


@pytest.mark.parametrize(
    ("make", "text", "thought", "said"),
    [
        (tagged(), "<think>why</think>\nBecause.", "why", "Because."),
        (tagged(), "\n<think>\n\nwhy\n\n</think>\n\nBecause.\n", "why", "Because.\n"),
        (tagged(), "<thinking>why</think> not</thinking>Because.", "why</think> not", "Because."),
        (tagged(thinking=True), "why < not\n  so</think>Because.", "why < not\n  so", "Because."),
        (tagged(thinking=True), "<think>\nwhy</think>Because.", "why", "Because."),
        (tagged(thinking=True), "\n</think>\n\nBecause.", "", "Because."),
        (tagged(), "<think>\n\n</think>\n\nBecause.", "", "Because."),
        (tagged(), "<think>never ends\n", "never ends", ""),
        (
            tagged(),
            "<think>the <tool_call> tag\n<tool_call> x</think>ok",
            "the <tool_call> tag\n<tool_call> x",
            "ok",
        ),
        (tagged(), "<think>x <tool_call><function=read></think>ok", "x <tool_call><function=read>", "ok"),
        (tagged(), "<think>\n<<tool_call><function=read></think>ok", "<<tool_call><function=read>", "ok"),
        (tagged(), " Because <think> is a tag", "", " Because <think> is a tag"),
        (tagged(), "<thin", "", "<thin"),
        (tagged(NO_TOOLS), "<think>a</think>{}", "a", "{}"),
        (tagged(NO_TOOLS, thinking=True), "a</think>\n\n\0b", "a", "\0b"),
    ],
)
def test_reasoning_is_kept_apart(make: Make, text: str, thought: str, said: str) -> None:
    events = scan(make, text)
    answer = found(events)
    assert (answer.reasoning, answer.text, answer.calls) == (thought, said, [])
    assert source(events) == text and scan(make, list(text)) == events
