from __future__ import annotations

import subprocess
import sys
import typing
from pathlib import Path

import pytest
import ultra_sdk
from serving import ENVIRONMENT

ROOT = Path(__file__).parent.parent.parent


def test_every_public_name_is_there() -> None:
    for name in ultra_sdk.__all__:
        assert getattr(ultra_sdk, name) is not None
    assert set(ultra_sdk.__all__) <= set(dir(ultra_sdk))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ultra_sdk.nonsense


def test_type_checkers_see_the_same_names() -> None:
    source = (ROOT / "sdk" / "ultra_sdk" / "__init__.py").read_text()
    static = {line.split()[-1] for line in source.splitlines() if line.startswith("    from .")}
    assert static == set(ultra_sdk.__all__)


def test_every_event_is_public() -> None:
    for kind in typing.get_args(ultra_sdk.Event):
        assert kind.__name__ in ultra_sdk.__all__


def test_the_sdk_loads_nothing_heavy() -> None:
    # Time is for `make check`, on a quiet machine; here only what is loaded counts.
    script = [sys.executable, str(ROOT / "scripts" / "import_budget.py"), "60000"]
    done = subprocess.run(script, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
