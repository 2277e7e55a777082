"""The GGUF parser: sound files are read exactly, every fault is one `ModelFileError`."""

from __future__ import annotations

import math
import random
import struct
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType
from gguf.constants import GGUFValueType as V
from gguf_files import Array, Gguf, Tensor, entries, f32, text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ultra_engine.errors import ModelFileError
from ultra_engine.weights import gguf_cursor
from ultra_engine.weights.gguf import GGUFFile

SOUND = Gguf(
    metadata=[
        ("general.architecture", V.STRING, "llama"),
        ("u8", V.UINT8, 255),
        ("i8", V.INT8, -1),
        ("u16", V.UINT16, 65535),
        ("i16", V.INT16, -2),
        ("u32", V.UINT32, 2**32 - 1),
        ("i32", V.INT32, -3),
        ("f32", V.FLOAT32, 0.5),
        ("yes", V.BOOL, True),
        ("u64", V.UINT64, 2**64 - 1),
        ("i64", V.INT64, -4),
        ("f64", V.FLOAT64, 1e300),
        ("words", V.ARRAY, Array(V.STRING, ["", "é", "日本"])),
        ("flags", V.ARRAY, Array(V.BOOL, [True, False])),
        ("none", V.ARRAY, Array(V.STRING, [])),
        ("nested", V.ARRAY, Array(V.ARRAY, [Array(V.INT32, [1, -2]), Array(V.STRING, ["x"])])),
    ],
    tensors=[f32("a.weight", 3, 5), f32("b.weight", 7, seed=1), f32("c.weight", 2, 3, 4, 5, seed=2)],
)


def fault(file: Gguf | bytes, path: Path) -> str:
    """Open a bad file; returns the reason given."""
    path.write_bytes(file if isinstance(file, bytes) else file.bytes())
    with pytest.raises(ModelFileError) as caught:
        GGUFFile.open(path).close()
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    return caught.value.reason


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def test_every_value_type_is_read(path: Path) -> None:
    with GGUFFile.open(SOUND.write(path)) as file:
        plain = {key: value for key, _, value in SOUND.metadata if not isinstance(value, Array)}
        assert {key: file.metadata[key] for key in plain} == plain
        assert file.metadata["words"] == ["", "é", "日本"]
        assert file.metadata["flags"] == [True, False] and type(file.metadata["yes"]) is bool
        assert file.metadata["none"] == []
        assert file.metadata["nested"] == [[1, -2], ["x"]]


def test_tensors_are_read_only_views_with_row_major_shapes(path: Path) -> None:
    with GGUFFile.open(SOUND.write(path)) as file:
        assert [tensor.shape for tensor in file.tensors.values()] == [(3, 5), (7,), (2, 3, 4, 5)]
        for written in SOUND.tensors:
            view = file.data(written.name)
            assert view.tobytes() == written.data and view.dtype == np.uint8
            assert file.tensors[written.name].nbytes == len(written.data)
            assert file.tensors[written.name].offset % 32 == 0
            with pytest.raises(ValueError, match="read-only"):
                view[0] = 1


def test_views_outlive_the_file(path: Path) -> None:
    file = GGUFFile.open(SOUND.write(path))
    view = file.data("b.weight")
    file.close()
    file.close()
    assert view.tobytes() == SOUND.tensors[1].data


@pytest.mark.parametrize("version", [2, 3])
def test_versions_two_and_three(path: Path, version: int) -> None:
    GGUFFile.open(Gguf(version=version, tensors=[f32("t", 2, 2)]).write(path)).close()


def test_agrees_with_the_gguf_package(path: Path) -> None:
    """Every quantised type, with the alignment changed, as the public writer lays it out."""
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_custom_alignment(64)
    writer.add_token_list(["a", "b"])
    written = {}
    for kind, (_, size) in gguf.GGML_QUANT_SIZES.items():
        if kind.name.startswith(("F", "I8", "I16", "I32", "I64")):
            continue
        written[kind] = np.random.default_rng(kind).integers(0, 256, (3, size * 2), dtype=np.uint8)
        writer.add_tensor(kind.name, written[kind], raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with GGUFFile.open(path) as file:
        assert file.metadata["tokenizer.ggml.tokens"] == ["a", "b"]
        for kind, raw in written.items():
            tensor = file.tensors[kind.name]
            assert tensor.shape == (3, 2 * gguf.GGML_QUANT_SIZES[kind][0]) and tensor.type == kind
            assert tensor.offset % 64 == 0
            assert file.data(kind.name).tobytes() == raw.tobytes()


def test_field_checks_types(path: Path) -> None:
    metadata = entries({"n": 3, "x": 2.5, "s": "t", "flag": True, "list": ["a"]})
    with GGUFFile.open(Gguf(metadata).write(path)) as file:
        assert file.field("n", int) == 3 and file.field("n", float) == 3.0 and file.field("x", float) == 2.5
        assert file.field("list", list) == ["a"]
        assert file.field("absent", int, None) is None and file.field("absent", int, 7) == 7
        for key, kind in [("n", str), ("s", int), ("flag", int), ("x", int), ("flag", float)]:
            with pytest.raises(ModelFileError, match=f"metadata {key} is a"):
                file.field(key, kind)
        with pytest.raises(ModelFileError, match="metadata absent is missing"):
            file.field("absent", int)


def one(dims: list[int], offset: int | None = None, type: int = 0, n_dims: int | None = None) -> Gguf:
    return Gguf(tensors=[Tensor("t", dims, type, offset, n_dims)], tail=bytes(4096))


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (one([2, 2], n_dims=1_000_000), "1000000 dimensions"),
        (one([2, 2], n_dims=2**32 - 1), "4294967295 dimensions"),
        (one([2, 2, 1, 1, 1]), "5 dimensions"),
        (one([], n_dims=0), "0 dimensions"),
        (one([2**32, 2**32]), "truncated"),
        (one([2**62 + 1, 4]), "truncated"),
        (one([2**63, 1]), "truncated"),
        (one([2**64 - 1] * 4), "truncated"),
        (one([4, 0]), "zero dimension"),
        (one([0]), "zero dimension"),
        (one([4, 4], offset=2**40), "truncated"),
        (one([4, 4], offset=2**64 - 32), "truncated"),
        (one([4, 4], offset=7), "not aligned"),
        (one([4, 4], type=99), "type 99"),
        (one([4, 4], type=4), "type 4"),
        (one([33, 4], type=int(GGMLQuantizationType.Q4_0)), "rows of 33"),
        (Gguf(tensors=[f32("t", 2), f32("t", 2)]), "appears twice"),
        (Gguf(tensors=[f32("a", 64), Tensor("b", [64], offset=32)], tail=bytes(4096)), "overlap"),
    ],
)
def test_bad_tensors(path: Path, file: Gguf, reason: str) -> None:
    assert reason in fault(file, path)


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (Gguf([("k", V.UINT32, 1), ("k", V.UINT32, 2)]), "appears twice"),
        (Gguf([("general.alignment", V.UINT32, 0)], [f32("t", 2)]), "power of two"),
        (Gguf([("general.alignment", V.UINT32, 3)], [f32("t", 2)]), "power of two"),
        (Gguf([("general.alignment", V.UINT32, 2**32 - 1)], [f32("t", 2)]), "power of two"),
        (Gguf([("general.alignment", V.UINT32, 2**31)], [f32("t", 2)]), "truncated"),
        (Gguf([("general.alignment", V.STRING, "32")], [f32("t", 2)]), "32-bit"),
        (Gguf([("k", V.ARRAY, Array(V.UINT8, [], count=2**60))]), "truncated"),
        (Gguf([("k", V.ARRAY, Array(V.STRING, [], count=2**61))], tail=bytes(64)), "truncated"),
        (Gguf([("k", V.ARRAY, Array(V.STRING, ["a"], count=2))], tail=b"\xff" * 64), "truncated"),
        (Gguf([("k", V.STRING, b"\xff\xfe")]), "not UTF-8"),
        (Gguf([("k", V.ARRAY, Array(V.STRING, ["a", b"\xff"]))]), "item 1 is not UTF-8"),
        (Gguf(n_tensors=2**63), "cannot fit"),
        (Gguf(n_metadata=2**63), "cannot fit"),
        (Gguf(magic=b"GGML", tail=bytes(64)), "not a GGUF file"),
        (Gguf(version=1), "version 1"),
        (Gguf(version=4), "version 4"),
        (Gguf(version=0x03000000), "big-endian"),
        (b"GGUF", "shorter"),
        (b"", "shorter"),
        (b"<!DOCTYPE html><html><body>", "not a GGUF file: it begins with b'<!DO'"),
    ],
)
def test_bad_metadata(path: Path, file: Gguf | bytes, reason: str) -> None:
    assert reason in fault(file, path)


def test_an_undefined_value_type(path: Path) -> None:
    raw = Gguf(n_metadata=1).bytes()[:24] + text("k") + struct.pack("<I", 13) + bytes(32)
    assert "value type 13" in fault(raw, path)


def test_nested_array_bomb(path: Path) -> None:
    bomb = struct.pack("<IQ", V.ARRAY, 1) * 100_000
    raw = Gguf(n_metadata=1).bytes()[:24] + text("k") + struct.pack("<I", V.ARRAY) + bomb
    assert "nests arrays" in fault(raw, path)


def test_too_many_items(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_cursor, "ITEM_LIMIT", 10)
    assert "more than 10 array items" in fault(Gguf(entries({"a": [1] * 6, "b": [1] * 6})), path)


def test_a_header_beyond_the_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_cursor, "HEADER_LIMIT", 1 << 20)
    assert "larger than 1 MiB" in fault(Gguf(entries({"a": "x" * (1 << 20)})), path)


def test_long_names_are_refused_or_cut_in_messages(path: Path) -> None:
    assert "at most 65535" in fault(Gguf(entries({"k" * 65_536: 1})), path)
    assert len(fault(Gguf(tensors=[Tensor("n\n" * 30_000, [0])]), path)) < 200


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    for path, reason in [(tmp_path, "not a file"), (tmp_path / "absent.gguf", "no such file")]:
        with pytest.raises(ModelFileError, match=reason):
            GGUFFile.open(path)


@pytest.mark.parametrize("cut", range(0, len(SOUND.bytes()), 7))
def test_every_cut_is_noticed(path: Path, cut: int) -> None:
    fault(SOUND.bytes()[:cut], path)


def test_the_last_byte_missing_says_truncated(path: Path) -> None:
    raw = SOUND.bytes()
    assert f"ends at byte {len(raw)}, the file has {len(raw) - 1}" in fault(raw[:-1], path)


def check_any(raw: bytes, path: Path) -> None:
    """Whatever the bytes are: a sound file with tensors inside it, or one `ModelFileError`."""
    path.write_bytes(raw)
    try:
        with GGUFFile.open(path) as file:
            for name, tensor in file.tensors.items():
                assert 0 < math.prod(tensor.shape) and tensor.offset + tensor.nbytes <= len(raw)
                assert len(file.data(name)) == tensor.nbytes
    except ModelFileError as error:
        assert "\n" not in str(error)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edits=st.lists(
        st.tuples(
            st.integers(0, len(SOUND.bytes()) - 1),
            st.sampled_from([b"\0", b"\xff", b"\x80", bytes(8), b"\xff" * 4, b"\xff" * 8, b"\1" + bytes(7)]),
        ),
        max_size=4,
    ),
    cut=st.integers(0, 400),
)
def test_mutated_files(path: Path, edits: list[tuple[int, bytes]], cut: int) -> None:
    raw = bytearray(SOUND.bytes())
    for at, new in edits:
        raw[at : at + len(new)] = new
    check_any(bytes(raw[: len(raw) - cut]), path)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tail=st.binary(max_size=200), counts=st.tuples(st.integers(0, 6), st.integers(0, 6)))
def test_random_bytes_after_a_sound_start(path: Path, tail: bytes, counts: tuple[int, int]) -> None:
    check_any(b"GGUF" + struct.pack("<IQQ", 3, *counts) + tail, path)


def test_single_bit_flips(path: Path) -> None:
    raw = bytearray(SOUND.bytes())
    for bit in random.Random(5).sample(range(len(raw) * 8), 1500):
        raw[bit // 8] ^= 1 << bit % 8
        check_any(bytes(raw), path)
        raw[bit // 8] ^= 1 << bit % 8


def test_the_parser_needs_no_torch() -> None:
    code = "import sys, ultra_engine.weights.gguf; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
