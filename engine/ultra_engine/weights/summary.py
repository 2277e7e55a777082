"""What a GGUF file holds, for people."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Any

from rich.table import Table
from rich.text import Text

from .gguf import GGUFFile


def bytes_text(count: float) -> str:
    """1117320768 -> '1.12 GB' (decimal units, as download pages print them)."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            decimals = 0 if unit == "B" or count >= 100 else 1 if count >= 10 else 2
            return f"{count:.{decimals}f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


def count_text(count: int) -> str:
    """1543714304 -> '1.54 B', 134515008 -> '135 M'."""
    if count >= 10**9:
        return f"{count / 1e9:.2f} B"
    return f"{count / 1e6:.0f} M" if count >= 10**7 else f"{count:,}"


def parameter_count(file: GGUFFile) -> int:
    """Weights in the file, of all tensors."""
    return sum(prod(tensor.shape) for tensor in file.tensors.values())


def tensor_types(file: GGUFFile) -> list[tuple[str, int, int]]:
    """(type, tensors, bytes) for each weight type, the largest first."""
    tensors, sizes = Counter[str](), Counter[str]()
    for tensor in file.tensors.values():
        tensors[tensor.type.name] += 1
        sizes[tensor.type.name] += tensor.nbytes
    return [(name, tensors[name], size) for name, size in sizes.most_common()]


def summary_table(file: GGUFFile, licence: str | None = None) -> Table:
    """Two columns; values from the file are shown as plain text, whatever they contain.

    licence: for files that do not give theirs.
    """
    meta = file.metadata
    architecture = str(meta.get("general.architecture", "not given"))
    tokens, template = meta.get("tokenizer.ggml.tokens"), meta.get("tokenizer.chat_template")
    rows: list[tuple[str, Any]] = [
        ("size", f"{bytes_text(file.size)} ({file.size:,} bytes)"),
        ("name", meta.get("general.name")),
        ("architecture", architecture),
        ("licence", meta.get("general.license", licence)),
        ("parameters", count_text(parameter_count(file))),
        ("layers", meta.get(f"{architecture}.block_count")),
        ("width", meta.get(f"{architecture}.embedding_length")),
        ("context", meta.get(f"{architecture}.context_length")),
        ("tokenizer", " / ".join(str(meta[k]) for k in _TOKENIZER_KEYS if k in meta) or None),
        ("vocabulary", len(tokens) if isinstance(tokens, list) else None),
        ("chat template", f"{len(template):,} characters" if isinstance(template, str) else "none"),
    ]
    for name, count, size in tensor_types(file):
        rows.append((f"{name} tensors", f"{count} ({bytes_text(size)})"))
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for label, value in rows:
        table.add_row(label, Text("not given" if value is None else _printable(value)))
    return table


_TOKENIZER_KEYS = ("tokenizer.ggml.model", "tokenizer.ggml.pre")


def _printable(value: object) -> str:
    """Without control characters, so that a file cannot write escape sequences to the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in str(value))[:500]
