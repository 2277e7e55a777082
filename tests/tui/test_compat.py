from __future__ import annotations

import pytest
from textual._xterm_parser import XTermParser
from textual.events import Key
from ultra_tui.compat import teach_newline_keys
from ultra_tui.prompt import NEWLINE_KEYS


@pytest.mark.parametrize(
    "sequence", ["\x1b\r", "\n", "\x1b[13;2u", "\x1b[13;3u", "\x1b[27;2;13~", "\x1b[27;3;13~"]
)
def test_what_terminals_send_for_a_new_line(sequence: str) -> None:
    teach_newline_keys()
    keys = [event.key for event in XTermParser().feed(sequence) if isinstance(event, Key)]
    assert len(keys) == 1 and keys[0] in NEWLINE_KEYS


def test_enter_is_still_enter() -> None:
    teach_newline_keys()
    assert [event.key for event in XTermParser().feed("\r") if isinstance(event, Key)] == ["enter"]
