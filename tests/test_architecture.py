"""The house: which package may import which, and that files stay small enough to read."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "ultra_kernels": ROOT / "kernels/ultra_kernels",
    "ultra_engine": ROOT / "engine/ultra_engine",
    "ultra_sdk": ROOT / "sdk/ultra_sdk",
    "ultra_tui": ROOT / "tui/ultra_tui",
}
MAX_LINES = 350


def _imports(path: Path, package: str) -> Iterator[str]:
    """Absolute names of what a file imports from our packages."""
    module = [package, *path.relative_to(PACKAGES[package]).with_suffix("").parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module[: len(module) - node.level] if node.level else []
            source = ".".join([*base, *(node.module or "").split(".")])
            yield from (f"{source}.{alias.name}" for alias in node.names)


def _allowed(package: str, inner: str, target: str) -> bool:
    root = target.split(".")[0]
    if root == package:
        return True
    if package == "ultra_tui":
        return root == "ultra_sdk"
    if package == "ultra_engine":
        server = inner.startswith(("server/", "cli/"))
        return root == "ultra_kernels" or (server and target.startswith("ultra_sdk.protocol"))
    return False


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_one_way(package: str) -> None:
    """tui -> sdk, engine -> kernels, engine.server -> sdk.protocol; nothing else crosses."""
    crossings = [
        f"{path.relative_to(ROOT)} imports {target}"
        for path in PACKAGES[package].rglob("*.py")
        for target in _imports(path, package)
        if target.split(".")[0] in PACKAGES
        and not _allowed(package, path.relative_to(PACKAGES[package]).as_posix(), target)
    ]
    assert not crossings


def test_files_are_short() -> None:
    files = [path for folder in (*PACKAGES.values(), ROOT / "tests") for path in folder.rglob("*.py")]
    long = {
        str(path.relative_to(ROOT)): n
        for path in files
        if (n := len(path.read_text().splitlines())) > MAX_LINES
    }
    assert files and not long


@pytest.mark.parametrize("module", ["ultra_sdk", "ultra_sdk.protocol", "ultra_tui", "ultra_tui.cli"])
def test_clients_import_no_engine_packages(module: str) -> None:
    """The SDK and the app work where torch and the engine's packages are not installed."""
    heavy = "{'torch', 'numpy', 'gguf', 'tokenizers', 'transformers', 'ultra_engine', 'ultra_kernels'}"
    code = f"import sys, {module}; print(sorted({heavy} & {{name.split('.')[0] for name in sys.modules}}))"
    paths = [str(folder.parent) for folder in PACKAGES.values()]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": ":".join(paths)}
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
