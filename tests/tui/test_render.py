from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tui_kit import palette, plain
from ultra_tui.markdown.render import code_line, render_markdown
from ultra_tui.text import line_width

PALETTE = palette()


def rows(source: str, width: int = 40) -> list[str]:
    return plain(render_markdown(source, width, PALETTE))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("# Title\ntext", ["Title", "", "text"]),
        ("one\ntwo", ["one", "two"]),
        ("a **b** *c* `d` ~~e~~", ["a b c d e"]),
        ("- a\n- b\n  - c\n    - d", ["• a", "• b", "  ◦ c", "    ▪ d"]),
        ("9. a\n10. b", ["9. a", "10. b"]),
        ("- a\n\n- b", ["• a", "", "• b"]),
        ("1. a\n\n   more\n2. b", ["1. a", "", "   more", "2. b"]),
        ("> q\n> > r", ["▎ q", "▎", "▎ ▎ r"]),
        ("a\n\n---\n\nb", ["a", "", "─" * 40, "", "b"]),
        ("[label](http://x.y)", ["label (http://x.y)"]),
        ("<http://x.y>", ["http://x.y"]),
        ("![picture](p.png)", ["picture (p.png)"]),
        ("<b>raw</b> &amp; \\*", ["<b>raw</b> & *"]),
        ("[x]: /url", ["[x]: /url"]),
        ("    code", [" code"]),
        ("", []),
    ],
)
def test_blocks(source: str, expected: list[str]) -> None:
    assert rows(source) == expected


def test_tables_are_aligned_and_wrapped() -> None:
    source = "| name | size |\n|:--|--:|\n| a long name that wraps | 7 |"
    assert rows(source, 24) == [
        "name              │ size",
        "──────────────────┼─────",
        "a long name that  │    7",
        "wraps             │",
    ]


def test_code_in_a_list_keeps_its_panel_and_language() -> None:
    assert rows("- do\n  ```sh\n  ls\n  ```", 20) == ["• do", "", "                 sh", "   ls"]


def test_markup_like_text_is_not_markup() -> None:
    assert rows("[red]no[/red] [/]") == ["[red]no[/red] [/]"]


def styles_of(source: str, text: str) -> list[object]:
    return [style for line in render_markdown(source, 40, PALETTE) for piece, style in line if piece == text]


def test_styles_say_what_the_text_is() -> None:
    assert styles_of("**b**", "b")[0].bold  # type: ignore[attr-defined]
    assert styles_of("*i*", "i")[0].italic  # type: ignore[attr-defined]
    assert styles_of("`c`", "c")[0].bgcolor == PALETTE.inline_code.bgcolor  # type: ignore[attr-defined]
    assert styles_of("```python\ndef f(): pass\n```", "def") == [PALETTE.keyword]


def test_tabs_in_code_reach_their_stops() -> None:
    lines = code_line([((), "a\tb")], 20, PALETTE)
    assert plain(lines) == [" a   b"]


@given(st.text(st.sampled_from("ab 漢*`|-#>1.\n[](~"), max_size=120), st.integers(20, 60))
@settings(max_examples=150, deadline=None)
def test_nothing_crashes_or_overflows_by_more_than_a_nested_margin(source: str, width: int) -> None:
    for line in render_markdown(source, width, PALETTE):
        assert line_width(line) <= width + 48
