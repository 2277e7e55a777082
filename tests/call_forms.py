"""One call in every form in which models write them."""

from __future__ import annotations

import json
from collections.abc import Callable

from hypothesis import strategies as st

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
    return f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"


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

READ = [("read", {"path": "a.py"})]
"""What `found` has of a call that reads ``a.py``."""
