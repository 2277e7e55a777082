"""The README's script runs as it stands there, and its commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from e2e.conftest import Served

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_the_script(served: Served, tmp_path: Path) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", README, re.S)
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")],
        env=served.env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    tokens, speed = re.findall(r"\n(\d+) tokens, ([\d.]+) a second\n$", done.stdout)[0]
    assert 1 < int(tokens) <= 64 and float(speed) > 0
    assert len(script.split("asyncio.run")[0].split("async def")[1].splitlines()) <= 10


def test_the_make_targets() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, re.M):
        assert re.search(rf"^{target}:", makefile, re.M)


def test_the_files_it_points_to_exist() -> None:
    for path in re.findall(r"\]\((?!http|#)([^)]+)\)", README):
        assert (Path(__file__).parents[2] / path).is_file(), path
