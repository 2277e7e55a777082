"""Adapter for the public BOS trial: prompts as a request would make them."""

from __future__ import annotations

from typing import Any

from ultra_engine.tokens.prompt import encode_prompt
from ultra_engine.tokens.template import ChatTemplate
from ultra_engine.tokens.tokenizer import Tokenizer


def _encode(directory: str, **given: Any) -> list[int]:
    tokenizer, template = Tokenizer.from_directory(directory), ChatTemplate.from_directory(directory)
    return encode_prompt(tokenizer, template, **given)


def render(directory: str, messages: list[dict[str, Any]]) -> list[int]:
    return _encode(directory, messages=messages)


def raw(directory: str, text: str) -> list[int]:
    return _encode(directory, prompt=text)
