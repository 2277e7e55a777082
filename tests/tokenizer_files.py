"""Small tokenizers for tests, as GGUF metadata."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gguf_files import Gguf, entries
from ultra_engine.tokens.vocabulary import BYTE_OF

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


BYTE_ALPHABET = {byte: char for char, byte in BYTE_OF.items()}


def byte_level(path: Path, words: Sequence[str] = ("he", "ll", "hell"), **more: Any) -> Path:
    """Ids 0 to 255 are the bytes, then three words, then the special tokens from 259."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "<unused>"]
    tokens = [BYTE_ALPHABET[byte] for byte in range(256)] + list(words) + special
    types = [NORMAL] * 259 + [CONTROL] * 3 + [USER, UNUSED]
    return _write(
        path,
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "qwen2",
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": types,
            "tokenizer.ggml.merges": ["h e", "l l", "he ll"],
            "tokenizer.ggml.bos_token_id": 259,
            "tokenizer.ggml.eos_token_id": 261,
            "tokenizer.chat_template": CHATML,
        },
        more,
    )


def sentencepiece(path: Path, **more: Any) -> Path:
    """3 special tokens, the 256 bytes from id 3, then letters and words with scores."""
    u = "\u2581"
    words = {u: -20.0, "h": -30.0, "e": -31.0, "l": -32.0, "o": -33.0, "he": -3.0, "ll": -4.0}
    words |= {"hell": -2.0, "hello": -1.0, u + "hello": -0.5, u + u: -5.0, "\u00e9": -34.0}
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + list(words)
    return _write(
        path,
        {
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.scores": [0.0] * 259 + list(words.values()),
            "tokenizer.ggml.token_type": [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(words),
            "tokenizer.ggml.bos_token_id": 1,
            "tokenizer.ggml.eos_token_id": 2,
        },
        more,
    )


def _write(path: Path, metadata: dict[str, Any], more: dict[str, Any]) -> Path:
    """``more`` changes entries (``model="x"`` is tokenizer.ggml.model); None leaves one out."""
    changed = {f"tokenizer.ggml.{key}": value for key, value in more.items()}
    merged = {key: value for key, value in (metadata | changed).items() if value is not None}
    return Gguf(entries(merged)).write(path)
