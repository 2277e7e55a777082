"""`ultra doctor`: sound machines, poor ones, and such where nothing can run."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from ultra_engine.cli import main
from ultra_engine.cli.doctor import fits, machine, surroundings
from ultra_engine.cli.doctor.examine import Report, examine
from ultra_engine.cli.doctor.findings import Finding, Verdict
from ultra_engine.weights import hub, registry
from ultra_kernels.cpu.abi import LEVELS, available
from ultra_sdk.protocol.runtime import RuntimeInfo, write_info

GOOD, POOR, FATAL = Verdict.GOOD, Verdict.POOR, Verdict.FATAL


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("ULTRA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def find(report: Report, label: str) -> Finding:
    return next(finding for finding in report.findings if finding.label == label)


def test_this_machine(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    by_label = {finding["label"]: finding for finding in found["findings"]}
    assert found["runs"] is True
    assert by_label["executor"]["executor"] == "cpu" and by_label["executor"]["level"] in LEVELS
    assert by_label["memory"]["total"] >= by_label["memory"]["available"] > 0
    assert by_label["bandwidth"]["bytes_per_second"] > 1e8
    assert by_label["software"]["torch"] == torch.__version__
    models = {model["name"]: model for model in found["models"]}
    assert set(registry.MODELS) <= set(models)
    small = models[registry.TEST_MODEL]
    rate = by_label["bandwidth"]["bytes_per_second"] / small["read_bytes_per_token"]
    assert small["tokens_per_second_at_most"] == pytest.approx(rate, rel=0.01)
    assert not small["downloaded"] and not cache.exists()


def test_the_table(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("The engine can run here.\n")
    assert all(name in out for name in registry.MODELS)


def test_it_changes_nothing(cache: Path, runtime_folder: Path) -> None:
    examine(0)
    assert not cache.exists() and not runtime_folder.exists()


def test_where_nothing_can_run(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ULTRA_RUNTIME_DIR", str(tmp_path / "file"))
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "- runtime: set ULTRA_RUNTIME_DIR to a folder of yours" in out
    assert out.endswith("The engine cannot run here yet.\n")


def test_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULTRA_CPU", "portable")
    found = machine.executor()
    assert found.verdict is POOR and found.data == {"executor": "cpu", "level": "portable"}
    monkeypatch.setenv("ULTRA_CPU", "avx1024")
    found = machine.executor()
    assert found.verdict is POOR and found.data == {"executor": "reference", "level": None}
    assert "avx1024: this processor runs" in found.advice
    monkeypatch.delenv("ULTRA_CPU")
    assert machine.executor().data["level"] == available()[0]


def test_tools_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert machine.compiler().verdict is POOR and "install g++" in machine.compiler().advice
    assert surroundings.search().verdict is POOR
    (tmp_path / "rg").write_text("#!/bin/sh\n")
    (tmp_path / "rg").chmod(0o755)
    assert surroundings.search().words == str(tmp_path / "rg")
    (tmp_path / "bwrap").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    assert "bubblewrap" not in surroundings.sandbox().data["sandbox"]  # it is there, but does not work
    (tmp_path / "bwrap").write_text("#!/bin/sh\nexit 0\n")
    assert "bubblewrap" in surroundings.sandbox().data["sandbox"]


def test_a_compiler_that_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in (str(tmp_path / "missing"), "false"):
        monkeypatch.setenv("CXX", command)
        assert machine.compiler().verdict is POOR and machine.compiler().data == {"compiler": None}


def test_the_runtime_folder(runtime_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert surroundings.runtime_folder().words.endswith("to be made")
    runtime_folder.mkdir(mode=0o700)
    assert surroundings.runtime_folder().verdict is GOOD
    runtime_folder.chmod(0o755)
    assert surroundings.runtime_folder().verdict is POOR and "0755" in surroundings.runtime_folder().words
    link = tmp_path / "link"
    link.symlink_to(runtime_folder)
    monkeypatch.setenv("ULTRA_RUNTIME_DIR", str(link))
    assert surroundings.runtime_folder().verdict is FATAL
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ULTRA_RUNTIME_DIR", str(tmp_path / "file" / "run"))
    assert surroundings.runtime_folder().verdict is FATAL


def test_servers(runtime_folder: Path) -> None:
    assert surroundings.servers().words == "none running"
    runtime_folder.mkdir(mode=0o700)
    path = runtime_folder / "m.sock"
    info = RuntimeInfo(
        pid=os.getpid(), token="t", model="m", name="m", protocol=1, server="0", started=0.0, unix=str(path)
    )
    write_info(info)
    found = surroundings.servers()
    assert found.verdict is POOR and f"m (pid {os.getpid()}) takes no connections" in found.advice
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        found = surroundings.servers()
    assert found.verdict is GOOD and found.data["servers"] == [
        {"name": "m", "pid": os.getpid(), "listens": True}
    ]


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ULTRA_CACHE", str(tmp_path / "file"))
    found = find(examine(0), "cache")
    assert found.verdict is FATAL and "set ULTRA_CACHE" in found.advice


def test_memory_decides_what_fits(cache: Path) -> None:
    enough = fits.on_cpu(64e9, 30e9, compiled=True)
    assert all(fit.fits for fit in enough)
    smallest = registry.MODELS[registry.TEST_MODEL].bytes
    little = fits.on_cpu(smallest + fits.OVERHEAD, 30e9, compiled=True)
    assert [fit.name for fit in little if fit.fits] == [registry.TEST_MODEL]
    assert not any(fit.fits for fit in fits.on_cpu(1e8, 30e9, compiled=True))
    unpacked = {fit.name: fit for fit in fits.on_cpu(64e9, 30e9, compiled=False)}
    for fit in enough:
        assert unpacked[fit.name].bytes > fit.bytes and unpacked[fit.name].speed < fit.speed


def test_a_damaged_file_is_not_in_the_way(cache: Path) -> None:
    path = hub.path_of(registry.MODELS[registry.TEST_MODEL])
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not a model")
    found = next(fit for fit in fits.on_cpu(64e9, 30e9, compiled=True) if fit.downloaded)
    assert found.read == registry.MODELS[registry.TEST_MODEL].bytes


def test_gpus_that_are_known() -> None:
    def gpu(name: str, memory: float) -> dict[str, Any]:
        return {"name": name, "memory": memory, "free": memory}

    one = {fit.name: fit for fit in fits.on_gpus([gpu("NVIDIA H200", 150e9)])}
    assert one["Qwen3-8B"].fits and one["gpt-oss-120b"].fits and one["Qwen3-8B"].where == "1xH200"
    assert not one["MiMo-V2.5-Pro-FP4-DFlash"].fits
    assert {fit.name: fit for fit in fits.on_gpus([gpu("NVIDIA H200", 150e9)] * 8)}[
        "MiMo-V2.5-Pro-FP4-DFlash"
    ].fits
    sliced = fits.on_gpus([gpu("NVIDIA H200 MIG 1g.18gb", 18e9)])
    assert not any(fit.fits for fit in sliced if fit.name == "gpt-oss-120b")
    assert fits.on_gpus([gpu("NVIDIA GeForce RTX 4090", 25e9)])[0].where == "1xRTX4090"
    assert fits.on_gpus([gpu("Some GPU", 8e9)]) == [] and fits.on_gpus([]) == []
    assert fits.on_gpus([gpu("NVIDIA H200", 1e9), gpu("NVIDIA A100", 1e9)]) == []


def test_advice_comes_worst_first() -> None:
    found = (Finding("a", "", POOR, "mend a"), Finding("b", "", GOOD), Finding("c", "", FATAL, "mend c"))
    report = Report(found, ())
    assert report.advice == ["c: mend c", "a: mend a"] and not report.runs
