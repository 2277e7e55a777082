"""A Jinja environment for templates that come out of model files: no way out, no way to hang.

Jinja's own sandbox keeps a template from reaching Python's internals. It does not bound work: a few nested
loops, a macro that calls itself twice or a string that doubles would run for ever or eat the memory. So every
loop iteration and call is counted, and strings may not grow beyond a limit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

STEP_LIMIT = 2_000_000
"""Loop iterations and calls in one rendering."""

SIZE_LIMIT = 32 << 20
"""Characters or items of any value made by an operator, and of the whole output."""

_steps: ContextVar[int] = ContextVar("steps")


class TemplateLimit(Exception):
    """The template wants to do more than any honest one does."""


def start_counting() -> None:
    """Give the rendering that follows in this context its full budget."""
    _steps.set(STEP_LIMIT)


def _count(steps: int = 1) -> None:
    left = _steps.get() - steps
    if left < 0:
        raise TemplateLimit(f"it takes more than {STEP_LIMIT:,} steps")
    _steps.set(left)


def _counted(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        _count()
        yield item


def _sized(value: Any) -> Any:
    if isinstance(value, (str, list, tuple)) and len(value) > SIZE_LIMIT:
        raise TemplateLimit(f"it makes a value of more than {SIZE_LIMIT:,} characters or items")
    return value


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """Set up as the hub's chat templates expect: trimmed blocks, break and continue, plain `tojson`."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation]
        )
        self.filters |= {"tojson": _tojson, "_counted": _counted, "_sized": _sized}
        self.globals |= {"raise_exception": _raise, "strftime_now": _strftime_now}

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        for loop in list(source.find_all(nodes.For)):
            loop.iter = _filtered(loop.iter, "_counted")
        _measure_joins(source)
        return super()._generate(source, *args, **kwargs)

    def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        _count()
        return _sized(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" and max(abs(left), abs(right)) > 1000:
            raise TemplateLimit("it raises a number to a power beyond reason")
        if operator == "*":
            for times, value in ((left, right), (right, left)):
                if isinstance(times, int) and hasattr(value, "__len__") and len(value) * times > SIZE_LIMIT:
                    raise TemplateLimit("it repeats a text beyond reason")
        return _sized(super().call_binop(context, operator, left, right))


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
