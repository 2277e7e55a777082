"""A repository of safetensors, from a hub that the test serves, to a folder that is whole or not there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import namedtuple
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import tiny_safetensors
import torch
from engine.collect import run
from file_server import FileServer, serving
from safetensors_files import INDEX, write
from ultra_engine.engine import Engine
from ultra_engine.errors import DownloadError, ModelFileError, UnsupportedModel
from ultra_engine.weights import cache, fetch, hub, hub_checkpoint
from ultra_engine.weights.checkpoint import Checkpoint

REPO, REVISION = "org/model", "0123abc"
SHARDS = [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """An empty cache, and a hub without files."""
    monkeypatch.setenv("ULTRA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(fetch, "PAUSE_SECONDS", 0.01)
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """A checkpoint in three files, with what repositories have beside it."""
    torch.manual_seed(3)
    folder = write(tmp_path / "made", {f"t{n}": torch.randn(40, 50) for n in range(6)}, shards=3)
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    found |= {"tokenizer.json": b"{}", "generation_config.json": b"{}", "chat_template.jinja": b"hi"}
    found |= {"README.md": b"#", "modeling_x.py": b"raise SystemExit", "pytorch_model.bin": b"pickle"}
    return found | {"sub/tokenizer.json": b"no", "consolidated.safetensors": b"another form of it"}


def publish(server: FileServer, files: Mapping[str, bytes], revision: str = REVISION) -> None:
    """Sums of safetensors alone, as the hub has them."""
    siblings = []
    for name, data in files.items():
        server.files[f"/{REPO}/resolve/{revision}/{name}"] = data
        item: dict[str, object] = {"rfilename": name, "size": len(data)}
        if name.endswith((".safetensors", ".pt")):
            item["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 1}
        siblings.append(item)
    answer = {"id": REPO, "sha": revision, "siblings": siblings}
    server.files[f"/api/models/{REPO}"] = json.dumps(answer).encode()


def path(name: str) -> str:
    return f"/{REPO}/resolve/{REVISION}/{name}"


def folder() -> Path:
    return cache.models_dir() / "org--model"


def left() -> set[str]:
    """What is in the folder, apart from its lock and the stamps."""
    return {p.name for p in folder().iterdir() if p.name != ".lock" and p.suffix != ".verified"}


WHOLE = {*SHARDS, INDEX, "config.json", "tokenizer.json", "generation_config.json", "chat_template.jinja"}


def test_a_repository(server: FileServer, files: dict[str, bytes]) -> None:
    publish(server, files)
    assert hub.resolve(REPO) == folder()
    assert left() == WHOLE and all((folder() / name).read_bytes() == files[name] for name in WHOLE)
    fetched = [asked for asked, _ in server.requests if not asked.startswith("/api")]
    assert sorted(fetched) == sorted(map(path, WHOLE)) and fetched[-1] == path("config.json")
    with Checkpoint.open(folder()) as checkpoint:
        assert checkpoint.tensors.keys() == {f"t{n}" for n in range(6)}
    server.requests.clear()
    assert hub.resolve(REPO) == hub.resolve(REPO, offline=True) == folder()
    assert not server.requests


def test_it_runs_by_its_name(server: FileServer, qwen2: Path, tmp_path: Path) -> None:
    made = tiny_safetensors.write(tmp_path / "tiny", qwen2, shards=2)
    publish(server, {file.name: file.read_bytes() for file in made.iterdir()})
    with Engine.open(REPO, executor="reference") as engine:
        assert engine.info.model == REPO and run(engine, max_tokens=3).wait().stats.output_tokens == 3


def test_a_checkpoint_in_one_file(server: FileServer, files: dict[str, bytes]) -> None:
    publish(server, {"config.json": b"{}", "model.safetensors": files[SHARDS[0]]} | {SHARDS[1]: b"other"})
    hub.resolve(REPO)
    assert left() == {"config.json", "model.safetensors"}


def test_a_drafter_comes_with_its_model(server: FileServer, files: dict[str, bytes]) -> None:
    drafter = {name: files[name] for name in (*SHARDS, INDEX, "config.json")}
    drafter |= {"mask_embedding.pt": b"PK", "dflash.py": b"raise SystemExit", "other.pt": b"pickle"}
    publish(server, files | {f"dflash/{name}": data for name, data in drafter.items()})
    hub.resolve(REPO)
    assert left() == WHOLE | {"dflash"}
    inside = {p.name for p in (folder() / "dflash").iterdir() if p.suffix != ".verified"}
    assert inside == {*SHARDS, INDEX, "config.json", "mask_embedding.pt"}


def test_a_gguf_file_comes_before_safetensors(server: FileServer, files: dict[str, bytes]) -> None:
    publish(server, files | {"model.gguf": b"gguf"})
    server.files[f"/{REPO}/resolve/main/model.gguf"] = b"gguf"
    assert hub.resolve(REPO).name == "model.gguf"


def test_the_progress_of_all_files_together(
    server: FileServer, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(server, files)
    seen: list[tuple[str, int | None, int]] = []

    class Meter(hub_checkpoint.Meter):
        def update(self, done: int) -> None:
            seen.append((self._label, self._total, done))

    monkeypatch.setattr(hub_checkpoint, "Meter", Meter)
    hub.resolve(REPO, progress=False)
    total = sum(len(files[name]) for name in WHOLE)
    ticks = [done for label, of, done in seen if label == REPO and of == total]
    assert ticks == sorted(ticks) and ticks[-1] == total and len(set(ticks)) > 6


def test_a_broken_connection_is_resumed(server: FileServer, files: dict[str, bytes]) -> None:
    publish(server, files)
    server.faults[path(SHARDS[1])] = [("cut", 5000), ("cut", 3000)]
    hub.resolve(REPO)
    assert server.ranges(path(SHARDS[1])) == [None, "bytes=5000-", "bytes=8000-"]
    assert left() == WHOLE


def test_a_later_start_goes_on(server: FileServer, files: dict[str, bytes]) -> None:
    """Whole files are not fetched again, a half one is resumed; without config.json it is no model."""
    publish(server, files)
    server.faults[path(SHARDS[1])] = [("cut", 5000), ("cut", 0)]
    with pytest.raises(DownloadError, match=f"hub: {REPO}/{SHARDS[1]}: the connection broke off"):
        hub.resolve(REPO)
    assert SHARDS[0] in left() and "config.json" not in left()
    with pytest.raises(DownloadError, match="is not in the cache"):
        hub.resolve(REPO, offline=True)
    server.requests.clear()
    hub.resolve(REPO)
    assert server.ranges(path(SHARDS[0])) == [] and server.ranges(path(SHARDS[1])) == ["bytes=5000-"]
    assert left() == WHOLE


def test_half_a_file_of_another_revision_is_not_continued(
    server: FileServer, files: dict[str, bytes]
) -> None:
    publish(server, files)
    server.faults[path(SHARDS[1])] = [("cut", 5000), ("cut", 0)]
    with pytest.raises(DownloadError):
        hub.resolve(REPO)
    changed = files[SHARDS[1]][:-4] + b"\0\0\0\0"
    publish(server, files | {SHARDS[1]: changed}, "4567def")
    hub.resolve(REPO)
    assert (folder() / SHARDS[1]).read_bytes() == changed
    assert server.ranges(f"/{REPO}/resolve/4567def/{SHARDS[1]}") == [None]


def test_a_shard_that_is_another_file(server: FileServer, files: dict[str, bytes]) -> None:
    publish(server, files)
    server.files[path(SHARDS[2])] = bytes(len(files[SHARDS[2]]))
    with pytest.raises(DownloadError, match=f"{SHARDS[2]} gave another file .sha256 .*, deleted"):
        hub.resolve(REPO)
    assert SHARDS[2] not in left() and not list((folder() / ".partial").iterdir())
    publish(server, files)
    hub.resolve(REPO)
    assert left() == WHOLE


def test_a_small_file_of_another_size(server: FileServer, files: dict[str, bytes]) -> None:
    publish(server, files)
    server.files[path("tokenizer.json")] = b"{} "
    with pytest.raises(DownloadError, match="tokenizer.json gave 3 bytes, not 2"):
        hub.resolve(REPO)


def test_a_shard_that_was_damaged_or_lost_later(server: FileServer, files: dict[str, bytes]) -> None:
    publish(server, files)
    hub.resolve(REPO)
    shard = folder() / SHARDS[0]
    shard.write_bytes(bytes(len(files[SHARDS[0]])))
    (folder() / SHARDS[1]).unlink()
    server.requests.clear()
    hub.resolve(REPO)
    assert shard.read_bytes() == files[SHARDS[0]] and left() == WHOLE
    assert server.ranges(path(SHARDS[2])) == []


def test_a_shard_that_was_only_touched(server: FileServer, files: dict[str, bytes]) -> None:
    publish(server, files)
    hub.resolve(REPO)
    os.utime(folder() / SHARDS[0], ns=(0, 0))
    assert hub.resolve(REPO, offline=True) == folder()
    assert cache.stamped(folder() / SHARDS[0]) is not None


@pytest.mark.parametrize("name", ["../x.safetensors", "/etc/x.safetensors", "sub/x.safetensors"])
def test_an_index_that_leads_elsewhere(server: FileServer, files: dict[str, bytes], name: str) -> None:
    publish(server, files | {INDEX: json.dumps({"weight_map": {"t0": name}}).encode(), name: b"x"})
    with pytest.raises(ModelFileError, match=f"{INDEX}: tensor 't0' is said to be in"):
        hub.resolve(REPO)
    assert not list(cache.models_dir().parent.rglob("x.safetensors"))


def test_an_index_of_what_is_not_there(server: FileServer, files: dict[str, bytes]) -> None:
    del files[SHARDS[2]]
    publish(server, files)
    with pytest.raises(DownloadError, match=f"{INDEX} lists {SHARDS[2]}, which is not there"):
        hub.resolve(REPO)


def test_what_has_no_index_or_no_weights(server: FileServer, files: dict[str, bytes]) -> None:
    publish(server, {"config.json": b"{}", "a.safetensors": b"a", "b.safetensors": b"b"})
    with pytest.raises(UnsupportedModel, match="several files without model.safetensors.index.json"):
        hub.resolve(REPO)
    publish(server, {"config.json": b"{}", "pytorch_model.bin": b"pickle"})
    with pytest.raises(UnsupportedModel, match="weights in any other form are not loaded"):
        hub.resolve(REPO)


def test_too_little_space(
    server: FileServer, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(server, files)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, 1000))
    with pytest.raises(DownloadError, match=rf"{REPO} needs 4\d.\d kB of disk, .* has .* free: free some"):
        hub.resolve(REPO)
    assert not set(SHARDS) & left()


def test_the_hubs_own_cache_will_do(server: FileServer, files: dict[str, bytes], tmp_path: Path) -> None:
    """Where its tools have fetched all of it; a part of it is fetched anew."""
    snapshot = tmp_path / "hub" / "models--org--model" / "snapshots" / "77"
    snapshot.mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("77")
    for name in WHOLE:
        (snapshot / name).write_bytes(files[name])
    assert hub.resolve(REPO, offline=True) == hub.resolve(REPO) == snapshot
    (snapshot / SHARDS[0]).unlink()
    publish(server, files)
    assert hub.resolve(REPO) == folder()
