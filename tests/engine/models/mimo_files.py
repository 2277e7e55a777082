"""MiMo-V2 checkpoints as published ones are laid out, from an encoder of the tests' own.

Names and layouts are those of the published files; every encoder returns what its bytes mean, in float64.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from engine.models.mimo_oracle import Shape
from safetensors.torch import save_file
from torch import Tensor

E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
E2M1 += [-value for value in E2M1]


@dataclass
class Files:
    """What is written, and what it means."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    meaning: dict[str, Tensor] = field(default_factory=dict)

    def floats(self, name: str, values: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
        self.tensors[name] = values.to(dtype)
        return self.tensors[name].double()

    def fp8(self, name: str, values: Tensor, chunks: int = 1) -> Tensor:
        """The grid of 128 x 128 begins anew in each of the chunks."""
        codes, grids, meaning = zip(*(_fp8(part) for part in values.chunk(chunks)), strict=True)
        self.tensors[name] = torch.cat(codes)
        self.tensors[name + "_scale_inv"] = torch.cat(grids)
        return torch.cat(meaning)

    def mxfp4(self, name: str, values: Tensor) -> Tensor:
        rows, columns = values.shape
        groups = values.reshape(rows, columns // 32, 32)
        exponent = groups.abs().amax(-1).clamp(min=2.0**-100).log2().floor().int() - 2
        scaled = groups / 2.0 ** exponent[..., None].double()
        codes = (scaled[..., None] - torch.tensor(E2M1, dtype=torch.float64)).abs().argmin(-1)
        codes = codes.reshape(rows, columns)
        self.tensors[name] = (codes[:, 0::2] | codes[:, 1::2] << 4).to(torch.uint8)
        self.tensors[name + "_scale"] = (exponent + 127).to(torch.uint8)
        back = torch.tensor(E2M1, dtype=torch.float64)[codes].reshape(groups.shape)
        return (back * 2.0 ** exponent[..., None].double()).reshape(rows, columns)

    def kv_together(self, k: str, v: str, values: tuple[Tensor, Tensor], heads: int) -> tuple[Tensor, Tensor]:
        """V2-Flash's full layers: k and v of a head are one matrix for the grid, whose rows of scales go to
        the two tensors: v has those that begin in it."""
        parts: dict[str, list[Tensor]] = {n: [] for n in (k, v, k + "_scale_inv", v + "_scale_inv")}
        meaning: tuple[list[Tensor], list[Tensor]] = ([], [])
        for key, value in zip(values[0].chunk(heads), values[1].chunk(heads), strict=True):
            codes, grid, means = _fp8(torch.cat((key, value)))
            split, high = -(-len(key) // 128), len(key)
            for name, some in ((k, codes[:high]), (v, codes[high:])):
                parts[name].append(some)
            for name, some in ((k, grid[:split]), (v, grid[split:])):
                parts[name + "_scale_inv"].append(some)
            meaning[0].append(means[:high])
            meaning[1].append(means[high:])
        self.tensors |= {name: torch.cat(some) for name, some in parts.items()}
        return torch.cat(meaning[0]), torch.cat(meaning[1])


def _fp8(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Codes, grid, meaning. The squares are of very different size, so that a wrong one is seen."""
    rows, columns = values.shape
    codes = torch.empty(rows, columns, dtype=torch.float8_e4m3fn)
    grid = torch.empty(-(-rows // 128), -(-columns // 128))
    meaning = torch.empty(rows, columns, dtype=torch.float64)
    for i in range(grid.shape[0]):
        for j in range(grid.shape[1]):
            square = slice(128 * i, 128 * i + 128), slice(128 * j, 128 * j + 128)
            grid[i, j] = values[square].abs().max() / 448
            codes[square] = (values[square] / grid[i, j]).to(torch.float8_e4m3fn)
            meaning[square] = codes[square].double() * grid[i, j].double()
    return codes, grid, meaning


def build(shape: Shape, store: str, *, chunks: int = 0, seed: int = 0) -> Files:
    """``store``: how experts are stored, "bf16", "fp8" or "mxfp4"; unless it is the first, the rest is FP8 as
    published. ``chunks``: of fused q, k and v; 0 writes them apart."""
    files, random = Files(), _random(seed)
    meaning = files.meaning
    meaning["embed"] = files.floats("model.embed_tokens.weight", random(shape.vocab, shape.hidden))
    for layer in range(len(shape.sliding)):
        _attention(files, shape, layer, random, chunks, store != "bf16")
        _mlp(files, shape, layer, random, store)
    meaning["norm"] = files.floats("model.norm.weight", 1 + 0.3 * random(shape.hidden))
    meaning["head"] = files.floats("lm_head.weight", random(shape.vocab, shape.hidden) / shape.hidden**0.5)
    return files


def _random(seed: int) -> Callable[..., Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return lambda *size: torch.randn(*size, generator=generator, dtype=torch.float64)


def _uneven(values: Tensor) -> Tensor:
    """Rows grow and shrink in runs of 16, so that no two squares of scales are alike."""
    return values * (1 + torch.arange(len(values)) // 16 % 5)[:, None] * values.shape[1] ** -0.5 / 3


def _attention(
    files: Files, s: Shape, layer: int, random: Callable[..., Tensor], chunks: int, fp8: bool
) -> None:
    p, meaning, kv = f"model.layers.{layer}.", files.meaning, s.kv(layer)
    own = p + "self_attn."
    for name, norm in (("input_layernorm", "attn_norm"), ("post_attention_layernorm", "mlp_norm")):
        meaning[f"{layer}.{norm}"] = files.floats(f"{p}{name}.weight", 1 + 0.3 * random(s.hidden))
    sizes = {"q": s.heads * s.key, "k": kv * s.key, "v": kv * s.value}
    values = {name: _uneven(random(rows, s.hidden)) for name, rows in sizes.items()}
    store = files.fp8 if fp8 else files.floats
    if chunks:
        order = [values[name].chunk(chunks)[c] for c in range(chunks) for name in "qkv"]
        name = own + "qkv_proj.weight"
        joined = torch.cat(order)
        fused = files.fp8(name, joined, chunks) if fp8 else files.floats(name, joined)
        spans = [size // chunks for size in sizes.values()]
        cut = [part.split(spans) for part in fused.chunk(chunks)]
        for number, name in enumerate("qkv"):
            meaning[f"{layer}.{name}"] = torch.cat([part[number] for part in cut])
    else:
        meaning[f"{layer}.q"] = store(own + "q_proj.weight", values["q"])
        k, v = own + "k_proj.weight", own + "v_proj.weight"
        if fp8 and not s.sliding[layer]:
            pair = files.kv_together(k, v, (values["k"], values["v"]), kv)
        else:
            pair = store(k, values["k"]), store(v, values["v"])
        meaning[f"{layer}.k"], meaning[f"{layer}.v"] = pair
    o = random(s.hidden, s.heads * s.value) * (s.heads * s.value) ** -0.5
    meaning[f"{layer}.o"] = files.floats(own + "o_proj.weight", o)
    if s.sliding[layer]:
        meaning[f"{layer}.sinks"] = files.floats(own + "attention_sink_bias", random(s.heads))


def _mlp(files: Files, s: Shape, layer: int, random: Callable[..., Tensor], store: str) -> None:
    own, meaning = f"model.layers.{layer}.mlp.", files.meaning
    write = {"bf16": files.floats, "fp8": files.fp8, "mxfp4": files.mxfp4}[store]
    wide = s.narrow if layer else s.wide
    shapes = {"gate": (wide, s.hidden), "up": (wide, s.hidden), "down": (s.hidden, wide)}
    if not layer:
        write = files.floats if store == "bf16" else files.fp8
        for name, shape in shapes.items():
            meaning[f"{layer}.{name}"] = write(f"{own}{name}_proj.weight", _uneven(random(*shape)))
        return
    router = random(s.experts, s.hidden) / s.hidden**0.5
    meaning[f"{layer}.router"] = files.floats(own + "gate.weight", router, torch.float32)
    meaning[f"{layer}.correction"] = files.floats(
        own + "gate.e_score_correction_bias", 0.3 * random(s.experts), torch.float32
    )
    for name, shape in shapes.items():
        each = [
            write(f"{own}experts.{e}.{name}_proj.weight", _uneven(random(*shape))) for e in range(s.experts)
        ]
        meaning[f"{layer}.{name}"] = torch.stack(each)


def config(shape: Shape, family: str, store: str) -> dict[str, Any]:
    """config.json as the published ones are written."""
    layers = len(shape.sliding)
    found: dict[str, Any] = {
        "model_type": family,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.wide,
        "moe_intermediate_size": shape.narrow,
        "num_hidden_layers": layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads[0],
        "head_dim": shape.key,
        "v_head_dim": shape.value,
        "swa_num_attention_heads": shape.heads,
        "swa_num_key_value_heads": shape.kv_heads[1],
        "swa_head_dim": shape.key,
        "swa_v_head_dim": shape.value,
        "partial_rotary_factor": 0.334,
        "rope_theta": shape.thetas[0],
        "swa_rope_theta": shape.thetas[1],
        "sliding_window": shape.window,
        "sliding_window_size": shape.window,
        "attention_chunk_size": 128,
        "attention_value_scale": shape.value_scale,
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
        "attention_bias": False,
        "hybrid_layer_pattern": [int(slides) for slides in shape.sliding],
        "moe_layer_freq": [0] + [1] * (layers - 1),
        "n_routed_experts": shape.experts,
        "num_experts_per_tok": shape.top_k,
        "n_shared_experts": None,
        "n_group": 1,
        "topk_group": 1,
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
        "norm_topk_prob": True,
        "routed_scaling_factor": None,
        "layernorm_epsilon": shape.eps,
        "hidden_act": "silu",
        "vocab_size": shape.vocab,
        "max_position_embeddings": 512,
        "tie_word_embeddings": False,
    }
    if store != "bf16":
        quantised = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic"}
        found["quantization_config"] = quantised | {"weight_block_size": [128, 128]}
    if store == "mxfp4":
        found["quantization_config"] |= {"store_dtype": "mxfp4", "mxfp4_block_size": 32}
    return found


def save(folder: Path, files: Files, values: dict[str, Any], metadata: dict[str, Any]) -> Path:
    """Two files of tensors in turns, their index, config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted(files.tensors)
    weight_map = {}
    for number, own in enumerate((names[0::2], names[1::2])):
        file = f"model_pp0_ep{number}_shard0.safetensors"
        save_file({name: files.tensors[name].contiguous() for name in own}, folder / file)
        weight_map |= dict.fromkeys(own, file)
    index = {"metadata": metadata, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(values))
    return folder
