"""`ultra models` with safetensors folders, with what else is in the caches, and with JSON."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_gguf
from filelock import FileLock
from pty_kit import Terminal
from tiny_checkpoints import MIXTURE, write
from ultra_engine.cli import main
from ultra_engine.convert.convert import Conversion
from ultra_engine.weights.cache import stamp
from ultra_sdk.protocol.runtime import RuntimeInfo, write_info


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty caches of the test's own: ours is returned."""
    monkeypatch.setenv("ULTRA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "cache/models"


@pytest.fixture(scope="module")
def moe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write(tmp_path_factory.mktemp("models") / "moe", "Qwen3Moe", **MIXTURE)
    (folder / "tokenizer.json").write_text("{}")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    return folder


@pytest.fixture(scope="module")
def converted(moe: Path) -> Path:
    with Conversion(moe, moe.parent / "mxfp4", {"experts": "mxfp4"}, shard_bytes=60_000) as conversion:
        return conversion.run().folder


def ultra(*argv: str) -> int:
    return main(["models", *argv])


def as_json(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    ultra(*argv, "--json")
    return json.loads(capsys.readouterr().out)


def error(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert ultra(*argv) == 1
    err = capsys.readouterr().err
    assert err.startswith("ultra: ") and err.count("\n") == 1
    return err


def test_show_a_mixture(moe: Path, converted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = (as_json(capsys, "show", str(folder)) for folder in (moe, converted))
    experts = 2 * 4 * 3 * 64 * 32
    assert before["family"] == "qwen3_moe" and before["licence"] == "mit" and before["runs"] is True
    assert before["parameters"] - before["active_parameters"] == experts // 2
    assert before["formats"]["experts"] == {"bf16": experts * 2}
    assert after["formats"]["experts"] == {"mxfp4": experts * 17 // 32}
    dense = (before["parameters"] - experts - 256 * 64) * 2
    assert before["read_bytes_per_token"] == dense + experts // 2 * 2
    assert after["read_bytes_per_token"] == dense + experts // 2 * 17 // 32
    assert before["kv_bytes_per_token"] == 3 * 2 * 2 * 16 * 2
    assert ultra("show", str(converted)) == 0
    out = capsys.readouterr().out
    for words in ("4 of 32 columns, 2 for a token", "mxfp4 26.1 kB", "4 heads of 16, 2 for K and V", "mit"):
        assert words in out


def test_show_says_what_is_left_out(moe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from safetensors.torch import load_file, save_file

    shutil.copytree(moe, tmp_path / "more")
    tensors = load_file(moe / "model.safetensors")
    extra = {"model.layers.3.mlp.gate.weight": tensors["model.norm.weight"].clone()}
    save_file(tensors | extra, tmp_path / "more/model.safetensors")
    assert "further tokens" in as_json(capsys, "show", str(tmp_path / "more"))["notes"][0]


def test_show_a_gguf_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tiny_gguf.write(tmp_path / "t.gguf", "qwen2")
    found = as_json(capsys, "show", str(path))
    assert found["layers"] == 3 and found["experts"] == 0
    assert found["active_parameters"] == found["parameters"]
    assert found["read_bytes_per_token"] == (found["parameters"] - tiny_gguf.VOCAB * tiny_gguf.HIDDEN) * 4


def test_show_what_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tiny_gguf.write(tmp_path / "t.gguf", "qwen2", architecture="mamba")
    found = as_json(capsys, "show", str(path))
    assert found["runs"] is False and "'mamba' model; supported families" in found["reason"]
    assert ultra("show", str(path)) == 0 and "no: " in capsys.readouterr().out


@pytest.mark.parametrize("name", ["show", "verify", "path"])
def test_names_of_nothing(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no model 'nope'" in error(capsys, name, "nope")
    assert "not in the cache" in error(capsys, name, "org/nope")


def test_verify_a_folder(converted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "verify", str(converted))
    assert found["good"] is True
    shards = sorted(converted.glob("model-*.safetensors"))
    sums = {file["path"]: file["sha256"] for file in found["files"] if file["sha256"]}
    assert sums == {str(s): hashlib.sha256(s.read_bytes()).hexdigest() for s in shards}
    assert ultra("verify", str(converted)) == 0
    assert f"{shards[0]}: ok, sha256 " in capsys.readouterr().out


def test_verify_finds_one_wrong_bit(
    converted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(converted, folder)
    shard = sorted(folder.glob("model-*.safetensors"))[1]
    raw = bytearray(shard.read_bytes())
    raw[-1] ^= 1
    shard.write_bytes(raw)
    assert f"{shard} is damaged: another sha256" in error(capsys, "verify", str(folder))
    assert as_json(capsys, "verify", str(folder))["good"] is False


def test_verify_finds_what_is_missing(
    converted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(converted, folder)
    shard = sorted(folder.glob("model-*.safetensors"))[1]
    shard.write_bytes(shard.read_bytes()[:-7])
    assert f"{shard} is damaged: truncated" in error(capsys, "verify", str(folder))
    shard.unlink()
    assert f"{shard} is damaged: no such file" in error(capsys, "verify", str(folder))


def test_verify_what_was_pulled(moe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A download leaves the sums of its files, which hold whatever happened to the files since."""
    folder = tmp_path / "pulled"
    shutil.copytree(moe, folder)
    file = folder / "model.safetensors"
    stamp(file, hashlib.sha256(file.read_bytes()).hexdigest())
    assert as_json(capsys, "verify", str(folder))["files"][-1]["words"] == "ok"
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    assert f"{file} is damaged: another sha256" in error(capsys, "verify", str(folder))


def test_verify_a_gguf_file_that_was_pulled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tiny_gguf.write(tmp_path / "t.gguf", "qwen2")
    stamp(file, hashlib.sha256(file.read_bytes()).hexdigest())
    assert ultra("verify", str(file)) == 0 and ": ok, sha256" in capsys.readouterr().out
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    assert "another sha256 than when it was downloaded" in error(capsys, "verify", str(file))


def test_verify_a_gguf_file_without_a_sum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tiny_gguf.write(tmp_path / "t.gguf", "qwen2")
    assert ultra("verify", str(path)) == 0
    assert "its structure is sound; nothing to compare with" in capsys.readouterr().out
    path.write_bytes(path.read_bytes()[:-100])
    assert "is damaged: " in error(capsys, "verify", str(path))


def keep(caches: Path, moe: Path, name: str = "org--mine") -> Path:
    shutil.copytree(moe, caches / name)
    return caches / name


def in_the_hub(tmp_path: Path, moe: Path, revisions: int = 1) -> Path:
    """The hub's own cache: files called by their sums, and links to them from each revision."""
    repo = tmp_path / "hub/models--org--theirs"
    (repo / "blobs").mkdir(parents=True)
    (repo / "refs").mkdir()
    for number in range(revisions):
        commit = f"{number:040x}"
        (repo / "refs" / ("main" if not number else "old")).write_text(commit)
        snapshot = repo / "snapshots" / commit
        snapshot.mkdir(parents=True)
        for file in moe.iterdir():
            blob = repo / "blobs" / hashlib.sha256(file.read_bytes()).hexdigest()
            shutil.copyfile(file, blob)
            (snapshot / file.name).symlink_to(os.path.relpath(blob, snapshot))
    return repo


def test_list_has_what_is_on_the_disk(
    caches: Path, tmp_path: Path, moe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(caches, moe)
    in_the_hub(tmp_path, moe)
    tiny_gguf.write(caches / "org--mine" / "one.gguf", "qwen2")
    rows = {row["name"]: row for row in as_json(capsys, "list")}
    assert rows["org/mine"]["family"] in ("qwen3_moe", None) and rows["org/theirs"]["licence"] == "mit"
    assert rows["org/theirs"]["bytes"] == sum(f.stat().st_size for f in moe.iterdir())
    assert rows["qwen2.5-coder-1.5b"]["default"] and rows["qwen2.5-coder-1.5b"]["path"] is None
    assert ultra("list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("org/theirs") and line.rstrip().endswith("downloaded") for line in lines)


def test_names_in_the_caches(
    caches: Path, tmp_path: Path, moe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, repo = keep(caches, moe), in_the_hub(tmp_path, moe)
    assert ultra("path", "org/mine") == 0 and capsys.readouterr().out == f"{folder}\n"
    snapshot = repo / "snapshots" / f"{0:040x}"
    assert ultra("path", "org/theirs") == 0 and capsys.readouterr().out == f"{snapshot}\n"
    found = as_json(capsys, "verify", "org/theirs")
    assert found["good"] is True and found["files"][-1]["sha256"] is not None


def test_remove_ours(caches: Path, moe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, other = keep(caches, moe), keep(caches, moe, "org--other")
    assert "remove org/mine and free" in error(capsys, "remove", "org/mine")  # nobody can answer
    assert folder.is_dir()
    assert ultra("remove", "org/mine", "--yes") == 0
    assert "org/mine: removed, " in capsys.readouterr().err
    assert not folder.exists() and other.is_dir()
    assert ultra("remove", "org/mine", "-y") == 0 and "was not downloaded" in capsys.readouterr().err


def test_remove_a_link_but_not_what_it_leads_to(
    caches: Path, moe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    caches.mkdir(parents=True)
    (caches / "org--mine").symlink_to(moe)
    (keep(caches, moe, "org--broken") / "gone.gguf").symlink_to(tmp_path / "nothing")
    assert {"org/mine", "org/broken"} < {row["name"] for row in as_json(capsys, "list")}
    assert ultra("remove", "org/mine", "--yes") == 0
    assert not (caches / "org--mine").exists() and (moe / "config.json").is_file()


def test_remove_from_the_hubs_cache(tmp_path: Path, moe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repo = in_the_hub(tmp_path, moe, revisions=2)
    assert ultra("remove", "org/theirs", "--yes") == 0
    assert not list(repo.glob("snapshots/*")) and not list(repo.glob("blobs/*"))


@pytest.mark.parametrize(("answer", "gone"), [("y", True), ("n", False), ("", False)])
def test_remove_asks(caches: Path, moe: Path, tmp_path: Path, answer: str, gone: bool) -> None:
    folder = keep(caches, moe)
    argv = [sys.executable, "-m", "ultra_engine", "models", "remove", "org/mine"]
    with Terminal(argv, {"ULTRA_CACHE": str(tmp_path / "cache")}) as terminal:
        terminal.wait_for("[y/N]")
        terminal.send(f"{answer}\r")
        terminal.wait_for(f"exit={0 if gone else 1}")
    assert folder.exists() is not gone


def test_remove_what_is_served(caches: Path, moe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = keep(caches, moe)
    info = RuntimeInfo(
        pid=os.getpid(), token="t", model="mine", name="org/mine", protocol=1, server="0", started=0.0
    )
    write_info(info)
    assert f"a server of org/mine is running (pid {os.getpid()}): stop it first" in error(
        capsys, "remove", "org/mine", "--yes"
    )
    assert folder.is_dir()


def test_remove_what_is_being_downloaded(caches: Path, moe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = keep(caches, moe)
    with FileLock(folder / ".lock"):
        assert "is being downloaded by another process" in error(capsys, "remove", "org/mine", "--yes")
    assert (folder / "config.json").exists()


@pytest.mark.parametrize("name", ["../outside", "/etc", "org/../../x", "."])
def test_remove_stays_in_the_cache(
    name: str, caches: Path, moe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(caches, moe)
    outside = caches.parent / "outside"
    shutil.copytree(moe, outside)
    assert "no model" in error(capsys, "remove", name, "--yes")
    assert outside.is_dir()
