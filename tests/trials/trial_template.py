"""Adapter for the public template trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ultra_engine.tokens.template import ChatTemplate


def render(source: str, context: Mapping[str, Any]) -> str:
    values = {"messages": [], **context}
    return ChatTemplate(source).render(values.pop("messages"), **values)
