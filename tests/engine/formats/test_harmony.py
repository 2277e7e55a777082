"""gpt-oss: messages in channels, with headers whole and broken."""

from __future__ import annotations

import pytest
from call_forms import CODE, READ, gpt_oss
from hypothesis import given
from hypothesis import strategies as st
from scans import found, harmony, marked, pieces_of, scan, source


@given(content=CODE, cuts=st.sets(st.integers(0, 400), max_size=8))
def test_code_comes_through_harmony(content: str, cuts: set[int]) -> None:
    text = f"<|channel|>analysis<|message|>{content}<|end|><|start|>assistant{gpt_oss('src/a b.py', content)}"
    events = scan(harmony(), pieces_of(marked(text), cuts))
    assert events == scan(harmony(), marked(text)) and source(events) == text
    answer = found(events)
    assert answer.calls == [("write", {"path": "src/a b.py", "content": content})]
    assert (answer.problems, answer.text, answer.reasoning) == ([], "", content)


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
