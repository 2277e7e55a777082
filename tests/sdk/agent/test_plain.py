from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_sdk.agent.conversation import Called, Entry
from ultra_sdk.agent.guess import Guess, could_be, paths_in
from ultra_sdk.agent.parsing.calls import Call
from ultra_sdk.agent.plain import Plain
from ultra_sdk.agent.reply import Reply

TOOLS = {"bash": ["cmd"], "write": ["path", "content"], "edit": ["blocks", "path"], "read": ["path"]}
OLD = "import os\n\n\ndef f():\n    return 1\n\n\ndef g():\n    return 2\n"
FILES = {"a.py": OLD, "b.js": "let x = 1\nf(x)\n", "notes.md": "one\ntwo\nthree\nfour\n"}


def read(text: str, *named: str, form: str = "whole") -> Reply:
    driver = Plain(TOOLS, "blocks" if form == "blocks" else "whole")
    return driver.read(text, [], Guess(list(named), FILES.get))


def writes(text: str, *named: str) -> list[tuple[str, str]]:
    return [
        (call.arguments["path"], call.arguments["content"])
        for call in read(text, *named).calls
        if isinstance(call.arguments, dict)
    ]


def test_files_below_their_paths() -> None:
    text = "path: x/a.py\n```python\na = 1\n```\n\n`b.txt`:\n```\nb\n```\n**src/c.js**\n```js\nc\n```\n"
    assert writes(text) == [("x/a.py", "a = 1\n"), ("b.txt", "b\n"), ("src/c.js", "c\n")]


def test_one_command_and_what_is_below_it_is_not_used() -> None:
    text = "I look.\n```bash\n$ ls\n```\nOutput:\n```\na.py\n```\n```bash\nrm -rf x\n```\nDONE: all.\n"
    reply = read(text)
    assert reply.calls == (Call("bash", "ls"),) and reply.done is None
    driver = Plain(TOOLS)
    assert driver.enough(text[: text.index("Output")]) and not driver.enough("I look.\n```bash\n$ ls\n")
    assert driver.enough("DONE: it is.\nAnd\n") and not driver.enough("```python\nDONE = 1\nx\n")


@pytest.mark.parametrize("info", ["bash", "sh"])
def test_a_script_with_a_path_or_a_shebang_is_no_command(info: str) -> None:
    assert writes(f"path: run.sh\n```{info}\necho 1\n```") == [("run.sh", "echo 1\n")]
    assert writes(f"```{info}\n#!/bin/sh\necho 1\n```", "run.sh") == [("run.sh", "#!/bin/sh\necho 1\n")]


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("DONE: it works.", "it works."),
        ("**DONE:** it works.", "it works."),
        ("All good.\n\nDONE", ""),
        ("It is done: yes.", None),
        ("```python\nDONE: 1\n```", None),
    ],
)
def test_done(text: str, done: str | None) -> None:
    assert read(text).done == done


def test_a_file_is_named_by_the_prose_the_first_comment_or_the_task() -> None:
    new = OLD.replace("1", "3")
    fence = f"```python\n{new}```"
    assert writes(f"The corrected `a.py`:\n\n{fence}") == [("a.py", new)]
    assert writes(fence, "a.py") == [("a.py", new)]
    assert writes(f"```python\n# a.py\n{new}```") == [("a.py", new)]
    assert writes("```python\nprint(1)\n```", "new.py") == [("new.py", "print(1)\n")]
    assert writes(fence) == writes(fence, "a.py", "test_a.py") == []
    assert writes("See `a.py` and `b.js`:\n```js\nlet x = 2\nf(x)\n```") == [("b.js", "let x = 2\nf(x)\n")]


def test_paths_in_a_text() -> None:
    assert paths_in("see ./src/a.py, b.js. Or e.g. C, 1.5B of x.") == ["src/a.py", "b.js", "e.g", "1.5B"]
    assert paths_in("a" * 200_000 + " " + "a." * 100_000) == []


def test_a_quotation_is_no_edit() -> None:
    assert writes("`a.py` says:\n```python\n    return 1\n```") == []
    assert writes("`notes.md` says:\n```markdown\none\n```", "notes.md") == []
    assert read("Such as:\n```python\nx = 1\n```\nThat is all.").calls == ()
    assert not could_be(OLD, "def h():\n    pass\nprint(1)\n", "a.py")
    assert could_be(OLD, "def g():\n    return 3\n", "a.py") and could_be("\n", "x", "a.py")


def test_what_is_only_written_out_beside_a_change_is_no_edit() -> None:
    text = f"path: a.py\n```python\n{OLD}```\npath: b.js\n```js\nlet x = 2\n```"
    assert writes(text) == [("b.js", "let x = 2\n")]


def test_a_file_that_is_cut_off_is_a_problem() -> None:
    reply = read("path: a.py\n```python\ndef f():\n")
    assert not reply.calls and "cut off" in reply.problems[0]


def test_calls_in_other_forms_are_understood() -> None:
    tagged = '<tool_call>{"name": "read", "arguments": {"path": "a.py"}}</tool_call>'
    assert read(tagged).calls == (Call("read", {"path": "a.py"}),)
    blocks = "path: a.py\n<<<<<<< SEARCH\n    return 1\n=======\n    return 3\n>>>>>>> REPLACE\nDONE: so."
    reply = read(blocks, form="blocks")
    assert [call.name for call in reply.calls] == ["edit"] and reply.done == "so."


def test_the_prompt_is_short_and_fixed() -> None:
    driver = Plain(TOOLS)
    opening = driver.opening("")
    assert opening == driver.opening("") and sum(len(each.content or "") for each in opening) < 1000
    assert [each.role for each in opening] == ["system", "user", "assistant", "user", "assistant"]
    assert (driver.opening("Use tabs.")[0].content or "").endswith("\n\nUse tabs.")


@given(st.lists(st.sampled_from(["user", "assistant", "result"]), max_size=12))
def test_roles_alternate(roles: list[str]) -> None:
    entries = [Entry(role, f"{role} {i}") for i, role in enumerate(roles)]  # type: ignore[arg-type]
    said = [message.role for message in Plain(TOOLS).messages(entries)]
    assert all(a != b for a, b in zip(said, said[1:], strict=False)) and set(said) <= {"user", "assistant"}
    told = "".join(message.content or "" for message in Plain(TOOLS).messages(entries))
    assert all(entry.text in told for entry in entries)


@given(st.text(alphabet="a`\n~ ", max_size=40))
def test_a_shown_file_is_read_back(content: str) -> None:
    shown = Plain(TOOLS).shown("x.py", content)
    found = [call.arguments for call in Plain(TOOLS).read(shown, [], Guess([], {}.get)).calls]
    expected = content if content.endswith("\n") or not content else content + "\n"
    assert found == [{"path": "x.py", "content": expected}]


def test_calls_of_an_answer_need_no_other_words() -> None:
    entry = Entry("assistant", "x", calls=(Called("c1", "bash", "ls"),))
    assert [message.content for message in Plain(TOOLS).messages([entry])] == ["x"]
