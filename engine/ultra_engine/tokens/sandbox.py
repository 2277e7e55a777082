"""A Jinja environment for templates that come out of model files: no way out, no way to hang.

Jinja's own sandbox keeps a template from reaching Python's internals. It does not bound work: a few nested
loops, a macro that calls itself twice or a string that doubles would run for ever or eat the memory. So every
loop iteration and call is counted, and strings may not grow beyond a limit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.filters import do_format, do_indent, do_join
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

STEP_LIMIT = 2_000_000
"""Loop iterations in one rendering, a second's worth."""

CALL_STEPS = 10
"""What a call counts: about its time in loop iterations."""

SIZE_LIMIT = 32 << 20
"""Characters of any text made by an operator or a call, and of the whole output."""

ITEM_LIMIT = 1 << 20
"""Items of a list made that way."""

_steps: ContextVar[int] = ContextVar("steps")


_UNUSED = ("batch", "center", "slice", "urlize", "wordwrap", "xmlattr")
"""Filters that no chat template needs and that can make a small text huge."""

_WIDE = re.compile(r"\d{6}|\*")  # in a format: a field width beyond reason, or one taken from a value


class TemplateLimit(Exception):
    """The template wants to do more than any honest one does."""


def start_counting() -> None:
    """Give the rendering that follows in this context its full budget."""
    _steps.set(STEP_LIMIT)


def _count(steps: int) -> None:
    left = _steps.get() - steps
    if left < 0:
        raise TemplateLimit(f"it takes more than {STEP_LIMIT:,} steps")
    _steps.set(left)


def _counted(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        _count(1)
        yield item


def _sized(value: Any) -> Any:
    if isinstance(value, str) and len(value) > SIZE_LIMIT:
        raise TemplateLimit(f"it makes a text of more than {SIZE_LIMIT:,} characters")
    if isinstance(value, (list, tuple)) and len(value) > ITEM_LIMIT:
        raise TemplateLimit(f"it makes a list of more than {ITEM_LIMIT:,} items")
    return value


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """Set up as the hub's chat templates expect: trimmed blocks, break and continue, plain `tojson`."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation]
        )
        for name in _UNUSED:
            del self.filters[name]
        self.filters |= {"tojson": _tojson, "_counted": _counted, "_sized": _sized}
        self.filters |= {"replace": _replace, "join": _join, "indent": _indent, "format": _format}
        self.globals |= {"raise_exception": _raise, "strftime_now": _strftime_now}

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        for loop in list(source.find_all(nodes.For)):
            loop.iter = _filtered(loop.iter, "_counted")
        _measure_joins(source)
        return super()._generate(source, *args, **kwargs)

    def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        _count(CALL_STEPS)
        text = getattr(getattr(obj, "__wrapped__", obj), "__self__", None)
        if isinstance(text, str):
            _check_method(text, obj.__name__, [*args, *kwargs.values()])
        return _sized(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" and max(abs(left), abs(right)) > 1000:
            raise TemplateLimit("it raises a number to a power beyond reason")
        if operator == "%" and isinstance(left, str) and _WIDE.search(left):
            raise TemplateLimit("it formats with a width beyond reason")
        if operator == "*":
            for times, value in ((left, right), (right, left)):
                if isinstance(times, int) and hasattr(value, "__len__") and len(value) * times > SIZE_LIMIT:
                    raise TemplateLimit("it repeats a text beyond reason")
        return _sized(super().call_binop(context, operator, left, right))


def _check_method(text: str, name: str, args: list[Any]) -> None:
    """Refuse a call of a string's method that would make it huge."""
    wide = any(isinstance(arg, int) and arg > SIZE_LIMIT // (len(text) + 1) for arg in args)
    if wide and name in ("center", "ljust", "rjust", "zfill", "expandtabs", "format"):
        raise TemplateLimit("it pads a text beyond reason")
    if name.startswith("format") and _WIDE.search(text):
        raise TemplateLimit("it formats with a width beyond reason")
    if name == "join" and len(text) > 1000:
        raise TemplateLimit("it joins with a separator beyond reason")
    if name == "replace" and len(args) > 1 and text.count(str(args[0])) * len(str(args[1])) > SIZE_LIMIT:
        raise TemplateLimit("it replaces a text by one beyond reason")


def _replace(value: Any, old: str, new: str, count: int = -1) -> str:
    _check_method(str(value), "replace", [old, new])
    return str(value).replace(old, new, count)


@jinja2.pass_eval_context
def _join(context: nodes.EvalContext, value: Iterable[Any], d: str = "", attribute: str | None = None) -> str:
    _check_method(str(d), "join", [])
    return str(_sized(do_join(context, value, d, attribute)))


def _format(value: str, *args: Any, **kwargs: Any) -> str:
    _check_method(value, "format", [*args, *kwargs.values()])
    return str(do_format(value, *args, **kwargs))


def _indent(value: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    if (width if isinstance(width, int) else len(width)) > 1000:
        raise TemplateLimit("it indents beyond reason")
    return str(_sized(do_indent(value, width, first, blank)))


def _filtered(node: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _measure_joins(node: nodes.Node) -> None:
    """Replace every ``a ~ b`` by ``(a ~ b) | _sized``, in place."""
    for field, value in list(node.iter_fields()):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, nodes.Node):
                _measure_joins(child)
        if isinstance(value, nodes.Concat):
            setattr(node, field, _filtered(value, "_sized"))
        elif isinstance(value, list):
            value[:] = [_filtered(v, "_sized") if isinstance(v, nodes.Concat) else v for v in value]


class _Generation(Extension):
    """``{% generation %}`` marks the assistant's part for training; here it is only its body."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as transformers writes it: no HTML escapes, letters as they are."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


Renderer = Callable[..., Iterator[str]]


def compile_template(source: str) -> Renderer:
    """Raises `jinja2.TemplateError` for bad syntax. The result yields the output in pieces."""
    return TemplateEnvironment().from_string(source).generate
