"""Whether a file can be parsed, for the languages that the standard library reads."""

from __future__ import annotations

import ast
import json
import tomllib
import warnings
from pathlib import PurePosixPath

from ..errors import BreaksSyntax


def syntax_error(path: str, content: str) -> str | None:
    """What a parser says of the content; None if it is well formed, or nobody here can tell.

    syntax_error("a.py", "def f(:\\n")   # "line 1: invalid syntax"
    """
    suffix = PurePosixPath(path).suffix.lower()
    try:
        if suffix in (".py", ".pyi"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse(content)
        elif suffix == ".json":
            json.loads(content)
        elif suffix == ".toml":
            tomllib.loads(content)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or type(error).__name__
    return None


def check_syntax(path: str, before: str | None, after: str) -> None:
    """Raises `BreaksSyntax` if ``after`` cannot be parsed and ``before`` could, or was not there."""
    error = syntax_error(path, after)
    if error is not None and (before is None or syntax_error(path, before) is None):
        raise BreaksSyntax(f"{path} would not parse after this edit ({error}); nothing was changed")
