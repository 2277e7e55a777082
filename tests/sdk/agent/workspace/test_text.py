from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_sdk.agent.workspace.text import UNKNOWN, Text, Undecodable, Unencodable, unified

ENDS = st.sampled_from(["\n", "\r\n"])
LINES = st.lists(st.tuples(st.text("ab é漢😀\t", max_size=4), ENDS), max_size=8)


@given(st.binary(max_size=80))
def test_what_can_be_decoded_is_written_back_unchanged(data: bytes) -> None:
    try:
        text = Text.decode(data)
    except Undecodable:
        assert b"\0" in data or data[:2] in (b"\xff\xfe", b"\xfe\xff")
        return
    assert text.encode() == data
    assert text.with_content(text.content).encode() == data


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("été\n".encode(), "utf-8"),
        (codecs.BOM_UTF8 + "été\r\n".encode(), "utf-8"),
        ("été 漢\r\n".encode("utf-16"), "utf-16-le"),
        (codecs.BOM_UTF16_BE + "été 漢\n".encode("utf-16-be"), "utf-16-be"),
        ("été\n".encode("utf-32"), "utf-32-le"),
        ("# coding: latin-1\nété = 1\n".encode("latin-1"), "iso8859-1"),
        ("#!/usr/bin/python\n# -*- coding: gbk -*-\n漢字\n".encode("gbk"), "gbk"),
        ("été\n".encode("latin-1"), UNKNOWN),
        ("漢字\n".encode("gbk"), UNKNOWN),
        ("# coding: no-such-codec\né\n".encode("latin-1"), UNKNOWN),
    ],
)
def test_encodings_round_trip_and_edits_stay_in_them(data: bytes, encoding: str) -> None:
    text = Text.decode(data)
    assert text.encoding == encoding and text.encode() == data
    longer = text.with_content(text.content + "x\n")
    assert longer.encode().startswith(data) and Text.decode(longer.encode()).content == text.content + "x\n"


def test_binary_is_refused() -> None:
    for data in (b"\x7fELF\0\0", b"\xff\xfea", codecs.BOM_UTF16_LE + b"\x00\xd8"):
        with pytest.raises(Undecodable):
            Text.decode(data)


def test_characters_that_the_file_cannot_hold_are_refused() -> None:
    latin = Text.decode("# coding: latin-1\né\n".encode("latin-1"))
    assert latin.with_content(latin.content + "ü\n").encode().endswith(b"\xfc\n")
    with pytest.raises(Unencodable, match=r"U\+20AC"):
        latin.with_content("€")
    unknown = Text.decode("x = 'é'\n".encode("latin-1"))
    assert unknown.with_content("y = 'é'\n").encode() == b"y = '\xe9'\n"
    with pytest.raises(Unencodable, match="not known"):
        unknown.with_content("x = 'ü'\n")
    with pytest.raises(Unencodable):
        Text().with_content("\ud800")


@given(LINES, st.booleans(), st.data())
def test_only_touched_lines_differ(lines: list[tuple[str, str]], final: bool, data: st.DataObject) -> None:
    """Replace one line: every other line keeps its bytes, with its ending."""
    raw = "".join(line + end for line, end in lines)
    raw = raw if final else raw.removesuffix("\n").removesuffix("\r")
    text = Text.decode(raw.encode())
    if not text.lines:
        return
    at = data.draw(st.integers(0, len(text.lines) - 1))
    changed = [*text.lines]
    changed[at] = "changed"
    content = "\n".join(changed) + ("\n" if text.content.endswith("\n") else "")
    after = text.with_content(content)
    assert after.content == content
    assert after.ends == text.ends


@given(LINES, st.text("ab\n", max_size=12))
def test_new_content_is_what_was_asked(lines: list[tuple[str, str]], content: str) -> None:
    text = Text.decode("".join(line + end for line, end in lines).encode())
    after = text.with_content(content)
    assert after.content == content
    assert Text.decode(after.encode()).content == content


def test_inserted_lines_take_the_ending_of_the_line_above() -> None:
    mixed = Text.decode(b"a\r\nb\nc\r\n")
    assert mixed.with_content("a\nA\nb\nB\nc\n").encode() == b"a\r\nA\r\nb\nB\nc\r\n"
    assert mixed.with_content("new\na\nb\nc\n").encode().startswith(b"new\r\na\r\n")


def test_a_final_newline_can_be_added_and_taken() -> None:
    open_end = Text.decode(b"a\r\nb")
    assert open_end.with_content("a\nb\n").encode() == b"a\r\nb\r\n"
    assert open_end.with_content("a\nb\nc").encode() == b"a\r\nb\r\nc"
    assert Text.decode(b"a\r\nb\r\n").with_content("a\nb").encode() == b"a\r\nb"


def test_old_mac_files_keep_their_endings() -> None:
    old = Text.decode(b"a\rb\rc")
    assert old.lines == ["a", "b", "c"]
    assert old.with_content("a\nB\nc").encode() == b"a\rB\rc"


def test_what_a_model_wrote_is_unified() -> None:
    assert unified("\ufeffa\r\nb\n\r") == "a\nb\n\r"


def test_long_files_are_laid_over_each_other_too() -> None:
    raw = "".join(f"{i}\r\n" if i % 3 else f"{i}\n" for i in range(9000))
    text = Text.decode(raw.encode())
    after = text.with_content(text.content.replace("\n10\n", "\nten\n").replace("\n8000\n", "\neight\n"))
    assert after.ends == text.ends
