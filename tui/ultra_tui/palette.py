"""The styles of the transcript, derived from the colours of Textual's theme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pygments.token import Token
from rich.style import Style
from textual.color import Color

TokenType = tuple[str, ...]


@dataclass(frozen=True)
class Palette:
    """One style for each meaning. Every style carries its background, as the line API needs it."""

    text: Style
    muted: Style
    strong: Style
    brand: Style
    user: Style
    user_bar: Style
    heading: Style
    link: Style
    bullet: Style
    quote: Style
    rule: Style
    inline_code: Style
    code: Style
    code_label: Style
    keyword: Style
    string: Style
    number: Style
    name: Style
    builtin: Style
    comment: Style
    ok: Style
    warning: Style
    error: Style
    chip: Style
    selection: Style

    def token(self, kind: TokenType) -> Style:
        """The style of a Pygments token: that of its nearest ancestor in the table."""
        while kind:
            field = _TOKENS.get(kind)
            if field is not None:
                style: Style = getattr(self, field)
                return style
            kind = kind[:-1]
        return self.code


_TOKENS: dict[TokenType, str] = {
    Token.Keyword: "keyword",
    Token.Operator.Word: "keyword",
    Token.Literal.String: "string",
    Token.Literal.Number: "number",
    Token.Keyword.Constant: "number",
    Token.Comment: "comment",
    Token.Name.Function: "name",
    Token.Name.Class: "name",
    Token.Name.Tag: "name",
    Token.Name.Decorator: "builtin",
    Token.Name.Builtin: "builtin",
    Token.Name.Attribute: "builtin",
    Token.Name.Exception: "builtin",
    Token.Generic.Inserted: "ok",
    Token.Generic.Deleted: "error",
    Token.Generic.Heading: "keyword",
    Token.Generic.Prompt: "muted",
}


def _blend(ground: Color, color: Color, amount: float) -> Color:
    """Some of ``color`` on ``ground``; the terminal's own colours cannot be mixed."""
    mixable = ground.ansi is None and color.ansi is None
    return ground.blend(color, amount, alpha=1.0) if mixable else ground


def make_palette(variables: Mapping[str, str]) -> Palette:
    """Build the palette from the variables of a theme (``App.get_css_variables``)."""
    fore = Color.parse(variables["foreground"])
    ground = Color.parse(variables["background"])
    ansi = fore.ansi is not None or ground.ansi is not None

    def style(color: Color, back: Color = ground, **marks: Any) -> Style:
        return Style(color=color.rich_color, bgcolor=back.rich_color, **marks)

    def named(name: str) -> Color:
        return Color.parse(variables[name])

    raised, tinted = _blend(ground, fore, 0.055), _blend(ground, named("primary"), 0.13)
    dim = fore if ansi else ground.blend(fore, 0.58, alpha=1.0)
    return Palette(
        text=style(fore),
        muted=style(dim, dim=ansi),
        strong=style(fore, bold=True),
        brand=style(named("primary"), bold=True),
        user=style(fore, tinted),
        user_bar=style(Color.parse(variables["primary"]), tinted, bold=True),
        heading=style(named("primary"), bold=True),
        link=style(named("primary"), underline=True),
        bullet=style(named("primary")),
        quote=style(dim, italic=True),
        rule=style(_blend(ground, fore, 0.25)),
        inline_code=style(named("accent"), raised),
        code=style(fore, raised),
        code_label=style(dim, raised),
        keyword=style(named("primary"), raised, bold=True),
        string=style(named("success"), raised),
        number=style(named("warning"), raised),
        name=style(named("accent"), raised),
        builtin=style(named("secondary"), raised),
        comment=style(dim, raised, italic=True),
        ok=style(named("success")),
        warning=style(named("warning")),
        error=style(named("error"), bold=True),
        chip=style(ground, named("primary"), bold=True),
        selection=style(fore, _blend(ground, named("primary"), 0.5)),
    )
