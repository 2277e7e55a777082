"""Calls as GLM writes them: ``<tool_call>name``, then keys and values between tags of their own."""

from __future__ import annotations

import json
import re

from .cursor import Wait
from .functions import CALL_END
from .scanner import Scanner
from .strict import NotJson
from .tools import Tools

KEY, KEY_END, VALUE, VALUE_END = "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"

PAIR_MARKS = (KEY, KEY_END, VALUE, VALUE_END)

_PLAIN = re.compile(r"[^<]+")


class PairsCall:
    """Reads one call at a scanner's cursor, from its name on."""

    def __init__(self, scanner: Scanner, tools: Tools) -> None:
        self._scanner, self._cursor, self._tools = scanner, scanner.cursor, tools
        self._name = ""
        self._given: set[str] = set()

    def read(self) -> Wait[None]:
        """Take it. Raises `NotJson` if it is cut off."""
        self._name = self._cursor.take((yield from self._cursor.word())).removeprefix("functions.")
        self._scanner.start(self._name)
        while (yield from self._pair()):
            pass
        self._scanner.arguments("}" if self._given else "{}")

    def _pair(self) -> Wait[bool]:
        """Take the next pair, or find that there is none."""
        self._cursor.take((yield from self._cursor.blank()))
        tag = yield from self._cursor.literal((KEY, CALL_END, "<tool_call>"))
        if tag and tag != KEY:
            return False
        if tag == KEY:
            self._cursor.take(len(KEY))
            key = (yield from self._until(KEY_END, (VALUE,))).strip()
            self._cursor.take((yield from self._cursor.blank()))
            if (yield from self._cursor.literal((VALUE,))):
                self._cursor.take(len(VALUE))
                self._put(key, (yield from self._until(VALUE_END, (KEY, CALL_END, "<tool_call>"))))
            return True
        if (yield from self._cursor.char()) == "":
            if self._cursor.cut:
                raise self._cut_off()
            return False
        self._cursor.take(1)
        self._cursor.run(_PLAIN)
        return True

    def _put(self, key: str, value: str) -> None:
        if not key or key in self._given:
            return
        json_value = json.dumps(value, ensure_ascii=False)
        if not self._tools.is_text(self._name, key):
            json_value = self._tools.value(value)
        name = json.dumps(key, ensure_ascii=False)
        self._scanner.arguments(f"{', ' if self._given else '{'}{name}: {json_value}")
        self._given.add(key)

    def _until(self, close: str, after: tuple[str, ...]) -> Wait[str]:
        """Take everything up to a closing tag that has one of ``after``, or nothing, behind it."""
        pieces: list[str] = []
        while True:
            pieces.append(self._cursor.run(_PLAIN))
            if (yield from self._cursor.char()) == "":
                raise self._cut_off()
            if (yield from self._cursor.literal((close,))):
                behind = yield from self._cursor.blank(len(close))
                last = (yield from self._cursor.char(behind)) == ""
                if last or (yield from self._cursor.literal(after, behind)):
                    self._cursor.take(len(close))
                    return "".join(pieces)
            pieces.append(self._cursor.take(1))

    def _cut_off(self) -> NotJson:
        return NotJson(f"the call of {self._name} is cut off; write it again, shorter", self._cursor.position)
