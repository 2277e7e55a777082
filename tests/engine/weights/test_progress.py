"""The download display, with and without a terminal."""

from __future__ import annotations

import pytest
from ultra_engine.weights import progress
from ultra_engine.weights.progress import Meter


def test_lines_without_a_terminal(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", -1)
    with Meter("thing", 1000_000_000) as meter:
        for done in range(0, 1000_000_001, 50_000_000):
            meter.update(done)
        meter.note("said [aside]")
    out, err = capfd.readouterr()
    lines = err.splitlines()
    assert out == "" and len(lines) == 11
    assert lines[0] == "thing: 100 of 1000 MB" and lines[-2:] == ["thing: 1000 of 1000 MB", "said [aside]"]


def test_what_is_quick_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with Meter("thing", 1000) as meter:
        meter.update(1000)
    with Meter("thing", None) as meter:
        meter.update(1000)
    assert capfd.readouterr() == ("", "")


def test_silence_on_request(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", -1)
    with Meter("thing", 1000, show=False) as meter:
        meter.update(1000)
        meter.note("nothing")
    assert capfd.readouterr() == ("", "")


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(KeyboardInterrupt), Meter("thing", 2_000_000) as meter:
        meter.update(1_000_000)
        meter.note("said [aside]")
        raise KeyboardInterrupt
    out, err = capfd.readouterr()
    assert out == "" and "thing" in err and "1.0/2.0 MB" in err and "said [aside]" in err
    assert err.rstrip().endswith("\x1b[?25h"), "the cursor is shown again"
