from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_sdk.agent.errors import BadEdit
from ultra_sdk.agent.parsing.answer import read_answer, whole_files
from ultra_sdk.agent.parsing.calls import Call

TOOLS = {
    "read": ["path", "start", "lines"],
    "write": ["path", "content"],
    "edit": ["blocks", "path"],
    "bash": ["cmd", "timeout"],
}
READ = Call("read", {"path": "a.py"})
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
        ["<parameter=other>", "</parameter>x", "<tool_call", "<function", "print('</function>')"]
    ),
    max_size=6,
).map("\n".join)


def hermes(path: str, content: str) -> str:
    return (
        "<tool_call>\n"
        + json.dumps({"name": "write", "arguments": {"path": path, "content": content}})
        + "\n</tool_call>"
    )


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


def gpt_oss(path: str, content: str) -> str:
    body = json.dumps({"path": path, "content": content})
    return f"<|channel|>commentary to=functions.write <|constrain|>json<|message|>{body}<|call|>"


def fenced(path: str, content: str) -> str:
    return (
        "```json\n" + json.dumps({"name": "write", "arguments": {"path": path, "content": content}}) + "\n```"
    )


@pytest.mark.parametrize("form", [hermes, qwen_coder, glm, gpt_oss, fenced])
@given(content=CODE)
def test_code_comes_through_every_form(form: Callable[[str, str], str], content: str) -> None:
    text = form("src/a b.py", content)
    if form is not gpt_oss:
        text = f"I write it.\n{text}\nDone."
    answer = read_answer(text, TOOLS)
    assert answer.problems == () and answer.calls == (
        Call("write", {"path": "src/a b.py", "content": content}),
    )


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "read", "arguments": {"path": "a.py"}}',
        '<tool_call>\n{"name": "read", "arguments": {"path": "a.py"}\n</tool_call>',
        "<tool_call>{'name': 'read', 'arguments': {'path': 'a.py',}}</tool_call>",
        '<tools>{"name": "read", "arguments": {"path": "a.py"}}</tools>',
        '<tool_call>{"name": "read", "arguments": "{\\"path\\": \\"a.py\\"}"}</tool_call>',
        '```json\n{"name": "read", "arguments": {"path": "a.py"}}\n```',
        'I read it:\n{"name": "read", "arguments": {"path": "a.py"}}\n',
        '{"name": "read",\n "parameters": {\n  "path": "a.py"}}',
        '[TOOL_CALLS][{"name": "read", "arguments": {"path": "a.py"}}]',
        '<|python_tag|>{"name": "functions.read", "parameters": {"path": "a.py"}}<|eot_id|>',
        '{"function": {"name": "read", "arguments": {"path": "a.py"}}}',
        '{"tool": "read", "path": "a.py"}',
        '{"read": {"path": "a.py"}}',
        "<function=read><parameter=path>a.py</parameter></function>",
        "<tool_call>\n<function=read>\n<parameter=path>\na.py\n</function>\n</tool_call>",
        "<tool_call>\n<function=read>\n<parameter=path>\na.py\n</parameter>\n</tool_call>",
        "<function=read>\n<parameter=path>\na.py\n</parameter>\n</function>\n</tool_call>",
        '<function="read"><parameter="path">a.py</parameter></function>',
        "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a.py</arg_value>\n</tool_call>",
        '<|start|>assistant to=functions.read<|channel|>commentary json<|message|>{"path": "a.py"}<|call|>',
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.read"
        ' <|constrain|>json<|message|>{"path": "a.py"}<|call|>',
        '<think>\nFirst {"name": "bash"} no.\n</think>\n{"name": "read", "arguments": {"path": "a.py"}}',
    ],
)
def test_forms_that_models_emit(text: str) -> None:
    answer = read_answer(text, TOOLS)
    assert answer.calls == (READ,) and answer.problems == ()


def test_several_calls_and_the_words_around_them() -> None:
    text = "First\n" + hermes("a", "1") + "\nthen\n" + qwen_coder("b", "2") + "\n" + glm("c", "3") + "\nend"
    answer = read_answer(text, TOOLS)
    assert [call.arguments["path"] for call in answer.calls if isinstance(call.arguments, dict)] == [
        "a",
        "b",
        "c",
    ]
    assert answer.text.split() == ["First", "then", "end"]
    both = '[{"name": "read", "arguments": {"path": "a.py"}}, {"name": "bash", "arguments": {"cmd": "ls"}}]'
    assert [call.name for call in read_answer(both, TOOLS).calls] == ["read", "bash"]


def test_parameters_close_in_odd_ways() -> None:
    text = (
        "<function=write>\n<parameter=path>a</function>\n<parameter=content>\nx < y\n</function></tool_call>"
    )
    assert read_answer(text, TOOLS).calls == (Call("write", {"path": "a", "content": "x < y"}),)
    text = "<function=write>\n<parameter=path>\na\n<parameter=content>\nx\n</function>"
    assert read_answer(text, TOOLS).calls == (Call("write", {"path": "a", "content": "x"}),)
    text = (
        "<function=write>\n<parameter=junk>\n1\n</parameter>\n<parameter=path>\na\n</parameter>\n</function>"
    )
    assert read_answer(text, TOOLS).calls == (Call("write", {"path": "a"}),)


def test_thoughts_and_words() -> None:
    answer = read_answer("<think>why</think>\nBecause.", TOOLS)
    assert (answer.thought, answer.text, answer.calls) == ("why", "Because.", ())
    assert read_answer("why</think>Because.", TOOLS).thought == "why"
    assert read_answer("<think>never ends", TOOLS).thought == "never ends"
    text = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hello"
    answer = read_answer(text, TOOLS)
    assert (answer.thought, answer.text) == ("hm", "Hello")


def test_a_channel_with_an_odd_header_costs_only_itself() -> None:
    text = (
        "<|channel|>commentary<|constrain|>json to=functions.nope<|message|>{}<|call|>"
        '<|start|>assistant<|channel|>commentary to=functions.read<|message|>{"path": "a.py"}<|call|>'
    )
    answer = read_answer(text, TOOLS)
    assert answer.calls == (READ,) and "there is no tool nope" in answer.problems[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('<tool_call>{"name": "write", "arguments": {"path": "a", "content": "half', "a string is cut off"),
        ("<tool_call>\n<function=write>\n<parameter=content>\nhalf of", "the call of write is cut off"),
        ("<tool_call>write\n<arg_key>content</arg_key>\n<arg_value>half", "the call of write is cut off"),
        (
            '<tool_call>{"name": "rm", "arguments": {}}</tool_call>',
            "there is no tool rm; there are: read, write",
        ),
        ("<tool_call>\n<function=rm>\n</function>\n</tool_call>", "there is no tool rm"),
        ("<tool_call>rm\n</tool_call>", "there is no tool rm"),
        ('<tool_call>{"arguments": {}}</tool_call>', "has no name"),
        ("<tool_call></tool_call>", "is empty"),
        ("<tool_call>[1, 2]</tool_call>", "has no name"),
        ("```bash\nls\n```\n```sh\npwd\n```", "2 commands; write one"),
        ("```bash\nrm -rf build/", "cut off"),
        ("<|channel|>commentary to=functions.read<|message|>{'path': 'a<|call|>", "cut off"),
    ],
)
def test_what_is_no_call_is_told_and_never_run(text: str, said: str) -> None:
    answer = read_answer(text, TOOLS)
    assert answer.calls == () and said in answer.problems[0]


def test_a_fenced_command_is_a_call_where_there_is_no_other() -> None:
    answer = read_answer("I look:\n```bash\n$ ls -l\n$ pwd\n```\n", TOOLS)
    assert answer.calls == (Call("bash", "ls -l\npwd"),)
    assert read_answer("```bash\nls\n```", {"read": ["path"]}).calls == ()
    assert read_answer("```bash\nls\n```", TOOLS, shell=None).calls == ()
    assert read_answer("```python\nprint(1)\n```", TOOLS).calls == ()
    assert read_answer('The JSON {"name": "x"} is\n{not a call}\n', TOOLS).calls == ()


def test_blocks_are_an_edit() -> None:
    text = "a.py\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"
    assert read_answer(text, TOOLS).calls == (Call("edit", text),)


PARTS = (
    "<tool_call>|</tool_call>|<function=read>|</function>|<parameter=path>|</parameter>|a|\n|read|```|```bash|{|"
    '{"name": "read"}|<~channel~>|<~message~>|<~call~>|to=read|<arg_key>|</arg_value>|</think>'
).split("|")


@given(st.lists(st.sampled_from([part.replace("~", "|") for part in PARTS]), max_size=10))
def test_any_answer_is_read(parts: list[str]) -> None:
    answer = read_answer("".join(parts), TOOLS)
    assert all(call.name in TOOLS for call in answer.calls) and all(answer.problems)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("```python\nx\n```", [(None, "x\n")]),
        ("a.py\n```python\nx\n```\nand\n\n**b/c.ts**\n\n```ts\ny\n```", [("a.py", "x\n"), ("b/c.ts", "y\n")]),
        ("### `src/a.py`:\n```\nx\n```", [("src/a.py", "x\n")]),
        ("```python title=\"src/a.py\"\nx\n```", [("src/a.py", "x\n")]),
        ("```python:src/a.py\nx\n```", [("src/a.py", "x\n")]),
        ("```src/a.py\nx\n```", [("src/a.py", "x\n")]),
        ("a.md\n```markdown\n#\n```sh\nmake\n```\nend\n```\n", [("a.md", "#\n```sh\nmake\n```\nend\n")]),
        ("a.md\n````\n```\nx\n```\n````", [("a.md", "```\nx\n```\n")]),
        ("Here it is:\n~~~\nx\n~~~", [(None, "x\n")]),
        ("Run:\n```bash\nls\n```\n", []),
        ("run.sh\n```bash\nls\n```\n", [("run.sh", "ls\n")]),
        ("Nothing.", []),
        ("a.py\r\n```python\r\nx\r\n```\r\n", [("a.py", "x\n")]),
    ],
)  # fmt: skip
def test_whole_files(text: str, found: list[tuple[str | None, str]]) -> None:
    assert whole_files(text) == found


def test_half_a_file_is_never_taken_for_all_of_it() -> None:
    with pytest.raises(BadEdit, match="cut off"):
        whole_files("a.py\n```python\nx = 1\ny =")
