"""Rewriting one function, method or class of a Python file: small models write whole definitions best."""

from __future__ import annotations

import ast

from ..errors import AmbiguousMatch, BadEdit, NoMatch
from ..workspace.text import split_lines

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def replace_symbol(content: str, name: str, source: str, where: str = "the file") -> str:
    """Put ``source`` in the place of the definition ``name`` (``Class.method`` for an inner one).

    replace_symbol("def f():\\n    return 1\\n", "f", "def f():\\n    return 2\\n")

    Decorators belong to the definition. Raises `NoMatch`, `AmbiguousMatch`, `BadEdit`.
    """
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError) as error:
        raise BadEdit(f"{where} cannot be parsed ({error}), so no definition is found in it") from None
    found = _find(tree, name.split("."))
    if not found:
        names = ", ".join(_names(tree)[:40])
        raise NoMatch(f"{where} does not define {name}; it defines: {names}")
    if len(found) > 1:
        places = ", ".join(str(node.lineno) for node in found)
        raise AmbiguousMatch(
            f"{where} defines {name} {len(found)} times (lines {places}); use SEARCH/REPLACE"
        )
    node = found[0]
    start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1
    assert node.end_lineno is not None
    lines = split_lines(content)
    new = _shifted(source, lines[start][: len(lines[start]) - len(lines[start].lstrip())])
    result = [*lines[:start], *new, *lines[node.end_lineno :]]
    return "\n".join(result) + ("\n" if content.endswith("\n") else "")


def symbols(content: str) -> list[str]:
    """The names that `replace_symbol` finds in a file; none if it cannot be parsed."""
    try:
        return _names(ast.parse(content))
    except (SyntaxError, ValueError):
        return []


def _shifted(source: str, indent: str) -> list[str]:
    lines = split_lines(source.strip("\n"))
    if not lines:
        raise BadEdit("the new definition is empty")
    own = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    return [indent + line.removeprefix(own) if line.strip() else "" for line in lines]


def _find(tree: ast.AST, parts: list[str]) -> list[Definition]:
    inner = [node for node in _definitions(tree) if node.name == parts[0]]
    if len(parts) == 1:
        return inner
    return [found for node in inner for found in _find(node, parts[1:])]


def _names(tree: ast.AST, prefix: str = "") -> list[str]:
    names: list[str] = []
    for node in _definitions(tree):
        names.append(prefix + node.name)
        if isinstance(node, ast.ClassDef):
            names += _names(node, f"{prefix}{node.name}.")
    return names


def _definitions(tree: ast.AST) -> list[Definition]:
    """Definitions directly inside, ``if`` and ``try`` looked into."""
    found: list[Definition] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Definition):
            found.append(node)
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            found += _definitions(node)
    return found
