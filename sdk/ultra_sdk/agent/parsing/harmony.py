"""The channels of gpt-oss. A header that cannot be understood costs its own message and no other."""

from __future__ import annotations

import re
from collections.abc import Collection

from .calls import Found, from_json, from_value
from .lenient import NotJson, parse

MARKS = ("<|channel|>", "<|message|>", "<|call|>")
MESSAGE = re.compile(
    r"(?:<\|start\|>)?(?P<header>[^<]*(?:<\|(?:channel|constrain)\|>[^<]*)*)<\|message\|>"
    r"(?P<body>.*?)(?P<end><\|(?:call|end|return|start|channel)\|>|\Z)",
    re.DOTALL,
)
RECIPIENT = re.compile(r"\bto=(?:functions\.)?([\w.-]+)")
CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")


def is_harmony(text: str) -> bool:
    """Whether an answer has the marks of this form."""
    return any(mark in text for mark in MARKS)


def harmony(text: str, tools: Collection[str]) -> tuple[str, str, list[Found]]:
    """The words, the thoughts and the calls of an answer."""
    words: list[str] = []
    thoughts: list[str] = []
    found: list[Found] = []
    at = 0
    while (message := MESSAGE.search(text, at)) is not None:
        # The mark that begins the next message belongs to it.
        at = message.start("end") if message["end"] in ("<|start|>", "<|channel|>") else message.end()
        recipient = RECIPIENT.search(message["header"])
        channel = CHANNEL.search(message["header"])
        if recipient is not None:
            found += _call(recipient[1], message["body"], tools)
        elif channel is not None and channel[1] == "analysis":
            thoughts.append(message["body"])
        else:
            words.append(message["body"])
        if at >= len(text):
            break
    return "\n".join(words).strip(), "\n".join(thoughts).strip(), found


def _call(name: str, body: str, tools: Collection[str]) -> list[Found]:
    try:
        value, _ = parse(body)
    except NotJson:
        return from_json(body, tools)
    calls = from_value({"name": name, "arguments": value}, tools)
    return list(calls) if calls else from_json(f'{{"name": "{name}"}}', tools)
