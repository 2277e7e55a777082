"""Some definitions of a file in place of the whole: what small models write when asked for all of it."""

from __future__ import annotations

import ast

from .symbol import replace_symbol


def merge_definitions(old: str, new: str, path: str) -> tuple[str, tuple[str, ...]] | None:
    """``old`` with the definitions of ``new`` in the place of its own, and their names.

    merge_definitions("def f(): ...\\ndef g(): ...\\n", "def g():\\n    return 1\\n", "a.py")

    None unless ``new`` has definitions and imports alone, each definition is in ``old`` once, and ``old`` has
    others that would be lost.
    """
    before, after = _parsed(old), _parsed(new)
    if before is None or after is None or not after.body:
        return None
    names = _names(after)
    known = _names(before)
    imports = [node for node in after.body if isinstance(node, ast.Import | ast.ImportFrom)]
    if not names or len(names) + len(imports) != len(after.body) or len(set(names)) != len(names):
        return None
    if not set(names) < set(known) or any(known.count(name) != 1 for name in names):
        return None
    merged = _with_imports(old, before, [ast.unparse(node) for node in imports])
    lines = new.split("\n")
    for node in after.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            source = "\n".join(lines[first - 1 : node.end_lineno])
            merged = replace_symbol(merged, node.name, source, path)
    return merged, tuple(names)


def _with_imports(old: str, tree: ast.Module, wanted: list[str]) -> str:
    """``old`` with the imports that it has not yet, after its own or after its docstring."""
    own = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    missing = [line for line in wanted if line not in {ast.unparse(node) for node in own}]
    if not missing:
        return old
    docstring = tree.body[0] if tree.body and ast.get_docstring(tree) is not None else None
    last = own[-1] if own else docstring
    at = (last.end_lineno or 0) if last is not None else 0
    lines = old.split("\n")
    return "\n".join([*lines[:at], *missing, *lines[at:]])


def _names(tree: ast.Module) -> list[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node.name for node in tree.body if isinstance(node, kinds)]


def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
