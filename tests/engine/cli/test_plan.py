"""`ultra plan` as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ultra_engine.cli import main


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "XiaomiMiMo/MiMo-V2.5-Pro-FP4-DFlash", "--gpus", "8xH200"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["attention", "in", "FP8,", "o_proj", "too", "103.8", "12.98", "2.70", "6.3", "2330"] in lines
    assert ["8", "59.5", "103.8", "2.70"] in lines
    assert any(line[:2] == ["fits", "yes:"] for line in lines)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    argv = [
        "plan",
        "mimo-v2.5-pro-fp4-dflash",
        "--gpus",
        "8xH200",
        "--block",
        "8",
        "--accept",
        "6.3",
        "--json",
    ]
    assert main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    base = found["cases"][0]
    assert round(base["bytes"] / 1e9, 1) == 103.8 and round(base["seconds"] * 1e3, 2) == 2.70
    assert round(base["tokens_per_second"]) == 2330 and found["rank"]["fits"] is True
    assert base["rank_bytes"] * 8 == pytest.approx(base["bytes"], abs=8)


def test_a_folder_comes_before_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "Qwen3-8B"
    folder.mkdir()
    assert main(["plan", "Qwen3-8B", "--gpus", "H200"]) == 1
    assert capsys.readouterr().err == "ultra: Qwen3-8B/config.json: no such file\n"


@pytest.mark.parametrize("name", ["nope", "org/nope", "../x/y", ""])
def test_names_of_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ULTRA_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert main(["plan", name, "--gpus", "8xH200"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("ultra: ") and err.count("\n") == 1


def test_a_model_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ultra_engine.plan.known import CONFIGS

    monkeypatch.setenv("ULTRA_CACHE", str(tmp_path))
    folder = tmp_path / "models" / "org--mine"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIGS["Qwen3-8B"]))
    assert main(["plan", "org/mine", "--gpus", "2xH100", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parameters"] == 8190735360
