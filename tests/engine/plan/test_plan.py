"""Plans: the arithmetic that is published, and what config.json files say."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_engine.errors import ModelError, ModelFileError, UnsupportedModel
from ultra_engine.models.config import Mixture
from ultra_engine.plan import known
from ultra_engine.plan.gpus import GPUS, parse
from ultra_engine.plan.plan import Facts, Plan, make
from ultra_engine.plan.step import Load, distinct, drafter_parameters, kv_bytes
from ultra_kernels.program import Scoring

MIMO = "MiMo-V2.5-Pro-FP4-DFlash"


def facts(name: str) -> Facts:
    found = Facts.known(name)
    assert found is not None
    return found


def plan(name: str, gpus: str, block: int | None = None, accept: float | None = None, **more: Any) -> Plan:
    return make(facts(name), parse(gpus), block, accept, more.get("context"))


def case(plan: Plan, name: str) -> tuple[str, str, str]:
    """GB, ms and tokens a second as they are printed."""
    found = next(case for case in plan.cases if case.name.startswith(name))
    seconds = found.step.seconds(plan.node.bandwidth)
    return f"{found.step.bytes / 1e9:.1f}", f"{seconds * 1e3:.2f}", f"{found.accept / seconds:.0f}"


def test_mimo_on_eight_h200() -> None:
    """The figures of the engine's design: a block of 8 reads 103.8 GB, which takes 2.70 ms."""
    found = plan(MIMO, "8xH200", 8, 6.3)
    assert case(found, "attention in FP8") == ("103.8", "2.70", "2330")
    assert case(found, "o_proj in BF16") == ("110.9", "2.89", "2182")
    assert case(found, "rows share 20%") == ("90.3", "2.35", "2679")
    assert case(found, "rows share 40%")[2] == "3167"
    assert case(found, "rows share 60%")[2] == "3893"
    assert case(found, "context of 131072")[0] == "110.3"
    assert case(found, "experts in FP8")[0] == "176.5"
    assert case(found, "no speculation") == ("32.5", "0.85", "1180")
    assert f"{found.break_even:.1f}" == "3.2"
    step = found.base.step
    parts = [step.experts, step.attention, step.other, step.kv]
    assert [f"{part / 1e9:.2f}" for part in parts] == ["82.36", "18.72", "2.50", "0.25"]


def test_mimo_on_eight_b200() -> None:
    assert case(plan(MIMO, "8xB200", 8, 6.3), "attention in FP8") == ("103.8", "1.62", "3883")


def test_mimo_block_by_block() -> None:
    blocks = plan(MIMO, "8xH200").blocks
    assert [(b.block, f"{b.distinct:.1f}", f"{b.bytes / 1e9:.1f}") for b in blocks] == [
        (1, "8.0", "32.5"),
        (2, "15.8", "43.4"),
        (4, "31.0", "64.4"),
        (8, "59.5", "103.8"),
        (16, "109.8", "173.4"),
    ]


def test_mimo_is_the_size_that_its_card_says() -> None:
    """1.02 T, 42 B active, files of about 570 GB; its drafter as that of V2.6-Pro, 5.16 GiB."""
    found = plan(MIMO, "8xH200")
    assert found.facts.config.parameters == pytest.approx(1.02e12, rel=0.005)
    assert found.facts.config.active_parameters == pytest.approx(42e9, rel=0.005)
    drafter = drafter_parameters(known.DRAFTERS[MIMO]) * 2
    assert drafter / 2**30 == pytest.approx(5.16, abs=0.01)
    assert found.weights + drafter == pytest.approx(570e9, rel=0.01)
    assert found.memory.fits and found.memory.weights == pytest.approx(70e9, rel=0.01)
    assert not plan(MIMO, "4xH200").memory.fits


@pytest.mark.parametrize(
    ("name", "parameters", "weights"),
    [("gpt-oss-20b", 20.9e9, 13.8e9), ("gpt-oss-120b", 116.8e9, 65.2e9)]
    + [("Qwen3-30B-A3B", 30.5e9, 61.1e9), ("Qwen3-8B", 8.19e9, 16.4e9)],
)
def test_sizes_of_the_others(name: str, parameters: float, weights: float) -> None:
    found = plan(name, "1xH100")
    assert found.facts.config.parameters == pytest.approx(parameters, rel=0.005)
    assert found.weights == pytest.approx(weights, rel=0.005)


def test_published_drafters() -> None:
    """z-lab's counts of its drafters' weights."""
    assert drafter_parameters(known.DRAFTERS["Qwen3-8B"]) == pytest.approx(1.049e9, rel=0.001)
    assert drafter_parameters(known.DRAFTERS["gpt-oss-20b"]) == pytest.approx(784.8e6, rel=0.001)


def test_kv_of_a_token() -> None:
    assert facts("Qwen3-8B").config.kv_bytes_per_token == 36 * 2 * 8 * 128 * 2
    # 10 layers see everything, 60 a window of 128; 8 heads of 192 and 128.
    assert kv_bytes(facts(MIMO).config, 1000) == (10 * 1000 + 60 * 128) * 8 * 320 * 2
    assert kv_bytes(facts(MIMO).config, 1000, ranks=16) == 2 * kv_bytes(facts(MIMO).config, 1000)


mixtures = st.builds(
    lambda experts, part: Mixture(experts, max(1, round(experts * part)), 32, Scoring.SIGMOID),
    st.integers(1, 512),
    st.floats(0, 1),
)


@given(mixture=mixtures, block=st.integers(1, 64), shared=st.floats(0, 1))
def test_distinct_experts(mixture: Mixture, block: int, shared: float) -> None:
    one, some = distinct(mixture, Load(1)), distinct(mixture, Load(block, shared=shared))
    assert one == pytest.approx(mixture.top_k)
    assert one * (1 - 1e-9) <= some <= min(mixture.experts, block * mixture.top_k) * (1 + 1e-9)
    assert some <= distinct(mixture, Load(block)) * (1 + 1e-9)
    independent = mixture.experts * (1 - (1 - mixture.top_k / mixture.experts) ** block)
    assert distinct(mixture, Load(block)) == pytest.approx(independent)


def test_a_dense_model_reads_all_of_it() -> None:
    found = plan("Qwen3-8B", "1xH200", 1)
    embedding = 151936 * 4096 * 2
    kv = 4096 * found.facts.config.kv_bytes_per_token
    assert found.base.step.bytes == pytest.approx(found.weights - embedding + kv)
    assert [case.name for case in found.cases] == ["as stored"]
    block = plan("Qwen3-8B", "1xH200")
    assert block.load.block == 16 and block.base.accept == 6.5
    assert block.base.step.bytes == found.base.step.bytes


def test_how_far_the_memory_goes() -> None:
    found = plan("Qwen3-8B", "1xcustom:24:1", 1)
    left = 24e9 * 0.92 - found.memory.weights - found.memory.drafter
    assert found.memory.positions == math.floor(left / found.facts.config.kv_bytes_per_token)
    assert found.memory.fits
    assert plan("Qwen3-8B", "1xH200", 1).memory.positions == found.facts.config.context
    assert not plan("Qwen3-8B", "1xcustom:20:1", 1, context=30000).memory.fits
    assert plan("Qwen3-8B", "1xcustom:10:1").memory.positions == 0


def test_ranks_that_do_not_divide() -> None:
    assert plan(MIMO, "8xH200").warnings == ()
    assert plan(MIMO, "6xH200").warnings == (
        "128 heads cannot be shared equally by 6 ranks",
        "16384 columns of an MLP cannot be shared equally by 6 ranks",
        "2048 columns of an expert in groups of 32 cannot be shared equally by 6 ranks",
    )


@pytest.mark.parametrize(
    ("block", "accept", "context", "words"),
    [(0, None, None, "--block 0"), (8, 9, None, "--accept 9: a block of 8 yields 1 to 8 tokens")]
    + [
        (8, 0.5, None, "--accept"),
        (8, math.nan, None, "--accept nan"),
        (8, 2, 10**7, "--context 10000000: the"),
    ],
)
def test_numbers_that_make_no_sense(
    block: int, accept: float | None, context: int | None, words: str
) -> None:
    with pytest.raises(ModelError, match=words):
        plan(MIMO, "8xH200", block, accept, context=context)


def config(tmp_path: Path, changes: dict[str, Any], name: str = "Qwen3-30B-A3B") -> Path:
    (tmp_path / "config.json").write_text(json.dumps({**known.CONFIGS[name], **changes}))
    return tmp_path


def test_a_config_file_is_all_it_takes(tmp_path: Path) -> None:
    folder = config(tmp_path, {})
    for path in (folder, folder / "config.json"):
        found = Facts.read(path)
        assert found.name == tmp_path.name and found.drafter is None
        assert found.config.parameters == facts("Qwen3-30B-A3B").config.parameters


def test_a_drafter_beside_it(tmp_path: Path) -> None:
    folder = config(tmp_path, {})
    (folder / "dflash").mkdir()
    file = folder / "dflash/config.json"
    file.write_text(json.dumps(known.DRAFTERS["Qwen3-8B"]))
    found = make(Facts.read(folder), parse("H200"), None, None, None)
    assert found.load.block == 16 and found.base.accept == 1
    good = known.DRAFTERS["Qwen3-8B"]
    for bad in (
        {},
        {**good, "block_size": "x"},
        {**good, "dflash_config": []},
        {**good, "num_hidden_layers": []},
    ):
        file.write_text(json.dumps(bad))
        with pytest.raises(ModelFileError, match="dflash/config.json: is no drafter's"):
            Facts.read(folder)


def weights(tmp_path: Path, changes: dict[str, Any]) -> float:
    return make(Facts.read(config(tmp_path, changes)), parse("H200"), None, None, None).weights


def test_what_quantisation_says_of_each_role(tmp_path: Path) -> None:
    """MXFP4 has 4.25 bits a weight, FP8 a float32 for 128 x 128; routers, embeddings and norms stay."""
    found = facts("Qwen3-30B-A3B").config
    experts = 48 * 128 * 3 * 2048 * 768
    attention = 48 * 2 * 2048 * (32 + 4) * 128
    plain = found.parameters * 2
    assert weights(tmp_path, {}) == plain
    assert weights(tmp_path, {"dtype": "float32"}) == found.parameters * 4
    fp8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    each = 1 + 4 / 128**2
    saved = (experts + attention) * (2 - each)
    assert weights(tmp_path, {"quantization_config": fp8}) == pytest.approx(plain - saved)
    mxfp4 = fp8 | {"store_dtype": "mxfp4", "mxfp4_block_size": 32}
    saved = experts * (2 - 17 / 32) + attention * (2 - each)
    assert weights(tmp_path, {"quantization_config": mxfp4}) == pytest.approx(plain - saved)
    names = [f"model.layers.{n}.self_attn.{m}_proj" for n in range(48) for m in "qkvo"]
    ours = mxfp4 | {"ignored_layers": names}
    saved = experts * (2 - 17 / 32)
    assert weights(tmp_path, {"quantization_config": ours}) == pytest.approx(plain - saved)


@pytest.mark.parametrize("names", [5, {"a": 1}, [1], "x"])
def test_names_of_modules_that_are_none(tmp_path: Path, names: object) -> None:
    fp8 = {"quant_method": "fp8", "weight_block_size": [128, 128], "ignored_layers": names}
    with pytest.raises(ModelFileError, match="ignored_layers is not a list of names"):
        weights(tmp_path, {"quantization_config": fp8})


def test_files_that_are_no_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    with pytest.raises(UnsupportedModel, match="'mamba' model; supported families"):
        Facts.read(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ModelFileError):
        Facts.read(tmp_path / "config.json")


@pytest.mark.parametrize(
    ("text", "ranks", "memory", "bandwidth"),
    [("8xH200", 8, 141e9, 4.8e12), ("h100", 1, 80e9, 3.35e12), ("2xRTX 4090", 2, 24e9, 1.008e12)]
    + [
        ("4x mi300x", 4, 192e9, 5.3e12),
        ("3xcustom:24:0.5", 3, 24e9, 0.5e12),
        ("rtx-5090", 1, 32e9, 1.792e12),
    ],
)
def test_gpus(text: str, ranks: int, memory: float, bandwidth: float) -> None:
    node = parse(text.replace("x mi", "xmi"))
    assert (node.ranks, node.gpu.memory, node.gpu.bandwidth) == (ranks, memory, bandwidth)


@pytest.mark.parametrize(
    "text",
    ["", "8x", "8xT4", "0xH200", "2000xH200", "custom", "custom:0:1", "custom:1:x", "custom:1.2.3:1"]
    + ["H200:1:2", "-1xH200", "8 H200", "\u0668xH200"],
)
def test_what_is_no_gpu(text: str) -> None:
    with pytest.raises(ModelError, match="--gpus"):
        parse(text)


def test_every_name_is_found_as_people_write_it() -> None:
    assert {"a100", "h100", "h200", "b200", "mi300x", "rtx4090", "rtx5090"} == set(GPUS)
    for key in known.CONFIGS:
        assert known.find(key.upper()) == known.find(f"org/{key}") == key
    assert known.find("Qwen3") is None and Facts.known("nothing") is None
