"""Which checks a project has."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any, Literal

import msgspec

from ..errors import AgentError
from ..workspace.root import Root
from ..workspace.scan import files

Kind = Literal["pytest", "unittest", "cargo", "go", "node", "lint", "other"]
MAX_BYTES = 1 << 20
TESTS = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$")
LOOKED_AT = 20
"""Test files that are read to see how they are written."""


class Check(msgspec.Struct, frozen=True):
    """A command that says by its exit code whether the project is right.

    Check("pytest", "python3 -m pytest -q", "pytest")
    """

    name: str
    command: str
    kind: Kind = "other"
    """How its output is read."""


def detect(root: Root) -> list[Check]:
    """The checks of a project, tests first. Nothing is run to find them."""
    names = files(root)
    top = {name for name in names if "/" not in name}
    project = _toml(root, "pyproject.toml") if "pyproject.toml" in top else {}
    tools = project.get("tool", {}) if isinstance(project.get("tool"), dict) else {}
    found = _python(root, names, top, tools) + _others(root, top)
    if not found and "Makefile" in top and re.search(r"^test\s*:(?!=)", _text(root, "Makefile"), re.M):
        found.append(Check("make test", "make test"))
    return found + _linters(root, top, tools)


def _python(root: Root, names: list[str], top: set[str], tools: dict[str, Any]) -> list[Check]:
    tests = [name for name in names if TESTS.search(name)]
    python = _program(root, "python", "python3")
    configured = (
        "pytest" in tools
        or top & {"pytest.ini", "conftest.py"}
        or "[tool:pytest]" in _text(root, "setup.cfg")
    )
    if not tests and not configured:
        return []
    sources = [_text(root, name) for name in tests[:LOOKED_AT]]
    plain = any(
        re.search(r"^(?:import|from) pytest\b|^(?:async )?def test_", source, re.M) for source in sources
    )
    if configured or plain or any(name.endswith("conftest.py") for name in names):
        return [Check("pytest", f"{python} -m pytest -q --tb=short --color=no -p no:cacheprovider", "pytest")]
    return [Check("unittest", f"{python} -m unittest", "unittest")]


def _others(root: Root, top: set[str]) -> list[Check]:
    found = []
    if "Cargo.toml" in top:
        found.append(Check("cargo test", "cargo test --quiet --offline", "cargo"))
    if "go.mod" in top:
        found.append(Check("go test", "go test ./...", "go"))
    if "package.json" in top:
        scripts = _json(root, "package.json").get("scripts")
        test = scripts.get("test", "") if isinstance(scripts, dict) else ""
        if test and "no test specified" not in test:
            manager = "pnpm" if "pnpm-lock.yaml" in top else "yarn" if "yarn.lock" in top else "npm"
            found.append(Check(f"{manager} test", f"{manager} test --silent", "node"))
    return found


def _linters(root: Root, top: set[str], tools: dict[str, Any]) -> list[Check]:
    found = []
    if "ruff" in tools or top & {"ruff.toml", ".ruff.toml"}:
        found.append(
            Check(
                "ruff", f"{_program(root, 'ruff', 'ruff')} check --output-format=concise --no-cache", "lint"
            )
        )
    if "mypy" in tools or top & {"mypy.ini", ".mypy.ini"}:
        configured = tools.get("mypy", {})
        named = isinstance(configured, dict) and configured.keys() & {"files", "packages", "modules"}
        target = "" if named or top & {"mypy.ini", ".mypy.ini"} else " ."
        found.append(Check("mypy", f"{_program(root, 'mypy', 'mypy')} --no-color-output{target}", "lint"))
    if "tsconfig.json" in top:
        found.append(Check("tsc", "npx --no-install tsc --noEmit --pretty false", "lint"))
    return found


def _program(root: Root, name: str, otherwise: str) -> str:
    """A program of the project's own environment, if it has one."""
    for folder in (".venv", "venv"):
        if (root.path / folder / "bin" / name).exists():
            return f"{folder}/bin/{name}"
    return otherwise


def _toml(root: Root, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(root, name))
    except tomllib.TOMLDecodeError:
        return {}


def _json(root: Root, name: str) -> dict[str, Any]:
    try:
        found = json.loads(_text(root, name))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(root: Root, name: str) -> str:
    try:
        return root.read(name, MAX_BYTES)[0].decode("utf-8", "replace")
    except AgentError:
        return ""
