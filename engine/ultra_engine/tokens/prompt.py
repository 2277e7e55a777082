"""A request's prompt to token ids: exactly one BOS, and no control tokens out of what a user wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import RequestError
from .template import ChatTemplate, Messages
from .tokenizer import Tokenizer
from .turns import Arguments, prepare, variables

Tools = Sequence[Mapping[str, Any]]

_GUARDS = [chr(code) for code in range(0xFDD0, 0xFDF0)]  # Unicode's noncharacters, "for internal use"


def encode_prompt(
    tokenizer: Tokenizer,
    template: ChatTemplate,
    *,
    prompt: str | None = None,
    messages: Messages | None = None,
    tokens: Sequence[int] | None = None,
    tools: Tools = (),
    reasoning: str = "auto",
) -> list[int]:
    """Token ids of exactly one of the three. Raises `RequestError` naming the field that is wrong.

    prompt: raw text, control tokens in it are meant (a prompt for filling in the middle needs them).
    messages: rendered by the template; control tokens that stand in the messages stay ordinary text.
    tokens: taken as they are.
    tools, reasoning: for messages only, see `turns`.
    """
    if sum(given is not None for given in (prompt, messages, tokens)) != 1:
        raise RequestError("give exactly one of prompt, messages and tokens", "prompt")
    if prompt is not None:
        if not prompt:
            raise RequestError("the prompt is empty", "prompt")
        return tokenizer.encode(prompt, special=True)
    if messages is not None:
        if not messages:
            raise RequestError("messages is empty", "messages")
        if not any(message.get("content") or message.get("tool_calls") for message in messages):
            raise RequestError("the prompt is empty: no message says anything", "messages")
        return _encode_messages(tokenizer, template, messages, tools, reasoning)
    return _checked(tokens or [], tokenizer.vocab_size)


def _checked(tokens: Sequence[int], vocab_size: int) -> list[int]:
    if not tokens:
        raise RequestError("tokens is empty", "tokens")
    for token in tokens:
        if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < vocab_size:
            raise RequestError(f"tokens: {token!r} is not an id from 0 to {vocab_size - 1}", "tokens")
    return list(tokens)


def _encode_messages(
    tokenizer: Tokenizer, template: ChatTemplate, messages: Messages, tools: Tools, reasoning: str
) -> list[int]:
    source = template.source or ""
    turns, given = prepare(source, messages, tools), variables(source, tools, reasoning)
    texts = list(_texts([turns, given]))
    if not any(tokenizer.control.search(text) for text in texts):
        ids = tokenizer.encode(template.render(turns, **given), special=True)
    else:
        guard = next((g for g in _GUARDS if not any(g in text for text in texts)), None)
        if guard is None:
            raise RequestError("messages holds all of Unicode's noncharacters", "messages")
        rendered = template.render(
            _guarded(turns, tokenizer, guard),
            **{key: _guarded(given[key], tokenizer, guard) for key in given},
        )
        ids = tokenizer.encode_guarded(rendered, guard)
    if not ids:
        raise RequestError("the messages make an empty prompt", "messages")
    return ids


def _texts(value: Any) -> Any:
    """Every string in a message, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        if isinstance(value, Arguments):
            yield value.text
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _texts(item)


def _guarded(value: Any, tokenizer: Tokenizer, guard: str) -> Any:
    """The same value with ``guard`` inside every control token's name, so that it is none any more."""
    if isinstance(value, str):
        return tokenizer.control.sub(lambda found: found[0][0] + guard + found[0][1:], value)
    if isinstance(value, Arguments):
        return value.mapped(lambda item: _guarded(item, tokenizer, guard))
    if isinstance(value, Mapping):
        return {
            _guarded(key, tokenizer, guard): _guarded(item, tokenizer, guard) for key, item in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_guarded(item, tokenizer, guard) for item in value]
    return value
