"""Numbers and tables for people."""

from __future__ import annotations

from pathlib import Path

import pytest
from gguf_files import Gguf, entries, f32
from rich.console import Console
from ultra_engine.weights.gguf import GGUFFile
from ultra_engine.weights.summary import bytes_text, count_text, parameter_count, summary_table, tensor_types


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (12_345, "12.3 kB"),
        (999_600, "1000 kB"),
        (98_362_432, "98.4 MB"),
        (1_117_320_768, "1.12 GB"),
    ],
)
def test_bytes(count: int, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(9_999, "9,999"), (134_515_008, "135 M"), (1_777_088_000, "1.78 B")]
)
def test_counts(count: int, text: str) -> None:
    assert count_text(count) == text


def test_a_file(tmp_path: Path) -> None:
    metadata = entries(
        {"general.architecture": "llama", "llama.block_count": 2, "general.name": "\x1b[31m[b]x"}
    )
    path = Gguf(metadata, [f32("a", 4, 8), f32("b", 8)]).write(tmp_path / "m.gguf")
    with GGUFFile.open(path) as file:
        assert parameter_count(file) == 40 and tensor_types(file) == [("F32", 2, 160)]
        console = Console(width=100, record=True, file=(tmp_path / "out").open("w"))
        console.print(summary_table(file, "MIT"))
        console.file.close()
    text = console.export_text()
    assert "llama" in text and "MIT" in text and "2 (160 B)" in text
    assert "\ufffd[31m[b]x" in text
