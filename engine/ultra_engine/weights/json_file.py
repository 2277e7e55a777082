"""JSON from strangers: bounded in size, in number of items and in depth, no key twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import ModelFileError

FILE_LIMIT = 64 << 20
"""Bytes of one file; the largest real index (160,000 tensors) has about 20 MB."""

ITEM_LIMIT = 1 << 22
"""Objects, arrays and members of one text, which bounds the memory that it becomes."""


def read_object(path: Path, limit: int = FILE_LIMIT) -> dict[str, Any]:
    """The JSON object in a file. Raises `ModelFileError`, "no such file" included."""
    try:
        with path.open("rb") as file:
            raw = file.read(limit + 1)
    except FileNotFoundError:
        raise ModelFileError(path, "no such file") from None
    except (OSError, ValueError) as error:
        raise ModelFileError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > limit:
        raise ModelFileError(path, f"is larger than {limit >> 20} MiB")
    return parse_object(path, raw, "it")


def parse_object(path: Path, raw: bytes, what: str) -> dict[str, Any]:
    """The JSON object in ``raw``, which is ``what`` of the file. Raises `ModelFileError`."""
    if sum(raw.count(mark) for mark in (b",", b"[", b"{")) > ITEM_LIMIT:
        raise ModelFileError(path, f"{what} has more than {ITEM_LIMIT} items")
    try:
        found = json.loads(raw.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_number)
    except UnicodeDecodeError:
        raise ModelFileError(path, f"{what} is not UTF-8 text") from None
    except RecursionError:
        raise ModelFileError(path, f"{what} nests too deep") from None
    except ValueError as error:
        raise ModelFileError(path, f"{what} is not JSON: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(found, dict):
        raise ModelFileError(path, f"{what} is not a JSON object")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice[:60]!r} appears twice")
    return found


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON number")
