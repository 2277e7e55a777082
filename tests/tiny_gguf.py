"""Tiny random checkpoints as GGUF files, for tests that need a family rather than a real model."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

LAYERS, HIDDEN, HEADS, KV_HEADS, INTERMEDIATE, CONTEXT = 3, 96, 6, 2, 160, 512
HEAD_DIM = HIDDEN // HEADS
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
VOCAB = 256 + len(SPECIALS) + 1
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_alphabet() -> list[str]:
    """GPT-2's printable stand-in for each byte value."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    stand_ins = iter(range(256, 512))
    return [chr(b) if b in printable else chr(next(stand_ins)) for b in range(256)]


def write(
    path: Path,
    family: str,
    *,
    tied: bool = False,
    seed: int = 0,
    architecture: str | None = None,
    leave_out: str = "",
    misshapen: bool = False,
) -> Path:
    """A float32 checkpoint of ``family`` ("llama" or "qwen2") with a byte-level tokenizer of 260 tokens.

    For bad ones: ``architecture`` is claimed instead of the family's; the tensor ``leave_out`` is missing, or
    of a wrong shape if ``misshapen``.
    """
    out = gguf.GGUFWriter(path, architecture or family)
    out.add_name(f"tiny {family}")
    out.add_context_length(CONTEXT)
    out.add_embedding_length(HIDDEN)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(INTERMEDIATE)
    out.add_head_count(HEADS)
    out.add_head_count_kv(KV_HEADS)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_rope_freq_base(10000.0)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("qwen2")
    out.add_token_list([*byte_alphabet(), *SPECIALS, "ab"])
    out.add_token_types([1] * 256 + [3] * len(SPECIALS) + [1])
    out.add_token_merges(["a b"])
    out.add_eos_token_id(258)
    out.add_chat_template(CHATML)
    for name, tensor in _tensors(family, tied, np.random.default_rng(seed)).items():
        if name != leave_out:
            out.add_tensor(name, tensor)
        elif misshapen:
            out.add_tensor(name, tensor.ravel()[:7].copy())
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return path


def _tensors(family: str, tied: bool, rng: np.random.Generator) -> dict[str, np.ndarray]:
    def matrix(rows: int, columns: int) -> np.ndarray:
        return rng.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)

    def vector(size: int, around: float = 0.0) -> np.ndarray:
        return rng.normal(around, 0.2, size).astype(np.float32)

    tensors = {
        "token_embd.weight": rng.normal(0, 1, (VOCAB, HIDDEN)).astype(np.float32),
        "output_norm.weight": vector(HIDDEN, 1.0),
    }
    if not tied:
        tensors["output.weight"] = matrix(VOCAB, HIDDEN)
    for layer in range(LAYERS):
        widths = {"q": HIDDEN, "k": KV_HEADS * HEAD_DIM, "v": KV_HEADS * HEAD_DIM}
        block = {f"attn_{name}.weight": matrix(width, HIDDEN) for name, width in widths.items()}
        if family == "qwen2":
            block |= {f"attn_{name}.bias": vector(width) for name, width in widths.items()}
        block |= {
            "attn_norm.weight": vector(HIDDEN, 1.0),
            "attn_output.weight": matrix(HIDDEN, HIDDEN),
            "ffn_norm.weight": vector(HIDDEN, 1.0),
            "ffn_gate.weight": matrix(INTERMEDIATE, HIDDEN),
            "ffn_up.weight": matrix(INTERMEDIATE, HIDDEN),
            "ffn_down.weight": matrix(HIDDEN, INTERMEDIATE),
        }
        tensors |= {f"blk.{layer}.{name}": tensor for name, tensor in block.items()}
    return tensors
