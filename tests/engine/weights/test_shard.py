"""One safetensors file: what a sound one holds, and what is said of one that lies."""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file
from safetensors_files import as_bytes, entry, raw
from ultra_engine.errors import ModelFileError
from ultra_engine.weights.shard import HEADER_LIMIT, Entry, Shard

TENSORS = {
    "a.weight": torch.arange(12.0).reshape(3, 4).bfloat16(),
    "nothing": torch.zeros(0, 5),
    "one": torch.tensor(7.5),
    "bytes": torch.arange(5, dtype=torch.uint8),
    "codes": torch.arange(6, dtype=torch.uint8).view(torch.float8_e4m3fn).reshape(2, 3),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    save_file(TENSORS, tmp_path / "a.safetensors", {"format": "pt"})
    return tmp_path / "a.safetensors"


def test_a_sound_file(file: Path) -> None:
    shard = Shard(file)
    assert shard.metadata == {"format": "pt"}
    assert shard.tensors["a.weight"] == Entry("a.weight", "BF16", (3, 4))
    assert shard.tensors["codes"] == Entry("codes", "F8_E4M3", (2, 3))
    assert shard.tensors["one"].shape == () and shard.tensors["nothing"].shape == (0, 5)
    for name, tensor in TENSORS.items():
        assert shard.data(name, 0, shard.tensors[name].nbytes).tobytes() == as_bytes(tensor)
    assert shard.data("bytes", 1, 4).tolist() == [1, 2, 3]
    shard.close()


def test_views_cannot_be_written_to_and_outlive_the_file(file: Path) -> None:
    shard = Shard(file)
    view = shard.data("bytes", 0, 5)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    shard.release()
    shard.close()
    shard.close()
    assert view.tolist() == [0, 1, 2, 3, 4]


def test_headers_of_every_dtype(tmp_path: Path) -> None:
    """Those that the format's library has, it reads as we do."""
    sizes = {"F64": 8, "I32": 4, "F16": 2, "BOOL": 1, "F8_E8M0": 1, "F8_E5M2FNUZ": 1, "C64": 8}
    header, at = {}, 0
    for dtype, size in sizes.items():
        header[dtype] = entry(dtype, [3], [at, at + 3 * size])
        at += 3 * size
    header |= {"F4": entry("F4", [4], [at, at + 2]), "F6": entry("F6_E2M3", [4], [at + 2, at + 5])}
    path = tmp_path / "x.safetensors"
    path.write_bytes(raw(header, bytes(at + 5)))
    with safe_open(path, "pt") as theirs:
        assert set(theirs.keys()) == set(header)
    assert [e.nbytes for e in Shard(path).tensors.values()] == [24, 12, 6, 3, 3, 3, 24, 2, 3]


def fails(tmp_path: Path, content: bytes) -> str:
    """What is said of such a file; that it is one line, and names the file."""
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(ModelFileError) as caught:
        Shard(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message and len(message) < 400
    return message


GOOD = raw({"t": entry()}, bytes(8))

BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "truncated: shorter than"),
    "only a length": (GOOD[:8], "truncated: shorter than"),
    "not safetensors": (b"GGUF" + bytes(100), "not a safetensors file"),
    "2 GB of header": (raw("{}", b"", 2 << 30), "at most 100000000 are allowed"),
    "2^64 - 1 of header": (raw("{}", b"", (1 << 64) - 1), "at most 100000000 are allowed"),
    "a header past the end": (raw({"t": entry()}, b"", 5000), "truncated: the header ends at byte 5008"),
    "half a header": (GOOD[:20], "truncated: the header ends"),
    "not JSON": (raw("{nonsense"), "the header is not JSON"),
    "not UTF-8": (raw(b'{"\xff\xfe": 1}'), "not UTF-8"),
    "a list": (raw("{}" + " ", b"", 3)[:8] + b"[1]", "its header begins with"),
    "deep nesting": (raw('{"a":' + "[" * 100_000 + "]" * 100_000 + "}"), "the header nests too deep"),
    "millions of items": (raw('{"a":[' + "[]," * (1 << 22) + "[]]}"), "more than 4194304 items"),
    "a name twice": (raw('{"t": {}, "t": {}}'), "'t' appears twice"),
    "a key twice": (raw('{"t": {"dtype": "F32", "dtype": "F16"}}'), "'dtype' appears twice"),
    "metadata of numbers": (raw({"__metadata__": {"a": 1}}), "__metadata__ is not an object of strings"),
    "no entry": (raw({"t": 7}), "tensor 't': its entry is not an object"),
    "an entry without a shape": (raw({"t": {"dtype": "F32", "data_offsets": [0, 8]}}), "its entry is not"),
    "an unknown dtype": (raw({"t": entry("F7")}, bytes(8)), "tensor 't': dtype 'F7' is none"),
    "a dtype that is a list": (raw({"t": entry(["F32"])}, bytes(8)), "tensor 't': dtype"),
    "a negative size": (raw({"t": entry(shape=[-2])}, bytes(8)), "tensor 't': its shape is not a list"),
    "two negative sizes": (raw({"t": entry(shape=[-2, -1])}, bytes(8)), "tensor 't': its shape"),
    "a size of 2^63": (raw({"t": entry(shape=[1 << 63])}, bytes(8)), "tensor 't': its shape"),
    "a product that wraps": (
        raw({"t": entry(shape=[1 << 62, 4, 2])}, bytes(8)),
        "tensor 't': F32 .* does not fill",
    ),
    "a size of true": (raw({"t": entry(shape=[True, 2])}, bytes(8)), "tensor 't': its shape"),
    "a size of 2.0": (raw({"t": entry(shape=[2.0])}, bytes(8)), "tensor 't': its shape"),
    "a size of NaN": (raw('{"t": {"shape": [NaN]}}', bytes(8)), "NaN is no JSON number"),
    "a size of 5000 digits": (raw('{"t": {"shape": [' + "9" * 5000 + "]}}"), "the header is not JSON"),
    "nine dimensions": (raw({"t": entry(shape=[1] * 8 + [2])}, bytes(8)), "at most 8 sizes"),
    "a shape of another size": (raw({"t": entry(shape=[3])}, bytes(8)), "does not fill its 8 bytes"),
    "half a byte": (raw({"t": entry("F4", [3], [0, 2])}, bytes(2)), "does not fill its 2 bytes"),
    "ends the wrong way round": (raw({"t": entry(ends=[8, 0])}, bytes(8)), "the two ends of a range"),
    "three ends": (raw({"t": entry(ends=[0, 8, 8])}, bytes(8)), "the two ends of a range"),
    "a negative end": (raw({"t": entry(ends=[-8, 0])}, bytes(8)), "the two ends of a range"),
    "past the end": (raw({"t": entry(ends=[8, 16])}, bytes(8)), "truncated: tensor 't' ends at byte 16 of 8"),
    "far past the end": (
        raw({"t": entry(ends=[1 << 62, (1 << 62) + 8])}, bytes(8)),
        "truncated: tensor 't' ends",
    ),
    "one byte short": (GOOD[:-1], "truncated: tensor 't' ends at byte 8 of 7"),
    "on top of another": (
        raw({"t": entry(), "u": entry(ends=[4, 12])}, bytes(12)),
        "tensors 't' and 'u' overlap",
    ),
    "the same bytes twice": (raw({"t": entry(), "u": entry()}, bytes(8)), "tensors 't' and 'u' overlap"),
    "a hole": (
        raw({"t": entry(), "u": entry(ends=[12, 20])}, bytes(20)),
        "4 bytes before tensor 'u' belong to",
    ),
    "a hole at the start": (raw({"u": entry(ends=[4, 12])}, bytes(12)), "4 bytes before tensor 'u'"),
    "a tail": (GOOD + b"x", "1 bytes after the last tensor"),
    "a long name": (raw({"n" * 5000: entry("F7")}, bytes(8)), "tensor 'nnnnn"),
    "a name that is no text": (raw('{"a\\ud800\\n": {}}'), r"tensor 'a\\ud800\\n': its entry"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_lies(tmp_path: Path, name: str) -> None:
    content, words = BAD[name]
    assert re.search(words, fails(tmp_path, content))


def test_what_is_no_file(tmp_path: Path) -> None:
    for path, words in ((tmp_path, "not a file"), (tmp_path / "absent", "no such file")):
        with pytest.raises(ModelFileError, match=words):
            Shard(path)


def test_a_header_of_2_gb_costs_nothing(tmp_path: Path) -> None:
    """Not even where the file is as large as it claims: a sparse file, and less memory than its header."""
    path = tmp_path / "bad.safetensors"
    path.write_bytes(raw("{}", b"", 2 << 30))
    with path.open("r+b") as file:
        file.truncate((2 << 30) + 100)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelFileError, match=f"at most {HEADER_LIMIT}"):
        Shard(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB


# --- a short fuzz -----------------------------------------------------------------------------------

_SCALARS = st.one_of(
    *(st.integers(-(1 << 66), 1 << 66), st.integers(0, 20), st.booleans(), st.none(), st.text(max_size=4)),
    *(st.floats(), st.sampled_from(["F32", "BF16", "U8", "F4", "dtype", "shape", "__metadata__"])),
)
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=8,
)
_ENTRIES = st.fixed_dictionaries(
    {
        "dtype": st.one_of(st.sampled_from(["F32", "BF16", "U8", "F4"]), _SCALARS),
        "shape": st.one_of(st.lists(st.integers(-1, 5), max_size=4), _JSON),
        "data_offsets": st.one_of(st.lists(st.integers(-1, 40), min_size=2, max_size=2), _JSON),
    }
)
_HEADERS = st.dictionaries(st.text(max_size=5), st.one_of(_ENTRIES, _JSON), max_size=4)


def survives(read: Callable[[Path], Any], path: Path, content: bytes) -> None:
    """Read or refused, nothing else; what was read can be looked at in full."""
    path.write_bytes(content)
    try:
        shard = read(path)
    except ModelFileError:
        return
    for name, found in shard.tensors.items():
        assert len(shard.data(name, 0, found.nbytes)) == found.nbytes
    shard.close()


@given(header=_HEADERS, data=st.binary(max_size=40), length=st.none() | st.integers(0, (1 << 64) - 1))
@settings(max_examples=300, deadline=None)
def test_any_header(tmp_path_factory: pytest.TempPathFactory, header: Any, data: bytes, length: Any) -> None:
    survives(
        Shard, tmp_path_factory.getbasetemp() / "fuzz.safetensors", raw(json.dumps(header), data, length)
    )


@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=6), st.integers(0, 1 << 20))
@settings(max_examples=300, deadline=None)
def test_a_sound_file_with_some_bytes_changed(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], cut: int
) -> None:
    sound = bytearray(raw({"t": entry(), "u": entry("U8", [2, 2], [8, 12])}, bytes(range(12))))
    for at, value in changes:
        sound[at % len(sound)] = value
    end = len(sound) - cut % (len(sound) + 1) if cut % 3 == 0 else len(sound)
    survives(Shard, tmp_path_factory.getbasetemp() / "fuzz.safetensors", bytes(sound[:end]))


def test_the_fuzz_reads_some(tmp_path: Path) -> None:
    """A sound file passes through the same check."""
    survives(Shard, tmp_path / "x.safetensors", GOOD)
    assert np.array_equal(Shard(tmp_path / "x.safetensors").data("t", 0, 8), np.zeros(8, np.uint8))
