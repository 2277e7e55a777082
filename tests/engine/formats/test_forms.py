"""Every form in which models write calls, whole and broken, and code that must come through unharmed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scans import NO_TOOLS, Make, found, harmony, marked, pieces_of, scan, source, tagged

CODE = st.lists(
    st.sampled_from(
        [
            "if a < b && c:",
            "</b>",
            "x = '<parameter>'",
            "  y",
            "",
            "&lt;",
            '"q"',
            "\\n",
            "<b>",
            "é",
            "```",
            "{}",
        ]
    )
    | st.sampled_from(
        [
            "<parameter=other>",
            "</parameter>x",
            "<tool_call",
            "<function",
            "print('</function>')",
            "</tool_call>x",
        ]
    ),
    max_size=6,
).map("\n".join)

Form = Callable[[str, str], str]


def hermes(path: str, content: str) -> str:
    call = {"name": "write", "arguments": {"path": path, "content": content}}
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"


def qwen_coder(path: str, content: str) -> str:
    return (
        f"<tool_call>\n<function=write>\n<parameter=path>\n{path}\n</parameter>\n"
        f"<parameter=content>\n{content}\n</parameter>\n</function>\n</tool_call>"
    )


def glm(path: str, content: str) -> str:
    return (
        f"<tool_call>write\n<arg_key>path</arg_key>\n<arg_value>{path}</arg_value>\n"
        f"<arg_key>content</arg_key>\n<arg_value>{content}</arg_value>\n</tool_call>"
    )


def mistral(path: str, content: str) -> str:
    return f"[TOOL_CALLS]write[CALL_ID]abc[ARGS]{json.dumps({'path': path, 'content': content})}"


def fenced(path: str, content: str) -> str:
    return (
        "```json\n" + json.dumps({"name": "write", "arguments": {"path": path, "content": content}}) + "\n```"
    )


def bare(path: str, content: str) -> str:
    return json.dumps([{"function": "write", "parameters": {"content": content, "path": path}}], indent=1)


def gpt_oss(path: str, content: str) -> str:
    body = json.dumps({"path": path, "content": content})
    return f"<|channel|>commentary to=functions.write <|constrain|>json<|message|>{body}<|call|>"


TEXT_FORMS = [hermes, qwen_coder, glm, mistral, fenced, bare]


@pytest.mark.parametrize("form", TEXT_FORMS)
@given(content=CODE, cuts=st.sets(st.integers(0, 400), max_size=8))
def test_code_comes_through_every_form_however_it_is_cut(form: Form, content: str, cuts: set[int]) -> None:
    text = f"I write it.\n{form('src/a b.py', content)}\nDone."
    events = scan(tagged(), pieces_of(text, cuts))
    assert events == scan(tagged(), text) and source(events) == text
    answer = found(events)
    assert answer.calls == [("write", {"path": "src/a b.py", "content": content})]
    assert answer.problems == [] and answer.text == "I write it.\n\nDone."


@given(content=CODE, cuts=st.sets(st.integers(0, 400), max_size=8))
def test_code_comes_through_harmony(content: str, cuts: set[int]) -> None:
    text = f"<|channel|>analysis<|message|>{content}<|end|><|start|>assistant{gpt_oss('src/a b.py', content)}"
    events = scan(harmony(), pieces_of(marked(text), cuts))
    assert events == scan(harmony(), marked(text)) and source(events) == text
    answer = found(events)
    assert answer.calls == [("write", {"path": "src/a b.py", "content": content})]
    assert (answer.problems, answer.text, answer.reasoning) == ([], "", content)


READ = [("read", {"path": "a.py"})]


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


@pytest.mark.parametrize(
    "text",
    [
        '<|channel|>commentary to=functions.read <|constrain|>json<|message|>{"path": "a.py"}<|call|>',
        '<|channel|>commentary to=functions.read <|constrain|>json<|message|>{"path": "a.py"}',
        ' to=functions.read<|channel|>commentary <|constrain|>json<|message|>{"path": "a.py"}',
        '<|start|>assistant to=functions.read<|channel|>commentary json<|message|>{"path": "a.py"}<|call|>',
        '<|channel|>commentary<|constrain|>json to=functions.read<|message|>{"path": "a.py"}<|call|>',
        '<|channel|>analysis to=read code<|message|>{"path": "a.py"}<|call|>',
        '<|channel|>commentary<|channel|>commentary to=functions.read<|message|>{"path": "a.py"}<|call|>',
        '<|channel|>final<|end|><|start|>assistant<|channel|>commentary to=functions.read<|message|>'
        '{"path": "a.py"}<|call|>',
        '<|channel|>commentary to=functions.read<|message|>{"path": "a.py",}<|end|>',
        "<|channel|>commentary to=functions.read<|message|>{'path': 'a.py'<|call|>",
        '<|start|><|start|>assistant<|channel|>commentary to=functions.read<|message|>{"path": "a.py"}',
    ],
)  # fmt: skip
def test_headers_that_gpt_oss_writes(text: str) -> None:
    events = scan(harmony(), marked(text))
    answer = found(events)
    assert answer.calls == READ and answer.problems == [] and answer.text == ""
    assert source(events) == text and scan(harmony(), list(marked(text))) == events


@pytest.mark.parametrize(
    ("text", "said", "thought"),
    [
        (
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hi",
            "Hi",
            "hm",
        ),
        ("<|channel|>final<|message|>Hi<|return|>", "Hi", ""),
        ("<|channel|>commentary<|message|>I look.<|end|>", "I look.", ""),
        ("<|channel|>nonsense<|message|>Hi", "Hi", ""),
        ("<|message|>Hi", "Hi", ""),
        ("Hi there, no header at all.", "Hi there, no header at all.", ""),
        ("Hi", "Hi", ""),
        ("<|channel|>final Hi, the mark is missing", "Hi, the mark is missing", ""),
        (
            "<|channel|>analysis hm hm hm hm<|end|><|start|>assistant<|channel|>final<|message|>Hi",
            "Hi",
            "hm hm hm hm",
        ),
        ("<|channel|>final<|message|>H<|constrain|>i", "Hi", ""),
        ("<|channel|>analysis<|message|>a<|end|><|channel|>analysis<|message|>b", "", "a\n\nb"),
        (
            "<|channel|>commentary<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
            "a\n\nb",
            "",
        ),
        ("<|end|><|start|>assistant<|channel|>final<|message|>Hi", "Hi", ""),
        ("<|channel|>final<|message|>the &lt;|channel|> of <|chan", "the &lt;|channel|> of <|chan", ""),
        ("<|channel|>", "", ""),
        ("<|start|>assistant", "", ""),
    ],
)
def test_a_header_that_cannot_be_understood_costs_only_itself(text: str, said: str, thought: str) -> None:
    answer = found(scan(harmony(), marked(text)))
    assert (answer.text, answer.reasoning, answer.calls, answer.problems) == (said, thought, [], [])
    assert found(scan(harmony(), list(marked(text)))) == answer


def test_a_broken_call_of_gpt_oss_costs_only_itself() -> None:
    text = (
        "<|channel|>commentary to=functions.read<|message|>{'path': 'a<|call|>"
        '<|start|>assistant<|channel|>commentary to=functions.read<|message|>{"path": "a.py"}<|call|>'
    )
    answer = found(scan(harmony(), marked(text)))
    assert answer.calls == READ and answer.problems == [
        "the call of read is not valid JSON: a string is cut off"
    ]
    code = "<|channel|>analysis to=bash code<|message|>ls -l | wc<|call|>"
    assert found(scan(harmony(), marked(code))).calls == [("bash", "ls -l | wc")]


def test_a_model_that_writes_about_the_marks_is_not_misled() -> None:
    text = "<|channel|>final<|message|>" + "MARK".join(["a", "b"])
    events = scan(harmony(), marked(text).replace("MARK", "<|channel|>analysis<|message|>"))
    assert found(events).text == "a<|channel|>analysis<|message|>b"


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
