from __future__ import annotations

from pathlib import Path

import pytest
from ultra_sdk.agent.checks.detect import detect
from ultra_sdk.agent.workspace.root import Root

PYTEST = "python3 -m pytest -q --tb=short --color=no -p no:cacheprovider"
RUFF = "ruff check --output-format=concise --no-cache"


@pytest.mark.parametrize(
    ("files", "commands"),
    [
        ({}, []),
        ({"a.py": ""}, []),
        ({"test_a.py": "def test_a(): pass\n"}, [PYTEST]),
        ({"tests/a_test.py": "import pytest\n"}, [PYTEST]),
        ({"tests/test_a.py": "import unittest\nclass T(unittest.TestCase): 1\n"}, ["python3 -m unittest"]),
        ({"test_a.py": "class T: ...\n", "conftest.py": ""}, [PYTEST]),
        ({"pyproject.toml": "[tool.pytest]\n[tool.ruff]\n", ".venv/bin/python": "", ".venv/bin/ruff": ""},
         [PYTEST.replace("python3", ".venv/bin/python"), f".venv/bin/{RUFF}"]),
        ({"setup.cfg": "[tool:pytest]\n", "mypy.ini": ""}, [PYTEST, "mypy --no-color-output"]),
        ({"pyproject.toml": "[tool.mypy]\nstrict = true\n"}, ["mypy --no-color-output ."]),
        ({"pyproject.toml": "not toml ["}, []),
        ({"Cargo.toml": ""}, ["cargo test --quiet --offline"]),
        ({"go.mod": "", "Makefile": "test:\n\tgo test\n"}, ["go test ./..."]),
        ({"Makefile": "all:\n\ntest: all\n\ttrue\n"}, ["make test"]),
        ({"Makefile": "test := 1\n"}, []),
        ({"package.json": '{"scripts": {"test": "jest"}}', "tsconfig.json": "{}"},
         ["npm test --silent", "npx --no-install tsc --noEmit --pretty false"]),
        ({"package.json": '{"scripts": {"test": "vitest"}}', "pnpm-lock.yaml": ""}, ["pnpm test --silent"]),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, []),
        ({"package.json": '[1]'}, []),
        ({"package.json": '{"scripts": 3}'}, []),
    ],
)  # fmt: skip
def test_checks_are_found(tmp_path: Path, files: dict[str, str], commands: list[str]) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert [check.command for check in detect(Root(tmp_path))] == commands


def test_our_own_repository() -> None:
    names = [check.name for check in detect(Root(Path(__file__).parents[4]))]
    assert names == ["pytest", "ruff", "mypy"]
