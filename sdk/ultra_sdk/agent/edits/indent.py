"""Carrying an edit over to the indentation that the file really has."""

from __future__ import annotations


def reindented(quoted: list[str], real: list[str], new: list[str]) -> list[str] | None:
    """``new`` with its indentation changed as that of ``quoted`` has to be to become ``real``.

    None if one indentation of ``quoted`` stands for two in ``real``: then nobody knows which is meant.
    """
    table: dict[str, str] = {}
    for said, is_so in zip(quoted, real, strict=True):
        if said.strip() and table.setdefault(_indent(said), _indent(is_so)) != _indent(is_so):
            return None
    return [_translated(_indent(line), table) + line.lstrip(" \t") if line.strip() else "" for line in new]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _translated(indent: str, table: dict[str, str]) -> str:
    if indent in table:
        return table[indent]
    inner = [said for said in table if indent.startswith(said)]
    if inner:
        known = max(inner, key=len)
        return table[known] + _converted(indent[len(known) :], table)
    outer = [said for said in table if said.startswith(indent)]
    if outer:
        known = min(outer, key=len)
        missing = _converted(known[len(indent) :], table)
        return table[known].removesuffix(missing) if missing else table[known]
    return indent


def _converted(step: str, table: dict[str, str]) -> str:
    """A piece of indentation in the file's own characters."""
    tabs = any("\t" in real for real in table.values())
    spaces = any(" " in real for real in table.values())
    unit = _unit(table)
    if tabs and not spaces and set(step) == {" "}:
        return "\t" * -(-len(step) // unit)
    if spaces and not tabs and set(step) == {"\t"}:
        return " " * (unit * len(step))
    return step


def _unit(table: dict[str, str]) -> int:
    """How many spaces a tab stands for: what the steps between indentations say, else 4."""
    mixed = [(said, real) for said, real in table.items() if ("\t" in said) != ("\t" in real)]
    sizes = sorted((len(said), len(real)) for said, real in mixed)
    steps = [(c - a, d - b) for (a, b), (c, d) in zip(sizes, sizes[1:], strict=False)]
    if not steps and len(sizes) == 1 and "\t" in mixed[0][0]:
        steps = sizes
    for said, real in steps:
        if said and real and max(said, real) % min(said, real) == 0:
            return max(said, real) // min(said, real)
    return 4
