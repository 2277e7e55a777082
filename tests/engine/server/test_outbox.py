from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from ultra_engine.server.outbox import Outbox
from ultra_sdk.protocol import Delta, Done, LogprobRow, Ping, Pong, Prefill, Queued, SampleDone, ServerMessage


def sent(outbox: Outbox) -> list[ServerMessage]:
    return [msgspec.json.decode(data, type=ServerMessage) for data in outbox.flush()]


def delta(offset: int, text: str, sample: int = 0, request: str = "a", count: int = 1) -> Delta:
    return Delta(request, 0, sample, offset, text, count)


def test_what_waits_goes_out_as_one_delta_per_sample() -> None:
    outbox = Outbox()
    for message in (delta(0, "a"), delta(0, "x", sample=1), delta(1, "b"), delta(0, "other", request="b")):
        outbox.put(message)
    assert sent(outbox) == [
        Delta("a", 1, 0, 0, "ab", 2),
        Delta("a", 2, 1, 0, "x", 1),
        Delta("b", 1, 0, 0, "other", 1),
    ]


def test_a_flush_ends_a_run_and_the_numbers_go_on() -> None:
    outbox = Outbox()
    outbox.put(delta(0, "a"))
    assert sent(outbox) == [Delta("a", 1, 0, 0, "a", 1)]
    outbox.put(delta(1, "b"))
    assert sent(outbox) == [Delta("a", 2, 0, 1, "b", 1)]
    assert sent(outbox) == []


def test_tokens_and_logprobs_are_merged_too() -> None:
    outbox = Outbox()
    for number in (1, 2):
        row = LogprobRow(str(number), number, -0.5)
        outbox.put(Delta("a", 0, 0, number - 1, str(number), 1, [number], [row]))
    [message] = sent(outbox)
    assert isinstance(message, Delta)
    assert message.tokens == [1, 2] and [row.id for row in message.logprobs or ()] == [1, 2]


def test_only_the_newest_progress_is_sent() -> None:
    outbox = Outbox()
    for message in (Queued("a", 0, 3), Queued("a", 0, 2), Prefill("a", 0, 10, 100), Prefill("a", 0, 90, 100)):
        outbox.put(message)
    assert sent(outbox) == [Prefill("a", 1, 90, 100)]


def test_messages_without_a_number_keep_their_place() -> None:
    outbox = Outbox()
    outbox.put(Pong(1.0))
    outbox.put(delta(0, "a"))
    outbox.put(Pong(2.0))
    assert [type(message) for message in sent(outbox)] == [Pong, Delta, Pong]


def test_a_client_that_does_not_read_costs_no_more_than_its_tokens() -> None:
    outbox = Outbox()
    for number in range(10_000):
        outbox.put(Prefill("a", 0, number, 10_000))
        outbox.put(delta(number, "x"))
    assert sent(outbox) == [Prefill("a", 1, 9_999, 10_000), Delta("a", 2, 0, 0, "x" * 10_000, 10_000)]


steps = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.text(max_size=3), st.booleans()))


@given(steps)
def test_merging_loses_nothing_reorders_nothing_and_numbers_without_gaps(
    script: list[tuple[str, int, str, bool]],
) -> None:
    outbox, out = Outbox(), []
    want: dict[tuple[str, int], str] = {}
    offsets: dict[tuple[str, int], int] = {}
    for request, sample, text, flush in script:
        key = request, sample
        outbox.put(delta(offsets.get(key, 0), text, sample, request))
        offsets[key] = offsets.get(key, 0) + 1
        want[key] = want.get(key, "") + text
        if flush:
            out += sent(outbox)
    for request in "ab":
        outbox.put(SampleDone(request, 0, "stop"))
        outbox.put(Done(request, 0, "stop"))
    out += sent(outbox)
    got: dict[tuple[str, int], str] = {}
    counts: dict[tuple[str, int], int] = {}
    for message in out:
        if isinstance(message, Delta):
            key = message.id, message.sample
            assert message.offset == counts.get(key, 0)
            counts[key] = message.offset + message.count
            got[key] = got.get(key, "") + message.text
    assert got == want and counts == offsets
    for request in "ab":
        own = [message for message in out if not isinstance(message, (Ping, Pong)) and message.id == request]
        assert [message.seq for message in own] == list(range(1, len(own) + 1))
        assert isinstance(own[-1], Done)
