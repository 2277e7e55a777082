"""The agent's tools. Few, with short schemas: small models hold these best."""

from __future__ import annotations

from . import bash, check, done, edit, glob, grep, read, write
from .base import Tool


def standard() -> list[Tool]:
    """All of them, in the order in which a model is shown them."""
    return [read.TOOL, grep.TOOL, glob.TOOL, edit.TOOL, write.TOOL, bash.TOOL, check.TOOL, done.TOOL]
