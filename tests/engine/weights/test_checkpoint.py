"""A folder of safetensors: what is read of it, and every way in which its index can lie."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from safetensors_files import INDEX, as_bytes, entry, raw, write
from ultra_engine.errors import ModelFileError, UnsupportedModel
from ultra_engine.weights import checkpoint as module
from ultra_engine.weights.checkpoint import Checkpoint
from ultra_engine.weights.shard import Entry

TENSORS = {
    "a": torch.arange(24.0).reshape(4, 6).bfloat16(),
    "b": torch.arange(4.0),
    "c": torch.arange(6, dtype=torch.uint8).view(torch.float8_e4m3fn).reshape(2, 3),
    "d": torch.arange(8, dtype=torch.uint8).reshape(2, 2, 2),
    "e": torch.tensor(3, dtype=torch.int64),
    "f": torch.zeros(0, 2, dtype=torch.float16),
}


@pytest.fixture(params=[1, 3])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A sound checkpoint in one file, and in three."""
    return write(tmp_path / "model", TENSORS, config={"model_type": "x"}, shards=request.param)


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    return write(tmp_path / "model", TENSORS, shards=3, metadata={"total_size": 1})


def test_a_sound_one(folder: Path) -> None:
    with Checkpoint.open(folder) as found:
        assert found.path == folder and found.config == {"model_type": "x"} and found.index_metadata == {}
        assert found.tensors.keys() == TENSORS.keys()
        assert found.tensors["c"] == found.entry("c") == Entry("c", "F8_E4M3", (2, 3))
        for name, tensor in TENSORS.items():
            got = found.tensor(name)
            assert (got.dtype, got.shape) == (tensor.dtype, tensor.shape) and as_bytes(got) == as_bytes(
                tensor
            )
        assert as_bytes(found.rows("a", 1, 3)) == as_bytes(TENSORS["a"][1:3])
        assert as_bytes(found.rows("d", 1, 2)) == as_bytes(TENSORS["d"][1:2])
        assert found.rows("f", 0, 0).shape == (0, 2)
        assert found.flat("a", 5, 9).tolist() == [5, 6, 7, 8]


def test_tensors_are_views_that_outlive_the_files(folder: Path) -> None:
    with Checkpoint.open(folder) as found:
        whole, again = found.tensor("a"), found.tensor("a")
        assert whole.data_ptr() == again.data_ptr()
        found.release()
        assert whole[3, 5] == 23
    assert as_bytes(whole) == as_bytes(TENSORS["a"])


def test_the_indexs_metadata(sharded: Path) -> None:
    with Checkpoint.open(sharded) as found:
        assert found.index_metadata == {"total_size": 1}
        assert found.file("a").name == "model-00001-of-00003.safetensors" and found.file("x") == sharded


def test_the_single_file_comes_before_an_index(sharded: Path) -> None:
    save_file({"only": torch.zeros(1)}, sharded / "model.safetensors")
    with Checkpoint.open(sharded) as found:
        assert list(found.tensors) == ["only"]


def test_one_file_of_another_name(tmp_path: Path) -> None:
    write(tmp_path, TENSORS)
    (tmp_path / "model.safetensors").rename(tmp_path / "drafter.safetensors")
    with Checkpoint.open(tmp_path) as found:
        assert found.tensors.keys() == TENSORS.keys()
    (tmp_path / "another.safetensors").write_bytes(b"")
    with pytest.raises(ModelFileError, match="there are 2 safetensors files, but neither"):
        Checkpoint.open(tmp_path)


def test_a_tensor_that_lies_at_an_odd_address(tmp_path: Path) -> None:
    """The format promises no alignment: then it is a copy, and right."""
    header = {"u": entry("U8", [1], [0, 1]), "t": entry("F32", [3], [1, 13]), "name": "x"}
    del header["name"]
    for pad in range(4):
        text = json.dumps(header) + " " * pad
        data = b"\7" + as_bytes(torch.tensor([1.5, -2.0, 3.0]))
        (tmp_path / "model.safetensors").write_bytes(raw(text, data))
        (tmp_path / "config.json").write_text("{}")
        with Checkpoint.open(tmp_path) as found:
            assert found.tensor("t").tolist() == [1.5, -2.0, 3.0]
            assert found.tensor("t").data_ptr() % 4 == 0 and found.rows("t", 1, 3).tolist() == [-2.0, 3.0]


def test_a_dtype_that_torch_does_not_have(tmp_path: Path) -> None:
    write(tmp_path, {"a": torch.zeros(1)})
    (tmp_path / "model.safetensors").write_bytes(raw({"t": entry("F4", [4], [0, 2])}, b"ab"))
    with Checkpoint.open(tmp_path) as found, pytest.raises(UnsupportedModel, match="tensor 't' is F4"):
        found.tensor("t")


def test_pages_are_given_back_as_reading_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RELEASE_BYTES", 100)
    with Checkpoint.open(folder) as found:
        released: list[int] = []
        monkeypatch.setattr(found, "release", lambda: released.append(1))
        for _ in range(10):
            found.tensor("a")  # 48 bytes
    assert len(released) == 4


# --- what lies --------------------------------------------------------------------------------------


def fails(folder: Path, error: type[Exception] = ModelFileError) -> str:
    with pytest.raises(error) as caught:
        Checkpoint.open(folder)
    assert "\n" not in str(caught.value) and str(folder.parent) in str(caught.value)
    return str(caught.value)


def spoil(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Change the index."""
    index = json.loads((folder / INDEX).read_text())
    change(index)
    (folder / INDEX).write_text(json.dumps(index))
    return folder


def test_a_missing_tensor(folder: Path) -> None:
    with Checkpoint.open(folder) as found, pytest.raises(ModelFileError, match="there is no tensor 'x'"):
        found.tensor("x")


@pytest.mark.parametrize(
    "file",
    ["../x.safetensors", "/etc/x.safetensors", "..\\x.safetensors", "sub/x.safetensors", "C:x.safetensors"]
    + ["..", "", "x.bin", "x\0.safetensors", 7, None, ["x.safetensors"]],
)
def test_an_index_that_leads_out_of_its_folder(sharded: Path, file: object) -> None:
    save_file({"a": TENSORS["a"]}, sharded.parent / "x.safetensors")
    message = fails(spoil(sharded, lambda index: index["weight_map"].update(a=file)))
    assert f"{INDEX}: tensor 'a' is said to be in" in message and "no file beside it" in message


def test_a_file_that_is_not_there(sharded: Path) -> None:
    message = fails(spoil(sharded, lambda index: index["weight_map"].update(a="absent.safetensors")))
    assert "absent.safetensors: no such file" in message
    message = fails(spoil(sharded, lambda index: index["weight_map"].update(a="\ud800.safetensors")))
    assert "cannot be" in message
    message = fails(spoil(sharded, lambda index: index["weight_map"].update(a="n" * 500 + ".safetensors")))
    assert "cannot be read" in message


def test_links(sharded: Path) -> None:
    """Inside the folder they may lead anywhere, and in a hub's cache to its blobs; nowhere else."""
    shard = sharded / "model-00001-of-00003.safetensors"
    elsewhere = shard.rename(sharded.parent / "elsewhere.safetensors")
    shard.symlink_to(elsewhere)
    assert f"{shard}: is a link out of its folder, to {elsewhere}" in fails(sharded)
    shard.unlink()
    shard.symlink_to(shard)
    assert "cannot be found" in fails(sharded)
    shard.unlink()
    elsewhere.rename(sharded / "real.bin")
    shard.symlink_to("real.bin")
    Checkpoint.open(sharded).close()


def test_the_cache_of_the_hubs_own_tools(sharded: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "models--org--name" / "snapshots" / "0123"
    blobs = tmp_path / "models--org--name" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, file in enumerate(sorted(sharded.iterdir())):
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
        file.rename(blobs / str(number))
    with Checkpoint.open(snapshot) as found:
        assert found.tensors.keys() == TENSORS.keys()
    (tmp_path / "link").symlink_to(snapshot)
    Checkpoint.open(tmp_path / "link").close()


def test_a_pipe_is_no_file(sharded: Path) -> None:
    """Nobody waits for what a fifo has to say."""
    (sharded / "model-00001-of-00003.safetensors").unlink()
    os.mkfifo(sharded / "model-00001-of-00003.safetensors")
    assert "model-00001-of-00003.safetensors: not a file" in fails(sharded)


def test_an_index_of_other_tensors(sharded: Path) -> None:
    file = "model-00001-of-00003.safetensors"
    message = fails(spoil(sharded, lambda index: index["weight_map"].update(extra=file)))
    assert f"{file}: there is no tensor 'extra', though {INDEX} says so" in message


def test_an_index_that_misses_a_tensor(sharded: Path) -> None:
    message = fails(spoil(sharded, lambda index: index["weight_map"].pop("a")))
    assert f"{INDEX}: tensor 'a' of model-00001-of-00003.safetensors is missing" in message


def test_a_tensor_in_the_wrong_file(sharded: Path) -> None:
    wrong = "model-00002-of-00003.safetensors"
    message = fails(spoil(sharded, lambda index: index["weight_map"].update(a=wrong)))
    assert f"{wrong}: there is no tensor 'a'" in message


def test_a_tensor_in_two_files(sharded: Path) -> None:
    save_file({"b": TENSORS["b"], "a": TENSORS["a"]}, sharded / "model-00002-of-00003.safetensors")
    message = fails(sharded)
    assert (
        "model-00002-of-00003.safetensors: tensor 'a' is in model-00001-of-00003.safetensors too" in message
    )


def test_a_tensor_twice_in_the_index(sharded: Path) -> None:
    text = (sharded / INDEX).read_text().replace('"weight_map": {', '"weight_map": {"a": "x.safetensors", ')
    (sharded / INDEX).write_text(text)
    assert f"{INDEX}: it is not JSON: 'a' appears twice" in fails(sharded)


@pytest.mark.parametrize("value", [None, {}, [], "x", 7])
def test_an_index_without_a_map(sharded: Path, value: object) -> None:
    assert "weight_map is not an object" in fails(spoil(sharded, lambda i: i.update(weight_map=value)))


def test_an_index_with_other_metadata(sharded: Path) -> None:
    assert "metadata is not an object" in fails(spoil(sharded, lambda index: index.update(metadata=[1])))


def test_a_truncated_shard(sharded: Path) -> None:
    file = sharded / "model-00001-of-00003.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    assert f"{file}: truncated: tensor 'd' ends at byte 56 of 55" in fails(sharded)


def test_nothing_there(tmp_path: Path) -> None:
    assert "config.json: no such file" in fails(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert "there are no weights: neither model.safetensors nor" in fails(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "it nests too deep"),
        ("[]", "it is not a JSON object"),
        ("", "it is not JSON"),
        ('{"a": 1, "a": 2}', "'a' appears twice"),
        ('{"a": Infinity}', "Infinity is no JSON number"),
        (b"\xff\xfe{}", "it is not UTF-8 text"),
        (b" " * ((64 << 20) + 1), "is larger than 64 MiB"),
    ],
    ids=["deep", "list", "empty", "twice", "infinity", "UTF-16", "large"],
)
def test_a_config_that_is_none(folder: Path, text: str | bytes, words: str) -> None:
    (folder / "config.json").write_bytes(text.encode() if isinstance(text, str) else text)
    assert words in fails(folder)


# --- a short fuzz -----------------------------------------------------------------------------------

_FILES = st.sampled_from(
    ["one.safetensors", "two.safetensors", "../one.safetensors", "", "absent.safetensors"]
)
_MAPS = st.dictionaries(st.sampled_from(["a", "b", "c", "\ud800"]), _FILES | st.none() | st.integers())
_INDEXES = st.fixed_dictionaries(
    {"weight_map": _MAPS | st.none() | st.text()},
    optional={"metadata": st.none() | st.dictionaries(st.text(max_size=3), st.integers())},
)


@given(index=_INDEXES)
@settings(max_examples=200, deadline=None)
def test_any_index(tmp_path_factory: pytest.TempPathFactory, index: dict[str, Any]) -> None:
    folder = tmp_path_factory.getbasetemp() / "fuzz"
    if not folder.exists():
        write(folder, {})
        (folder / "model.safetensors").unlink()
        save_file({"a": torch.zeros(2)}, folder / "one.safetensors")
        save_file({"b": torch.zeros(3)}, folder / "two.safetensors")
    (folder / INDEX).write_text(json.dumps(index))
    sound = (
        {"a": "one.safetensors"},
        {"a": "one.safetensors", "b": "two.safetensors"},
        {"b": "two.safetensors"},
    )
    try:
        with Checkpoint.open(folder) as found:
            assert index["weight_map"] in sound and found.tensors.keys() == index["weight_map"].keys()
    except ModelFileError as error:
        assert index["weight_map"] not in sound or index.get("metadata", {}) is None
        assert "\n" not in str(error)
