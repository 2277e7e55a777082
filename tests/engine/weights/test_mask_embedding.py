"""A drafter's mask embedding, and files that would like to be run."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ultra_engine.errors import ModelFileError, UnsupportedModel
from ultra_engine.weights.mask_embedding import FILE_LIMIT, MEMBER_LIMIT, read_mask_embedding

HIDDEN = 16
ROW = torch.linspace(-1, 1, HIDDEN)
SOUND = {"mask_token_id": 151669, "embedding": ROW}


def save(path: Path, value: Any) -> Path:
    torch.save(value, path)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mask_embedding.pt"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_sound_one(path: Path, dtype: torch.dtype) -> None:
    found = read_mask_embedding(save(path, SOUND | {"embedding": ROW.to(dtype)}), HIDDEN)
    assert found.token == 151669 and found.embedding.dtype == torch.float32
    assert torch.equal(found.embedding, ROW.to(dtype).float())


@pytest.mark.parametrize(
    "value",
    [
        SOUND | {"mask_token_id": torch.tensor(151669)},
        SOUND | {"per_position": False},
        SOUND | {"per_position": None, "note": "text", "more": [1, 2.5]},
        OrderedDict(SOUND),
        SOUND | {"embedding": torch.nn.Parameter(ROW)},
        SOUND | {"embedding": torch.stack((ROW, ROW), dim=1)[:, 0]},
    ],
    ids=["token tensor", "one row", "more", "ordered", "parameter", "strided"],
)
def test_what_is_said_in_another_way(path: Path, value: Any) -> None:
    found = read_mask_embedding(save(path, value), HIDDEN)
    assert found.token == 151669 and torch.equal(found.embedding, ROW) and not found.embedding.requires_grad


def fails(path: Path, error: type[Exception] = ModelFileError) -> str:
    with pytest.raises(error) as caught:
        read_mask_embedding(path, HIDDEN)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)
    return str(caught.value)


# --- code -------------------------------------------------------------------------------------------


class Runs:
    """A pickle that runs a command when it is loaded."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> Any:
        return self.call, self.arguments


def archive(path: Path, pickled: bytes, **more: bytes) -> Path:
    """As torch.save would have written that pickle."""
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("archive/data.pkl", pickled)
        for name, data in {"version": b"3\n", "byteorder": b"little", **more}.items():
            out.writestr(f"archive/{name}", data)
    return path


@pytest.mark.parametrize(
    "call",
    [
        (os.system, "touch {}"),
        (eval, "open({!r}, 'w')"),
        (exec, "open({!r}, 'w')"),
        (os.mkdir, "{}"),
        (open, "{}", "w"),
        (getattr, os, "system"),
        (torch.load, "{}"),
        (torch.hub.load, "{}", "x"),
        (np.load, "{}"),
        (pickle.loads, b"."),
    ],
    ids=lambda call: call[0].__name__,
)
def test_code_is_not_run(path: Path, tmp_path: Path, call: tuple[Any, ...]) -> None:
    proof = tmp_path / "proof"
    arguments = [a.format(str(proof)) if isinstance(a, str) else a for a in call[1:]]
    value = SOUND | {"embedding": Runs(call[0], *arguments)}
    try:
        pickled = pickle.dumps(value, protocol=2)
    except TypeError:  # a module is an argument, which pickle cannot do: by name
        pickled = b"cos\nsystem\n(X" + struct.pack("<I", len(f"touch {proof}")) + f"touch {proof}tR.".encode()
    for content in (archive(path, pickled),):
        assert "is no plain tensor file, and was not run" in fails(content)
    path.write_bytes(pickled)  # a pickle without the archive, as torch.save made them long ago
    assert "is no archive of torch.save" in fails(path)
    assert not proof.exists()


def test_a_module_is_not_made(path: Path) -> None:
    assert "was not run" in fails(save(path, SOUND | {"model": torch.nn.Linear(2, 2)}))


def test_a_script_is_not_run(path: Path) -> None:
    """An archive of torch.jit has code of its own."""
    pickled = pickle.dumps(1, protocol=2)
    assert "was not run" in fails(archive(path, pickled, **{"constants.pkl": pickled, "code/x.py": b""}))


# --- sizes ------------------------------------------------------------------------------------------


def test_a_large_file(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(FILE_LIMIT + 1)
    assert f"at most {FILE_LIMIT} are allowed" in fails(path)


def test_a_file_that_grows_when_it_is_read(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("archive/data.pkl", bytes(10_000_000))
    assert path.stat().st_size < 20_000
    assert "'archive/data.pkl' in it is compressed, or larger than the file" in fails(path)


def test_many_files(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as out:
        for number in range(MEMBER_LIMIT + 1):
            out.writestr(str(number), b"")
    assert "at most 64 are allowed" in fails(path)


def test_a_tensor_larger_than_its_storage(path: Path) -> None:
    """2^40 rows of one number take no memory as long as nobody looks at them."""
    huge = torch.zeros(1).expand(1 << 40)
    assert f"embedding is [{1 << 40}], not [16]" in fails(save(path, SOUND | {"embedding": huge}))
    sound = save(path, SOUND).read_bytes()
    (at,) = (
        i for i in range(len(sound)) if sound[i : i + 2] == b"K\x10" and sound[i + 2 : i + 4] == b"\x85q"
    )
    path.write_bytes(sound[:at] + b"K\xff" + sound[at + 2 :])  # 255 elements of 16
    fails(path)


# --- what is in it ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1, 2], "is not a dict of mask_token_id and embedding"),
        ({"embedding": ROW}, "is not a dict of mask_token_id"),
        (SOUND | {"mask_token_id": -1}, "mask_token_id is not a token"),
        (SOUND | {"mask_token_id": True}, "mask_token_id is not a token"),
        (SOUND | {"mask_token_id": 2**40}, "mask_token_id is not a token"),
        (SOUND | {"mask_token_id": torch.tensor([1, 2])}, "mask_token_id is not a token"),
        (SOUND | {"embedding": ROW.tolist()}, "embedding is not a tensor of float32, bfloat16, float16"),
        (SOUND | {"embedding": ROW.double()}, "embedding is not a tensor"),
        (SOUND | {"embedding": ROW.to_sparse()}, "embedding is not a tensor"),
        (SOUND | {"embedding": ROW[:-1]}, "embedding is [15], not [16]"),
        (SOUND | {"embedding": ROW[None]}, "embedding is [1, 16], not [16]"),
        (SOUND | {"embedding": ROW / 0}, "embedding is not finite"),
    ],
)
def test_what_it_is_not(path: Path, value: Any, words: str) -> None:
    assert words in fails(save(path, value))


def test_one_for_each_position(path: Path) -> None:
    assert "for each position" in fails(save(path, SOUND | {"per_position": True}), UnsupportedModel)


def test_what_is_no_file(tmp_path: Path, path: Path) -> None:
    assert "no such file" in fails(path)
    path.mkdir()
    assert "not a file" in fails(path)


_BYTES = io.BytesIO()
torch.save(SOUND, _BYTES)


@given(changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_some_bytes_changed(tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.pt"
    content = bytearray(_BYTES.getvalue())
    for at, value in changes:
        content[at % len(content)] = value
    path.write_bytes(bytes(content))
    try:
        assert read_mask_embedding(path, HIDDEN).embedding.shape == (HIDDEN,)
    except (ModelFileError, UnsupportedModel) as error:
        assert "\n" not in str(error)
