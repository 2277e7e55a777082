"""Writes tests/engine/tokens/golden_<model>.json: what llama.cpp's tokenizer says about some awkward texts.

python scripts/golden_tokens.py smollm2-135m qwen2.5-coder-0.5b        (needs the `bench` extra)
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from llama_cpp import Llama, llama_model_get_vocab, llama_vocab_is_eog
from ultra_engine.weights.hub import resolve

OUT = Path(__file__).parent.parent / "tests" / "engine" / "tokens"

TEXTS = [
    "Hello, world!",
    " leading space",
    "trailing space ",
    "two  spaces   three    four",
    " ",
    "  ",
    " " * 7,
    " " * 64,
    " " * 301 + "x",
    "\n",
    "\n\n",
    "\n \n  \n",
    "\t\tx\t",
    "\r\nwindows\r\nlines\r\n",
    "a\n\n\n\nb",
    " \n x",
    "I'm you're he'd she'll we've it's don't I'M YOU'RE HE'D WE'LL IT'S",
    "'s 't 're've'm'll'd ''' 'x",
    "0 1 12 123 1234 12345 1234567890 3.14159 1,000,000 0x1F 1e-9",
    "\u00b2\u00b3\u00bd \u0663\u0664\u0665 \u2167 \u4e00\u4e8c\u4e09",
    "def f(x: int) -> list[str]:\n    return [f'{i:>3}' for i in range(x)]  # comment\n",
    "for (int i = 0; i < n; ++i) { a[i] += b[i] << 2; }\n",
    "SELECT * FROM `t` WHERE a != 'b' AND c >= 10;--",
    "if x == y && z || !w { return; } // \u2190 arrow",
    '#include <stdio.h>\n\nint main(void) {\n\tprintf("%d\\n", 42);\n}',
    '<div class="a">&nbsp;</div><!-- c -->',
    "https://example.org/a/b?c=d&e=f#g user@example.org",
    "snake_case camelCase PascalCase SCREAMING_CASE kebab-case",
    "$PATH ${HOME} %TEMP% @decorator #hash ~/.bashrc ../up",
    "e=mc^2, \u2211_{i=0}^n x_i \u2264 \u221e \u2260 \u03c0",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3067\u3059\u3002",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u8fd9\u662f\u4e00\u4e2a\u6d4b\u8bd5\u3002",
    "\ud55c\uad6d\uc5b4 \ubb38\uc7a5\uc785\ub2c8\ub2e4.",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u00bf\u00d1and\u00fa?",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
    "caf\u00e9 cafe\u0301 na\u00efve \u212b A\u030a \ufb01n",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea \u2764\ufe0f",
    "\U0001d54f \U00020000 \U0001f999x",
    "a\u00a0b\u2003c\u200bd\u3000e\u2028f\u0085g\ufeffh",
    "a\x00b\x01\x7f\x1b[0m",
    "...!!!???---===***___///\\\\\\",
    "(((([[[[{{{{<<<<>>>>}}}}]]]]))))",
    "a" * 200,
    "ab" * 100,
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "\u2581literal\u2581mark \u0120 \u010a",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|> <|im_end|><|endoftext|> x<|endoftext|>",
    "<|im_start<|im_start|>|> <|im_end|",
    '<tool_call>{"name": "f"}</tool_call> <think>no</think>',
    "<|fim_prefix|>def f(<|fim_suffix|>)<|fim_middle|> <|file_sep|><repo_name>",
    "<s>[INST] <unk> [PAD] <eos> <EOT>",
    "\u00df\u1e9e \u0130i \u01c5 \u01f0",
]


def random_texts(count: int, rnd: random.Random) -> list[str]:
    """Random bytes, decoded with replacement, and random characters of every plane."""
    out = []
    for _ in range(count):
        out.append(rnd.randbytes(rnd.randrange(1, 40)).decode("utf-8", "replace"))
        codes = [rnd.choice([rnd.randrange(0x250), rnd.randrange(0xD800), rnd.randrange(0xE000, 0x30000)])
                 for _ in range(rnd.randrange(1, 16))]  # fmt: skip
        out.append("".join(map(chr, codes)))
    return out


def golden(path: Path) -> dict[str, object]:
    llama = Llama(str(path), vocab_only=True, verbose=False)
    rnd = random.Random(2)
    texts = []
    for text in TEXTS + random_texts(8, rnd):
        raw = text.encode()
        plain = llama.tokenize(raw, add_bos=False, special=False)
        special = llama.tokenize(raw, add_bos=False, special=True)
        texts.append({"text": text, "plain": plain, **({"special": special} if special != plain else {})})
    ids = [[rnd.randrange(llama.n_vocab()) for _ in range(12)] for _ in range(8)]
    decoded = [{"ids": row, "bytes": llama.detokenize(row, special=False).hex()} for row in ids]
    vocab = llama_model_get_vocab(llama.model)
    eog = [id for id in range(llama.n_vocab()) if llama_vocab_is_eog(vocab, id)]
    return {"vocab": llama.n_vocab(), "eog": eog, "texts": texts, "decoded": decoded}


def golden_pre(path: Path) -> dict[str, list[list[int]]]:
    """The ids of `TEXTS` if the file named another pre-tokenizer."""
    found = {}
    for pre in ("llama-bpe", "qwen2", "gpt-2", "default"):
        llama = Llama(str(path), vocab_only=True, verbose=False, kv_overrides={"tokenizer.ggml.pre": pre})
        found[pre] = [llama.tokenize(text.encode(), add_bos=False, special=True) for text in TEXTS]
    return found


def write(name: str, value: object) -> None:
    lines = json.dumps(value, separators=(",", ":")).replace("},{", "},\n{").replace("]],", "]],\n")
    (OUT / f"golden_{name}.json").write_text(lines + "\n")


def main() -> None:
    for name in sys.argv[1:]:
        write(name, golden(resolve(name)))
        if name == "smollm2-135m":
            write("pre", golden_pre(resolve(name)))


if __name__ == "__main__":
    main()
