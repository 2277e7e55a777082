"""Choosing a file of a repository, and what the hub may answer."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from file_server import FileServer, serving
from ultra_engine.errors import DownloadError, UnknownModel, UnsupportedModel
from ultra_engine.weights import hub_files
from ultra_engine.weights.hub_files import HubFile, choose


def files(*names: str) -> list[HubFile]:
    return [HubFile(name, 1, None) for name in names]


SEVERAL = files("README.md", "m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-f16.gguf", "q/m-Q2_K.gguf")


@pytest.mark.parametrize(
    ("given", "wanted", "chosen"),
    [
        (files("a.gguf", "config.json"), None, "a.gguf"),
        (SEVERAL, None, "m-Q4_K_M.gguf"),
        (SEVERAL, "m-Q8_0.gguf", "m-Q8_0.gguf"),
        (SEVERAL, "q8_0", "m-Q8_0.gguf"),
        (SEVERAL, "m-Q2_K.gguf", "q/m-Q2_K.gguf"),
        (files("a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "b.gguf"), None, "b.gguf"),
    ],
)
def test_choice(given: list[HubFile], wanted: str | None, chosen: str) -> None:
    assert choose("o/r", given, wanted).name == chosen


@pytest.mark.parametrize(
    ("given", "wanted", "error", "reason"),
    [
        (SEVERAL, "q5", UnknownModel, "no file 'q5'; it has m-Q8_0.gguf, m-Q4_K_M.gguf"),
        (
            files("a.gguf", "b.gguf"),
            None,
            UnknownModel,
            "several files; name one as o/r:FILE out of a",
        ),
        (files("model.safetensors"), None, UnsupportedModel, "neither a config.json .* try o/r-GGUF"),
        (files("README.md", "pytorch_model.bin"), None, UnsupportedModel, "any other form are not loaded"),
        (files("a-00001-of-00002.gguf"), None, UnsupportedModel, "nor a GGUF model in one file"),
    ],
)
def test_no_choice(given: list[HubFile], wanted: str | None, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        choose("o/r", given, wanted)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def test_listing(server: FileServer) -> None:
    lfs = {"sha256": "ab", "size": 5, "pointerSize": 1}
    siblings = [{"rfilename": "a.gguf", "size": 5, "lfs": lfs}, {"rfilename": "b", "size": 1}]
    server.files["/api/models/o/r"] = json.dumps({"id": "o/r", "sha": "1f", "siblings": siblings}).encode()
    assert hub_files.listing("o/r") == [HubFile("a.gguf", 5, "ab", "1f"), HubFile("b", 1, None, "1f")]
    assert hub_files.url("o/r", "a.gguf", "1f").endswith("/o/r/resolve/1f/a.gguf")


def test_listing_troubles(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.faults["/api/models/o/r"] = [("status", 500)] * 10
    with pytest.raises(DownloadError, match="cannot look up o/r"):
        hub_files.listing("o/r")
    with pytest.raises(UnknownModel, match="no model"):
        hub_files.listing("o--/..r")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(DownloadError, match="cannot look up o/r"):
        hub_files.listing("o/r")
