from __future__ import annotations

import pytest
from ultra_sdk.protocol import Delta, Done, Prefill, Queued, Timing, Usage
from ultra_tui.meter import Meter, per_second, seconds


class Watch:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_request_from_the_question_to_the_end() -> None:
    watch = Watch()
    meter = Meter(clock=watch, context_total=1000)
    meter.ask()
    assert meter.state == "waiting"
    meter.see(Queued("a", 1, position=2))
    assert (meter.state, meter.position) == ("queued", 2)
    meter.see(Prefill("a", 2, done=40, total=100))
    assert (meter.state, meter.progress, meter.context_used) == ("prefill", 0.4, 100)
    watch.now += 0.5
    meter.see(Delta("a", 3, text="x", count=1))
    assert (meter.state, meter.ttft, meter.rate) == ("streaming", 0.5, None)
    watch.now += 2
    meter.see(Delta("a", 4, text="yyy", count=20))
    assert (meter.output_tokens, meter.rate, meter.context_used) == (21, 10.0, 121)
    meter.see(Prefill("a", 5, done=1, total=1))
    assert meter.state == "streaming"
    meter.see(Done("a", 6, "stop", Usage(100, 0, 24), Timing(ttft_ms=400, decode_ms=2000)))
    assert (meter.state, meter.output_tokens, meter.context_used) == ("done", 24, 124)
    assert (meter.ttft, meter.rate) == (0.4, 12.0)


def test_a_new_request_begins_with_nothing_measured() -> None:
    meter = Meter(clock=Watch())
    meter.see(Delta("a", 1, count=3))
    meter.ask()
    assert (meter.output_tokens, meter.rate, meter.ttft) == (0, None, None)


def test_cancelled_by_the_engine() -> None:
    meter = Meter(clock=Watch())
    meter.see(Done("a", 1, "cancelled"))
    assert meter.state == "cancelled"


@pytest.mark.parametrize(("value", "text"), [(0.214, "0.21 s"), (3.44, "3.4 s"), (125.2, "2 min 5 s")])
def test_seconds(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(8.314, "8.31 tok/s"), (38.44, "38.4 tok/s"), (1204.4, "1,204 tok/s")]
)
def test_per_second(value: float, text: str) -> None:
    assert per_second(value) == text
