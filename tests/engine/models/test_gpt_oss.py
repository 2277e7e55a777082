"""gpt-oss: MXFP4 to the bit as transformers unpacks it, its router and its clamped SwiGLU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from engine.models.families import CLOSE, apart, executor, ours, prompt, save, theirs
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers.integrations.mxfp4 import convert_moe_packed_tensors
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts, GptOssTopKRouter
from ultra_engine.errors import ModelFileError, UnsupportedModel
from ultra_engine.models import gpt_oss, read_config
from ultra_engine.models.config import Mixture
from ultra_engine.weights.checkpoint import Checkpoint
from ultra_kernels import mixture
from ultra_kernels.program import Attributes, Scoring

FILE = "model.safetensors"


def quantised(folder: Path, seed: int = 5) -> transformers.PreTrainedModel:
    """A tiny checkpoint with experts in MXFP4 as published, and transformers' model of what they are."""
    model = save("gpt_oss", folder, seed=seed)
    generator, tensors = torch.Generator().manual_seed(seed), load_file(folder / FILE)
    for layer, block in enumerate(model.model.layers):
        for name in ("gate_up_proj", "down_proj"):
            experts, columns, rows = getattr(block.mlp.experts, name).shape
            shape = experts, rows, columns // 32
            blocks = torch.randint(256, (*shape, 16), generator=generator, dtype=torch.uint8)
            scales = torch.randint(120, 124, shape, generator=generator, dtype=torch.uint8)
            getattr(block.mlp.experts, name).data = unpacked(blocks, scales)
            own = f"model.layers.{layer}.mlp.experts.{name}"
            tensors |= {own + "_blocks": blocks, own + "_scales": scales}
            del tensors[own]
    save_file(tensors, folder / FILE)
    return model


def unpacked(blocks: Tensor, scales: Tensor) -> Tensor:
    """float32 [experts, columns, rows] by transformers."""
    return convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)


def test_logits_with_experts_in_mxfp4(tmp_path: Path) -> None:
    model, ids = quantised(tmp_path), prompt(120)
    with executor(tmp_path) as made:
        assert apart(ours(made, ids), theirs(model, ids)) <= CLOSE


def test_every_byte_with_every_scale_is_what_transformers_makes_of_it(tmp_path: Path) -> None:
    """Bit for bit, up to the sign of zero. Scale 255 is no number by the format's definition; transformers
    reads it as 2^128."""
    wide, hidden = 32, 255 * 32
    all_bytes = torch.arange(256, dtype=torch.uint8).reshape(16, 16).repeat_interleave(4, dim=0)
    both = all_bytes.reshape(1, 2 * wide, 1, 16).expand(1, 2 * wide, 255, 16).clone()
    scales = torch.arange(255, dtype=torch.uint8).expand(1, 2 * wide, 255).clone()
    down = torch.arange(hidden * 16, dtype=torch.int64).to(torch.uint8).reshape(1, hidden, 1, 16)
    down_scales = (torch.arange(hidden) // 16 % 255).to(torch.uint8).reshape(1, hidden, 1)
    tensors = {"gate_up_proj_blocks": both, "gate_up_proj_scales": scales}
    tensors |= {"down_proj_blocks": down, "down_proj_scales": down_scales}
    tensors |= {"gate_up_proj_bias": torch.zeros(1, 2 * wide), "down_proj_bias": torch.zeros(1, hidden)}
    save_file(tensors, tmp_path / FILE)
    (tmp_path / "config.json").write_text("{}")
    with Checkpoint.open(tmp_path) as checkpoint:
        found = gpt_oss.experts(checkpoint, "", Mixture(1, 1, wide, Scoring.CHOSEN), hidden)
        got = {name: found[f"experts.{name}.weight"].read(checkpoint) for name in ("gate", "up", "down")}
    want = unpacked(both, scales)[0].T
    for name, values in (
        ("gate", want[0::2]),
        ("up", want[1::2]),
        ("down", unpacked(down, down_scales)[0].T),
    ):
        np.testing.assert_array_equal(got[name].format.rows(got[name].data).numpy(), values.numpy())
    seen = {(int(b), int(s)) for s in range(255) for b in both[0, 0::2, s].flatten().tolist()}
    assert len(seen) == 256 * 255


def test_the_router_is_transformers_own() -> None:
    config = transformers.GptOssConfig(num_local_experts=16, num_experts_per_tok=4, hidden_size=8)
    router, x = GptOssTopKRouter(config), torch.randn(50, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        for number, parameter in enumerate(router.parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number)))
        logits, gates, ids = router(x)
    at = Attributes(experts=16, top_k=4, scoring=Scoring.CHOSEN, scale=1.0)
    chosen, weighed = mixture.choose(logits, None, at)
    assert torch.equal(chosen, ids)
    torch.testing.assert_close(weighed, gates, rtol=1e-6, atol=0)


def test_the_clamped_activation_is_transformers_own() -> None:
    """Gates and ups around the limits of 7, and far beyond."""
    config = transformers.GptOssConfig(num_local_experts=1, hidden_size=8, intermediate_size=8)
    values = torch.tensor([-1e4, -50.0, -7.001, -7.0, -1.0, 0.0, 0.3, 6.999, 7.0, 7.001, 50.0, 1e4])
    gate, up = (part.flatten() for part in torch.meshgrid(values, values, indexing="ij"))
    want = GptOssExperts(config)._apply_gate(torch.stack((gate, up), -1).flatten())
    got = mixture.act(gate, up, Attributes(limit=gpt_oss.LIMIT, alpha=gpt_oss.ALPHA))
    torch.testing.assert_close(got, want, rtol=1e-6, atol=0)


def test_a_config_that_does_not_speak_of_rope_has_transformers_yarn(tmp_path: Path) -> None:
    model, ids = save("gpt_oss", tmp_path), prompt(60)
    (config := tmp_path / "config.json").write_text(
        config.read_text().replace('"rope_parameters"', '"not_rope_parameters"')
    )
    with executor(tmp_path) as made:
        assert apart(ours(made, ids), theirs(model, ids)) <= CLOSE


def test_scales_that_do_not_fit_and_biases_that_are_missing(tmp_path: Path) -> None:
    quantised(tmp_path)
    own = "model.layers.1.mlp.experts."
    tensors = load_file(tmp_path / FILE)
    save_file(tensors | {own + "down_proj_scales": torch.zeros(8, 3, 3, dtype=torch.uint8)}, tmp_path / FILE)
    with Checkpoint.open(tmp_path) as checkpoint, pytest.raises(ModelFileError, match="down_proj_scales"):
        read_config(checkpoint)
    save_file({name: t for name, t in tensors.items() if name != own + "down_proj_bias"}, tmp_path / FILE)
    with Checkpoint.open(tmp_path) as checkpoint, pytest.raises(ModelFileError, match="down_proj_bias"):
        read_config(checkpoint)
    save_file(tensors | {own + "up_bias": torch.zeros(8)}, tmp_path / FILE)
    with Checkpoint.open(tmp_path) as checkpoint, pytest.raises(UnsupportedModel, match="up_bias"):
        read_config(checkpoint)
