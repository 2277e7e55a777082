"""How byte-level BPE vocabularies split text before merging, by `tokenizer.ggml.pre` name."""

from __future__ import annotations

from tokenizers import Regex, pre_tokenizers

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_CONTRACTIONS = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

_LLAMA3 = (rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}",)
_QWEN2 = (rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}|{_REST}",)
_DIGITS_THEN_GPT2 = (r"\p{N}", _GPT2)

# Each pattern splits what the one before it left whole.
PATTERNS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "dbrx", "smaug-bpe"), _LLAMA3),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "megrez", "stablelm2"), _QWEN2),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell"), _DIGITS_THEN_GPT2),
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo"), (_GPT2,)),
    "default": (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"),
}

WHOLE_WORDS_FIRST = frozenset({"llama-bpe", "llama3", "llama-v3"})
"""Vocabularies in which a word that is a token as a whole is not built by merges."""

BOS_BY_DEFAULT = WHOLE_WORDS_FIRST
"""Vocabularies that begin a text with BOS when the file does not say."""


def byte_level(pre: str) -> pre_tokenizers.PreTokenizer:
    """The pre-tokenizer of a name in `PATTERNS`."""
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in PATTERNS[pre]]
    return pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
