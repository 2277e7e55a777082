"""Conversion of whole checkpoints: what comes out, and that nothing else changes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from ultra_engine.convert.convert import Conversion, Result
from ultra_engine.convert.mxfp4 import Scale, encode
from ultra_engine.errors import ConversionError, ModelFileError, UltraError, UnsupportedModel
from ultra_engine.models import read_config, recipes
from ultra_engine.weights.checkpoint import Checkpoint

EXPERTS = {"experts": "mxfp4"}


def convert(source: Path, folder: Path, formats: dict[str, str] = EXPERTS, **options: object) -> Result:
    with Conversion(source, folder, formats, **options) as conversion:  # type: ignore[arg-type]
        return conversion.run()


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    """Every tensor, read by the format's own library."""
    return {k: v for file in sorted(folder.glob("*.safetensors")) for k, v in load_file(file).items()}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def packed(folder: Path) -> dict[str, torch.Tensor]:
    """Every weight as our loader hands it to an executor, unpacked."""
    with Checkpoint.open(folder) as checkpoint:
        found = recipes(read_config(checkpoint), checkpoint)
        read = {name: recipe.read(checkpoint) for name, recipe in found.items()}
        return {name: one.format.rows(one.data).clone() for name, one in read.items()}


def rounded(weight: torch.Tensor, scale: Scale = "mse") -> torch.Tensor:
    """What MXFP4 keeps of a matrix."""
    from ultra_kernels.packing import mxfp4_from_pairs

    encoded = encode(weight, scale)
    found = mxfp4_from_pairs(encoded.weight, encoded.scale)
    return found.format.rows(found.data)


def test_experts_become_mimos_and_all_else_stays(moe: Path, tmp_path: Path) -> None:
    convert(moe, tmp_path / "out")
    before, after = tensors(moe), tensors(tmp_path / "out")
    experts = {name for name in before if ".experts." in name}
    assert len(experts) == 2 * 4 * 3
    assert after.keys() == before.keys() | {f"{name}_scale" for name in experts}
    for name, tensor in before.items():
        if name in experts:
            encoded = encode(tensor)
            assert torch.equal(after[name], encoded.weight) and after[name].dtype is torch.uint8
            assert torch.equal(after[f"{name}_scale"], encoded.scale)
        else:
            assert after[name].dtype is tensor.dtype
            assert torch.equal(after[name].view(torch.int16), tensor.view(torch.int16))


@pytest.mark.parametrize("model", ["moe", "gpt_oss"])
@pytest.mark.parametrize("scale", ["mse", "max"])
def test_our_loader_reads_it(
    model: str, scale: Scale, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source: Path = request.getfixturevalue(model)
    convert(source, tmp_path / "out", scale=scale)
    before, after = packed(source), packed(tmp_path / "out")
    assert before.keys() == after.keys()
    for name, weight in before.items():
        quantised = ".experts." in name and name.endswith(".weight")
        assert torch.equal(after[name], rounded(weight, scale) if quantised else weight), name


def test_fused_experts_give_the_same_file(moe: Path, fused: Path, tmp_path: Path) -> None:
    with safe_open(fused / "model.safetensors", "pt") as file:
        assert "model.layers.1.mlp.experts.gate_up_proj" in file.keys()
    convert(moe, tmp_path / "one")
    convert(fused, tmp_path / "two")
    one, two = (
        (tmp_path / name / "model-00001-of-00001.safetensors").read_bytes() for name in ("one", "two")
    )
    assert one == two


def test_gpt_oss_dequantises_in_transformers_to_the_same(gpt_oss: Path, tmp_path: Path) -> None:
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    convert(gpt_oss, tmp_path / "out")
    before, after = tensors(gpt_oss), tensors(tmp_path / "out")
    for name in ("gate_up_proj", "down_proj"):
        own = f"model.layers.1.mlp.experts.{name}"
        found = convert_moe_packed_tensors(
            after[f"{own}_blocks"], after[f"{own}_scales"], dtype=torch.float32
        )
        expected = torch.stack([rounded(expert.T.contiguous()).T for expert in before[own]])
        assert torch.equal(found, expected)
        assert torch.equal(after[f"{own}_bias"], before[f"{own}_bias"])
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert config["quantization_config"]["quant_method"] == "mxfp4"


def test_what_lies_beside_the_weights(moe: Path, tmp_path: Path) -> None:
    result = convert(moe, tmp_path / "out", shard_bytes=60_000)
    found = contents(tmp_path / "out")
    shards = sorted(name for name in found if name.startswith("model-"))
    assert len(shards) > 3 and shards[0] == f"model-00001-of-{len(shards):05}.safetensors"
    others = {"README.md", "README.source.md", "LICENSE", "tokenizer.json", "generation_config.json"}
    made = {"config.json", "conversion.json", "model.safetensors.index.json"}
    drafter = {"dflash/config.json", "dflash/model.safetensors"}
    assert found.keys() == {*shards, *others, *made, *drafter}
    assert found["LICENSE"] == b"Do as you like.\n"
    card = found["README.md"].decode()
    assert card.startswith("---\nlicense: apache-2.0\ntags:\n- mxfp4\n---\n\n# tiny-moe, experts in MXFP4\n")
    assert found["README.source.md"] == (moe / "README.md").read_bytes()
    config, index = (json.loads(found[name]) for name in ("config.json", "model.safetensors.index.json"))
    quantisation = config["quantization_config"]
    assert quantisation["store_dtype"] == "mxfp4" and quantisation["mxfp4_block_size"] == 32
    assert "model.layers.1.self_attn.q_proj" in quantisation["ignored_layers"]
    assert not any(".experts." in name for name in quantisation["ignored_layers"])
    assert {k: v for k, v in config.items() if k != "quantization_config"} == json.loads(
        (moe / "config.json").read_text()
    )
    assert index["metadata"]["save_format"] == "mxfp4"
    assert index["metadata"]["total_size"] == sum(t.nbytes for t in tensors(tmp_path / "out").values())
    report = json.loads(found["conversion.json"])
    assert report["sha256"] == {name: hashlib.sha256(found[name]).hexdigest() for name in shards}
    assert result.after == sum(len(found[name]) for name in shards) < result.before


def test_tensors_begin_at_multiples_of_their_elements(moe: Path, tmp_path: Path) -> None:
    convert(moe, tmp_path / "out", shard_bytes=60_000)
    sizes = {"BF16": 2, "F32": 4, "U8": 1}
    for file in (tmp_path / "out").glob("*.safetensors"):
        raw = file.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8 : 8 + length])
        header.pop("__metadata__")
        assert all((8 + length + e["data_offsets"][0]) % sizes[e["dtype"]] == 0 for e in header.values())


def test_the_report_is_of_these_weights(moe: Path, tmp_path: Path) -> None:
    result = convert(moe, tmp_path / "out")
    report = json.loads((tmp_path / "out/conversion.json").read_text())
    assert [(r["layer"], r["projection"]) for r in report["layers"]] == [
        (layer, projection) for layer in (1, 2) for projection in ("gate", "up", "down")
    ]
    before = tensors(moe)
    names = [f"model.layers.2.mlp.experts.{e}.up_proj.weight" for e in range(4)]
    weights = torch.cat([before[name].double().flatten() for name in names])
    found = torch.cat([rounded(before[name]).double().flatten() for name in names])
    row = next(r for r in report["layers"] if (r["layer"], r["projection"]) == (2, "up"))
    assert row["weights"] == len(weights)
    expected = ((weights - found).norm() / weights.norm()).item()
    assert row["relative_rms"] == pytest.approx(expected, rel=1e-6)
    assert row["largest_error"] == pytest.approx((weights - found).abs().max().item(), rel=1e-5)
    assert result.losses.total.weights == 2 * 4 * 3 * 64 * 32


def test_mse_is_the_better_default(moe: Path, tmp_path: Path) -> None:
    errors = [
        convert(moe, tmp_path / scale, scale=scale).losses.total.relative_rms for scale in ("mse", "max")
    ]
    assert errors[0] < errors[1]


def test_fp8_experts_are_read_by_their_scales(moe: Path, tmp_path: Path) -> None:
    """As in MiMo's FP8 checkpoints: codes, and a scale for each square of 128 x 128."""
    before = tensors(moe)
    stored, values = {}, {}
    for name, tensor in before.items():
        if ".experts." not in name:
            stored[name] = tensor
            continue
        scale = torch.full((1, 1), 0.0123)
        stored[name] = (tensor.float() / scale).to(torch.float8_e4m3fn)
        stored[f"{name}_scale_inv"] = scale
        values[name] = stored[name].float() * scale
    source = tmp_path / "fp8"
    source.mkdir()
    save_file(stored, source / "model.safetensors")
    config = json.loads((moe / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128], "x": "kept"}
    (source / "config.json").write_text(json.dumps(config))
    convert(source, tmp_path / "out")
    after = tensors(tmp_path / "out")
    assert not any(name.endswith("_scale_inv") for name in after)
    for name, tensor in values.items():
        assert torch.equal(after[name], encode(tensor).weight)
    kept = json.loads((tmp_path / "out/config.json").read_text())["quantization_config"]
    assert kept["x"] == "kept" and kept["store_dtype"] == "mxfp4" and "ignored_layers" not in kept


def test_dense_mlps(dense: Path, tmp_path: Path) -> None:
    convert(dense, tmp_path / "out", {"mlp": "mxfp4"})
    before, after = packed(dense), packed(tmp_path / "out")
    for name, weight in before.items():
        mlp = name.split(".")[-2] in ("gate", "up", "down")
        assert torch.equal(after[name], rounded(weight) if mlp else weight), name
    assert "costs more quality" in (tmp_path / "out/README.md").read_text()


def test_a_mixture_may_have_both(moe: Path, tmp_path: Path) -> None:
    convert(moe, tmp_path / "out", {"experts": "mxfp4", "mlp": "mxfp4"})
    after = tensors(tmp_path / "out")
    assert after["model.layers.0.mlp.gate_proj.weight"].dtype is torch.uint8
    assert after["model.layers.1.mlp.gate.weight"].dtype is torch.bfloat16


@pytest.mark.parametrize("role", ["attention", "router", "norms", "embeddings", "head"])
def test_some_roles_stay(moe: Path, tmp_path: Path, role: str) -> None:
    with pytest.raises(
        ConversionError, match=f"{role} stays as it is: .*; --experts and --mlp are what can be"
    ):
        convert(moe, tmp_path / "out", {"experts": "mxfp4", role: "mxfp4"})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("formats", "words"),
    [
        ({"experts": "int4"}, "cannot become int4"),
        ({}, "say what is to be"),
        ({"x": "mxfp4"}, "x cannot become"),
    ],
)
def test_what_is_asked_must_make_sense(
    moe: Path, tmp_path: Path, formats: dict[str, str], words: str
) -> None:
    with pytest.raises(ConversionError, match=words):
        convert(moe, tmp_path / "out", formats)


def test_what_is_not_there_cannot_be_converted(dense: Path, gpt_oss: Path, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="the model is dense: --mlp mxfp4"):
        convert(dense, tmp_path / "out")
    with pytest.raises(ConversionError, match="no dense MLPs"):
        convert(gpt_oss, tmp_path / "out", {"mlp": "mxfp4"})


def test_what_is_quantised_is_not_rounded_again(moe: Path, gpt_oss: Path, tmp_path: Path) -> None:
    for source in (moe, gpt_oss):
        folder = tmp_path / source.name
        convert(source, folder)
        with pytest.raises(ConversionError, match=r"is quantised already \(mxfp4\): convert the original"):
            convert(folder, tmp_path / "again")


def changed(moe: Path, folder: Path, name: str, tensor: torch.Tensor) -> Path:
    """The model with one other tensor."""
    folder.mkdir()
    save_file(tensors(moe) | {name: tensor}, folder / "model.safetensors")
    (folder / "config.json").write_bytes((moe / "config.json").read_bytes())
    return folder


EXPERT = "model.layers.2.mlp.experts.3.up_proj.weight"


@pytest.mark.parametrize(
    ("name", "tensor", "error", "words"),
    [
        (
            EXPERT,
            torch.full((32, 64), float("nan")),
            ModelFileError,
            "up_proj.weight': a weight is NaN or inf",
        ),
        (EXPERT, torch.full((32, 64), float("-inf")), ModelFileError, r"experts\.3\.up_proj"),
        (EXPERT, torch.zeros(32, 48), UnsupportedModel, "has rows of 48, which is not made of groups of 32"),
        (EXPERT, torch.zeros(32), UnsupportedModel, "is .32., not a matrix"),
        (
            EXPERT,
            torch.zeros(32, 64, dtype=torch.int8),
            UnsupportedModel,
            "is I8, which is not rounded again",
        ),
        (EXPERT, torch.zeros(32, 64).to(torch.float8_e4m3fn), ModelFileError, "no tensor .*_scale_inv"),
        (
            "model.layers.2.mlp.experts.3.w1.weight",
            torch.zeros(2, 32),
            UnsupportedModel,
            "no form of an expert",
        ),
    ],
)
def test_weights_that_cannot_be_quantised(
    moe: Path, tmp_path: Path, name: str, tensor: torch.Tensor, error: type[UltraError], words: str
) -> None:
    source = changed(moe, tmp_path / "source", name, tensor)
    with pytest.raises(error, match=words):
        convert(source, tmp_path / "out")


def test_names_that_would_be_taken_twice(moe: Path, tmp_path: Path) -> None:
    name = "model.layers.0.mlp.up_proj.weight_scale"
    source = changed(moe, tmp_path / "source", name, torch.zeros(96, 2))
    with pytest.raises(UnsupportedModel, match=f"several tensors '{name}'"):
        convert(source, tmp_path / "out", {"mlp": "mxfp4"})


def test_a_fused_expert_that_is_not_finite_is_named(fused: Path, tmp_path: Path) -> None:
    name = "model.layers.1.mlp.experts.down_proj"
    bad = tensors(fused)[name].clone()
    bad[2, 5, 7] = float("inf")
    with pytest.raises(
        ModelFileError, match=r"experts\.down_proj' \(expert 2\): a weight is NaN or infinite"
    ):
        convert(changed(fused, tmp_path / "source", name, bad), tmp_path / "out")


def test_nan_elsewhere_is_none_of_our_business(moe: Path, tmp_path: Path) -> None:
    source = changed(moe, tmp_path / "source", "model.norm.weight", torch.full((64,), float("nan")))
    convert(source, tmp_path / "out")
    assert tensors(tmp_path / "out")["model.norm.weight"].isnan().all()
