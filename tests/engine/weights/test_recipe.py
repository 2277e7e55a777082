"""Recipes against what the layouts say, written out here in float64; and shares of ranks, byte by byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors_files import write
from torch import Tensor
from ultra_engine.errors import ModelFileError, UnsupportedModel
from ultra_engine.weights.checkpoint import Checkpoint
from ultra_engine.weights.recipe import (
    Axis,
    Recipe,
    fp8,
    fp8_kv,
    fused_qkv,
    matrix,
    mxfp4,
    mxfp4_blocks,
    plain,
    stack,
)
from ultra_kernels.step import Packed

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)


def codes(*shape: int) -> Tensor:
    """FP8 numbers, no NaN among them."""
    return torch.randint(0, 127, shape, dtype=torch.uint8).view(torch.float8_e4m3fn)


def grid(*shape: int) -> Tensor:
    return torch.rand(shape) + 0.5


def some_bytes(*shape: int) -> Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8)


def scales(*shape: int) -> Tensor:
    return torch.randint(120, 135, shape, dtype=torch.uint8)


def e2m1(values: Tensor, scale: Tensor) -> Tensor:
    """[..., K / 2] and [..., K / 32] -> float64 [..., K]: the low half of a byte has the even column."""
    numbers = torch.stack((E2M1[(values & 15).int()], E2M1[(values >> 4).int()]), dim=-1).flatten(-2)
    return numbers * (2.0 ** (scale.double() - 127)).repeat_interleave(32, dim=-1)


def squares(values: Tensor, scale: Tensor) -> Tensor:
    """One FP8 matrix with a grid that begins with it, as float32 has it."""
    rows, columns = values.shape
    spread = scale.double().repeat_interleave(128, 0)[:rows].repeat_interleave(128, 1)[:, :columns]
    return (values.double() * spread).float().double()


@contextmanager
def opened(folder: Path, tensors: Mapping[str, Tensor], shards: int = 2) -> Iterator[Checkpoint]:
    torch.manual_seed(7)
    with Checkpoint.open(write(folder, tensors, shards=shards)) as checkpoint:
        yield checkpoint


def numbers(packed: Packed) -> Tensor:
    return packed.format.rows(packed.data).double()


def check(recipe: Recipe, checkpoint: Checkpoint, want: Tensor, format: str) -> None:
    """Size and format known before, the numbers after."""
    want = want.double().reshape(-1, want.shape[-1])
    assert (recipe.rows, recipe.columns, recipe.format.name) == (*want.shape, format)
    packed = recipe.read(checkpoint)
    assert packed.shape == tuple(want.shape) and torch.equal(numbers(packed), want)


# --- floats -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "format"), [(torch.bfloat16, "bf16"), (torch.float16, "f16"), (torch.float32, "f32")]
)
def test_floats_as_they_are(tmp_path: Path, dtype: torch.dtype, format: str) -> None:
    stored = {
        "m": torch.randn(6, 10).to(dtype),
        "v": torch.randn(10).to(dtype),
        "s": torch.randn(3, 4, 10).to(dtype),
    }
    with opened(tmp_path, stored) as checkpoint:
        for name, tensor in stored.items():
            check(plain(checkpoint, name, tensor.shape), checkpoint, tensor, format)
            assert plain(checkpoint, name, tensor.shape).tensors == {name}
            packed = plain(checkpoint, name, tensor.shape).read(checkpoint)
            assert packed.data.data_ptr() == checkpoint.tensor(name).data_ptr()  # a view, no copy


def test_some_rows_and_columns_of_each_expert(tmp_path: Path) -> None:
    w, bias = torch.randn(3, 8, 10).bfloat16(), torch.randn(3, 8)
    with opened(tmp_path, {"w": w, "b": bias}) as c:
        for half in (0, 1):
            turns = slice(half, None, 2)
            check(plain(c, "w", (3, 8, 10), rows=turns), c, w[:, half::2], "bf16")
            check(plain(c, "w", (3, 8, 10), columns=turns), c, w[:, :, half::2], "bf16")
            check(plain(c, "w", (3, 8, 10), rows=turns, transposed=True), c, w.mT[:, half::2], "bf16")
            check(plain(c, "b", (3, 8), columns=turns), c, bias[:, half::2], "f32")
        check(plain(c, "w", (3, 8, 10), rows=slice(0, 4)), c, w[:, :4], "bf16")
        check(plain(c, "w", (3, 8, 10), rows=slice(4, None)), c, w[:, 4:], "bf16")
        check(plain(c, "w", (3, 8, 10), transposed=True), c, w.mT, "bf16")
        assert plain(c, "w", (3, 8, 10), rows=slice(4, None)).experts == 3


# --- FP8 and MXFP4 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fp8_squares(tmp_path: Path, dtype: torch.dtype) -> None:
    w, s = codes(300, 256), grid(3, 2).to(dtype)
    with opened(tmp_path, {"w.weight": w, "w.weight_scale_inv": s}) as c:
        check(fp8(c, "w.weight", 300, 256), c, squares(w, s), "fp8_block")
        check(matrix(c, "w.weight", 300, 256), c, squares(w, s), "fp8_block")
        assert fp8(c, "w.weight", 300, 256).tensors == {"w.weight", "w.weight_scale_inv"}


@pytest.mark.parametrize("e8m0", [False, True])
def test_mxfp4_pairs_of_each_expert(tmp_path: Path, e8m0: bool) -> None:
    stored, want = {}, []
    for e in range(5):
        w, s = some_bytes(6, 48), scales(6, 3)
        stored |= {f"e.{e}.weight": w, f"e.{e}.weight_scale": s.view(torch.float8_e8m0fnu) if e8m0 else s}
        want.append(e2m1(w, s))
    with opened(tmp_path, stored, shards=3) as c:
        recipe = stack(c, [f"e.{e}.weight" for e in range(5)], 6, 96)
        check(recipe, c, torch.stack(want), "mxfp4")
        assert recipe.experts == 5 and recipe.tensors == stored.keys()
        check(mxfp4(c, "e.3.weight", 6, 96), c, want[3], "mxfp4")


def test_gpt_oss_blocks_take_turns(tmp_path: Path) -> None:
    w, s = some_bytes(3, 8, 2, 16), scales(3, 8, 2)
    want = e2m1(w.flatten(-2), s)
    with opened(tmp_path, {"e.p_blocks": w, "e.p_scales": s}) as c:
        check(mxfp4_blocks(c, "e.p", (3, 8, 64)), c, want, "mxfp4")
        for half in (0, 1):
            recipe = mxfp4_blocks(c, "e.p", (3, 8, 64), rows=slice(half, None, 2))
            check(recipe, c, want[:, half::2], "mxfp4")
            assert recipe.experts == 3


def test_a_grid_begins_anew_with_each_chunk_of_fused_qkv(tmp_path: Path) -> None:
    """V2.5-Pro in small: chunks of 448 rows have 4 rows of scales, where one grid would have 3.5."""
    chunks, sizes, columns = 3, (288, 96, 64), 256
    chunk, across = sum(sizes), 4
    w, s = codes(chunks * chunk, columns), grid(chunks * across, columns // 128)
    each = [squares(w[n * chunk : (n + 1) * chunk], s[n * across : (n + 1) * across]) for n in range(chunks)]
    want = [torch.cat([part.split(sizes)[index] for part in each]) for index in range(3)]
    with opened(tmp_path, {"qkv.weight": w, "qkv.weight_scale_inv": s}) as c:
        for recipe, numbers in zip(fused_qkv(c, "qkv.weight", chunks, sizes, columns), want, strict=True):
            check(recipe, c, numbers, "fp8_block")


def test_fused_qkv_in_floats(tmp_path: Path) -> None:
    w = torch.randn(4 * 7, 6).bfloat16()
    parts = [chunk.split((4, 2, 1)) for chunk in w.split(7)]
    with opened(tmp_path, {"qkv.weight": w}) as c:
        for index, recipe in enumerate(fused_qkv(c, "qkv.weight", 4, (4, 2, 1), 6)):
            check(recipe, c, torch.cat([part[index] for part in parts]), "bf16")


@pytest.mark.parametrize(("high", "wide"), [(192, 128), (192, 64), (160, 128), (192, 300)])
def test_k_and_v_that_were_quantised_together(tmp_path: Path, high: int, wide: int) -> None:
    """V2-Flash's global layers: the squares of a head go on from k into v."""
    heads, columns = 4, 256
    in_k, in_all = -(-high // 128), -(-(high + wide) // 128)
    k, v = codes(heads * high, columns), codes(heads * wide, columns)
    ks, vs = grid(heads * in_k, 2), grid(heads * (in_all - in_k), 2)
    stored = {"k.weight": k, "v.weight": v, "k.weight_scale_inv": ks, "v.weight_scale_inv": vs}
    heads_k, heads_v = [], []
    for h in range(heads):
        both = torch.cat((k.split(high)[h].double(), v.split(wide)[h].double())).float()
        s = torch.cat((ks[h * in_k : (h + 1) * in_k], vs[h * (in_all - in_k) : (h + 1) * (in_all - in_k)]))
        whole = squares(both, s)
        heads_k.append(whole[:high])
        heads_v.append(whole[high:])
    with opened(tmp_path, stored) as c:
        for recipe, parts in zip(
            fp8_kv(c, ("k.weight", "v.weight"), heads, (high, wide), columns), (heads_k, heads_v), strict=True
        ):
            check(recipe, c, torch.cat(parts), "fp8_block")


def test_k_and_v_for_themselves(tmp_path: Path) -> None:
    """V2-Flash's sliding layers: two plain grids."""
    k, v, ks, vs = codes(8 * 192, 128), codes(8 * 128, 128), grid(12, 1), grid(8, 1)
    stored = {"k.weight": k, "v.weight": v, "k.weight_scale_inv": ks, "v.weight_scale_inv": vs}
    with opened(tmp_path, stored) as c:
        pair = fp8_kv(c, ("k.weight", "v.weight"), 8, (192, 128), 128)
        check(pair[0], c, squares(k, ks), "fp8_block")
        check(pair[1], c, squares(v, vs), "fp8_block")


# --- shares of ranks --------------------------------------------------------------------------------


class Counted(Tensor):
    """A run of a mapped file that counts the bytes of the views taken of it."""

    touched = 0

    def as_strided(self, size: Any, stride: Any, storage_offset: Any = None) -> Tensor:
        view = torch.as_strided(self.as_subclass(Tensor), size, stride)
        Counted.touched += view.numel() * view.element_size()
        return view


def touched(checkpoint: Checkpoint, recipe: Recipe, rank: int, ranks: int, axis: Axis) -> tuple[Packed, int]:
    """The share of a rank, and the bytes of the files that were read for it."""
    flat, Counted.touched = checkpoint.flat, 0
    checkpoint.flat = lambda *at: flat(*at).as_subclass(Counted)
    try:
        return recipe.read_rank(checkpoint, rank, ranks, axis), Counted.touched
    finally:
        del checkpoint.flat


def everything(folder: Path) -> tuple[Checkpoint, dict[str, Recipe]]:
    """A recipe of every kind, each 4 experts of 256 x 512, or one."""
    stored = {
        "plain": torch.randn(1024, 512).bfloat16(),
        "stack": torch.randn(4, 256, 512).bfloat16(),
        "turns": torch.randn(4, 512, 512),
        "transposed": torch.randn(4, 512, 256),
        "fp8.weight": codes(1024, 512),
        "fp8.weight_scale_inv": grid(8, 4),
        "blocks_blocks": some_bytes(4, 256, 16, 16),
        "blocks_scales": scales(4, 256, 16),
    }
    for e in range(4):
        stored |= {f"{e}.weight": some_bytes(256, 256), f"{e}.weight_scale": scales(256, 16)}
    c = Checkpoint.open(write(folder, stored, shards=3))
    return c, {
        "plain": plain(c, "plain", (1024, 512)),
        "stack": plain(c, "stack", (4, 256, 512)),
        "turns": plain(c, "turns", (4, 512, 512), rows=slice(1, None, 2)),
        "transposed": plain(c, "transposed", (4, 512, 256), transposed=True),
        "fp8": matrix(c, "fp8.weight", 1024, 512),
        "blocks": mxfp4_blocks(c, "blocks", (4, 256, 512)),
        "pairs": stack(c, [f"{e}.weight" for e in range(4)], 256, 512),
    }


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_share_a_weight_and_its_bytes(tmp_path: Path, ranks: int) -> None:
    c, recipes = everything(tmp_path)
    for recipe in recipes.values():
        whole, all_bytes = recipe.read(c), touched(c, recipe, 0, 1, Axis.ROWS)[1]
        want = numbers(whole).reshape(recipe.experts, -1, recipe.columns)
        for axis, dim in ((Axis.EXPERTS, 0), (Axis.ROWS, 1), (Axis.COLUMNS, 2)):
            if axis is Axis.EXPERTS and recipe.experts == 1:
                continue
            each = [touched(c, recipe, rank, ranks, axis) for rank in range(ranks)]
            for (share, count), part in zip(each, want.chunk(ranks, dim), strict=True):
                assert torch.equal(numbers(share), part.reshape(share.shape))
                assert share.format is whole.format and count * ranks == all_bytes
    c.close()


def test_a_share_that_begins_within_a_square_of_scales(tmp_path: Path) -> None:
    """192 rows a rank: the squares on the border are needed by both, and by nobody else."""
    w, s = codes(576, 128), grid(5, 1)
    with opened(tmp_path, {"w.weight": w, "w.weight_scale_inv": s}) as c:
        recipe, want = fp8(c, "w.weight", 576, 128), squares(w, s)
        counts = []
        for rank in range(3):
            share, count = touched(c, recipe, rank, 3, Axis.ROWS)
            assert torch.equal(numbers(share), want[rank * 192 : (rank + 1) * 192])
            counts.append(count - 192 * 128)
        assert counts == [2 * 4, 2 * 4, 2 * 4]


def test_what_cannot_be_shared_equally(tmp_path: Path) -> None:
    c, recipes = everything(tmp_path)
    with pytest.raises(ValueError, match="1024 rows cannot be shared equally by 3 ranks"):
        recipes["plain"].read_rank(c, 0, 3, Axis.ROWS)
    with pytest.raises(ValueError, match="512 columns in blocks of 128 cannot be shared equally by 8 ranks"):
        recipes["fp8"].read_rank(c, 0, 8, Axis.COLUMNS)
    with pytest.raises(ValueError, match="4 experts cannot be shared equally by 8 ranks"):
        recipes["pairs"].read_rank(c, 0, 8, Axis.EXPERTS)
    c.close()


# --- what does not fit ------------------------------------------------------------------------------


def test_misshapen_tensors_are_named(tmp_path: Path) -> None:
    stored = {
        "m": torch.zeros(4, 6),
        "i": torch.zeros(4, 6, dtype=torch.int32),
        "f.weight": codes(200, 128),
        "f.weight_scale_inv": grid(1, 1),
        "g.weight": codes(4, 128),
        "x.weight": some_bytes(4, 32),
        "x.weight_scale": scales(4, 3),
        "y.weight": some_bytes(4, 32),
        "y.weight_scale": scales(4, 2),
        "z.weight": torch.zeros(4, 64),
        "b_blocks": some_bytes(2, 4, 2, 16),
    }
    with opened(tmp_path, stored, shards=1) as c:
        file = tmp_path / "model.safetensors"
        for make, words in (
            (lambda: plain(c, "m", (4, 7)), f"{file}: tensor 'm' is [4, 6], not [4, 7]"),
            (lambda: plain(c, "m", (24,)), "tensor 'm' is [4, 6], not [24]"),
            (lambda: plain(c, "n", (4,)), f"{tmp_path}: there is no tensor 'n'"),
            (lambda: fp8(c, "f.weight", 200, 128), "tensor 'f.weight_scale_inv' is [1, 1], not [2, 1]"),
            (lambda: fp8(c, "g.weight", 4, 128), "there is no tensor 'g.weight_scale_inv'"),
            (lambda: matrix(c, "x.weight", 4, 64), "tensor 'x.weight_scale' is [4, 3], not [4, 2]"),
            (lambda: matrix(c, "x.weight", 4, 96), "tensor 'x.weight' is [4, 32], not [4, 48]"),
            (lambda: mxfp4_blocks(c, "b", (2, 4, 64)), "there is no tensor 'b_scales'"),
            (lambda: fused_qkv(c, "m", 2, (1, 1, 1), 6), "tensor 'm' is [4, 6], not [6, 6]"),
            (lambda: fp8_kv(c, ("f.weight", "g.weight"), 1, (200, 4), 128), "'f.weight_scale_inv' is [1, 1]"),
        ):
            with pytest.raises(ModelFileError) as caught:
                make()
            assert words in str(caught.value)
        for make, words in (
            (lambda: plain(c, "i", (4, 6)), "tensor 'i' is I32; supported: BF16, F16, F32"),
            (
                lambda: matrix(c, "f.weight", 200, 100),
                "rows of 100, not a multiple of the 128 in",
            ),
            (lambda: stack(c, ["y.weight", "z.weight"], 4, 64), "'z.weight' is f32, but 'y.weight' is mxfp4"),
        ):
            with pytest.raises(UnsupportedModel) as other:
                make()
            assert words in str(other.value)
