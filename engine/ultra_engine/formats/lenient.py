"""The lenient reader over a text that is all here."""

from __future__ import annotations

import json
from typing import Any

from .cursor import Cursor, finished
from .strict import NotJson, Strict

__all__ = ["NotJson", "parse", "whole"]


def parse(text: str, start: int = 0) -> tuple[Any, int]:
    """The value that begins at ``start``, and where it ends. Raises `NotJson`.

    parse("{'path': 'a.py', 'all': True,}")   # ({"path": "a.py", "all": True}, 30)
    """
    cursor, found = Cursor(text[start:], ended=True), list[str]()
    try:
        finished(Strict(cursor, found.append).value())
    except NotJson as error:
        raise NotJson(str(error), start + error.at) from None
    return json.loads("".join(found)), start + cursor.position


def whole(text: str) -> Any:
    """The value that ``text`` is, with white space around it. Raises `NotJson`."""
    value, end = parse(text)
    if text[end:].strip():
        raise NotJson("something follows it", end)
    return value
