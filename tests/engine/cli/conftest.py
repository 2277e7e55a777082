from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def runtime_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime folder of the test's own, with a path short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="ultra-test-"))
    monkeypatch.setenv("ULTRA_RUNTIME_DIR", str(folder / "run"))
    yield folder / "run"
    shutil.rmtree(folder)
