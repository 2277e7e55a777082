"""The independent oracle: transformers in float32 on the weights that the gguf package unpacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config
from ultra_engine.models import lower, read_config
from ultra_engine.runner import CHUNK, Runner
from ultra_engine.tokens.prompt import encode_prompt
from ultra_engine.tokens.template import ChatTemplate
from ultra_engine.tokens.tokenizer import Tokenizer
from ultra_engine.weights.gguf import GGUFFile
from ultra_engine.weights.load import load_weights
from ultra_kernels.checks import check
from ultra_kernels.reference import ReferenceExecutor
from ultra_kernels.step import Sizes

QUESTIONS = [
    "Write a Python function that reverses a string.",
    "What is the capital of France?",
    "List three uses of a hash table.",
    "Explain recursion to a child, in two sentences.",
    "def fibonacci(n):",
]

_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_GLOBAL = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


class Oracle:
    """Greedy decoding by transformers, float32."""

    def __init__(self, file: GGUFFile) -> None:
        self.model = _model(file)

    def logits(self, ids: Sequence[int]) -> np.ndarray:
        """float32 [len(ids), vocabulary]."""
        with torch.inference_mode():
            return self.model(torch.tensor([list(ids)])).logits[0].numpy()

    def greedy(self, ids: Sequence[int], count: int) -> list[int]:
        """``count`` tokens after ``ids``, by transformers' own loop and cache; never stops early."""
        with torch.inference_mode():
            out = self.model.generate(
                torch.tensor([list(ids)]),
                attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                max_new_tokens=count,
                min_new_tokens=count,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
            )
        return out[0, len(ids) :].tolist()


def never() -> bool:
    return False


def runner(file: GGUFFile, context: int = 512) -> Runner:
    """Our side: the reference executor in float32 on a sound program."""
    program = lower(read_config(file))
    check(program)
    executor = ReferenceExecutor(program, load_weights(file, program), Sizes(CHUNK, context // 16))
    return Runner(executor, context)


def greedy(runner: Runner, prompt: list[int], count: int) -> list[int]:
    """``count`` greedy tokens after ``prompt`` on our side; an end token does not end it."""
    logits, out = runner.prefill(prompt, never, lambda done: None), []
    for _ in range(count):
        out.append(int(logits.argmax()))
        logits = runner.decode(out[-1], never)
    return out


def compare(path: Path, count: int = 64) -> Iterator[tuple[str, list[int], list[int]]]:
    """(question, our tokens, transformers' tokens) for every question, through the model's chat template."""
    with GGUFFile.open(path) as file:
        tokenizer, template = Tokenizer.from_gguf(file), ChatTemplate.from_gguf(file)
        oracle, ours = Oracle(file), runner(file)
        for question in QUESTIONS:
            prompt = encode_prompt(tokenizer, template, messages=[{"role": "user", "content": question}])
            yield question, greedy(ours, prompt, count), oracle.greedy(prompt, count)


def _model(file: GGUFFile) -> Any:
    family = file.metadata["general.architecture"]
    meta = {key.removeprefix(family + "."): value for key, value in file.metadata.items()}
    config = {"llama": LlamaConfig, "qwen2": Qwen2Config}[family](
        vocab_size=file.tensors["token_embd.weight"].shape[0],
        hidden_size=meta["embedding_length"],
        intermediate_size=meta["feed_forward_length"],
        num_hidden_layers=meta["block_count"],
        num_attention_heads=meta["attention.head_count"],
        num_key_value_heads=meta["attention.head_count_kv"],
        max_position_embeddings=meta["context_length"],
        rms_norm_eps=meta["attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": meta["rope.freq_base"]},
        tie_word_embeddings="output.weight" not in file.tensors,
    )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager")
    model = model.to_empty(device="cpu")
    model.model.rotary_emb.__init__(config)
    state = {_name(name): torch.from_numpy(_dequantise(file, name, config)) for name in file.tensors}
    missing, unexpected = model.load_state_dict(state, strict=False, assign=True)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    model.generation_config.eos_token_id = None
    return model.eval()


def _name(name: str) -> str:
    parts = name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{_LAYER[parts[2]]}.{parts[3]}"
    return f"{_GLOBAL[parts[0]]}.{parts[1]}"


def _dequantise(file: GGUFFile, name: str, config: Any) -> np.ndarray:
    info = file.tensors[name]
    rows = info.shape[0] if len(info.shape) == 2 else 1
    weight = gguf.quants.dequantize(file.data(name).reshape(rows, -1), info.type)
    weight = np.array(weight.reshape(info.shape), dtype=np.float32)  # a copy: the file is read-only
    if config.model_type == "llama" and (".attn_q." in name or ".attn_k." in name):
        heads = config.num_attention_heads if ".attn_q." in name else config.num_key_value_heads
        # GGUF has RoPE pairs side by side, transformers has them half a head apart.
        pairs = weight.reshape(heads, info.shape[0] // heads // 2, 2, -1)
        weight = np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(info.shape))
    return weight
