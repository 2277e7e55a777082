"""Adapter for the public trial of tool arguments: turns as a request's are prepared."""

from __future__ import annotations

from typing import Any

from ultra_engine.tokens.template import ChatTemplate
from ultra_engine.tokens.turns import prepare


def render(source: str, messages: list[dict[str, Any]]) -> str:
    return ChatTemplate(source).render(prepare(source, messages, ()))
