from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_sdk.errors import ConnectionLost, ProtocolError
from ultra_sdk.events import Arrival
from ultra_sdk.mailbox import Mailbox
from ultra_sdk.protocol import Delta, Done, Queued, SampleDone


def drain(mailbox: Mailbox) -> list[Arrival]:
    out: list[Arrival] = []
    while mailbox.ready():
        message = mailbox.pop()
        if message is None:
            break
        out.append(message)
    return out


def test_waiting_deltas_are_merged_per_sample() -> None:
    mailbox = Mailbox("a")
    for seq, (sample, offset, text) in enumerate([(0, 0, "a"), (1, 0, "x"), (0, 1, "b")], 1):
        mailbox.put(Delta("a", seq, sample, offset, text, 1))
    assert drain(mailbox) == [Delta("a", 3, 0, 0, "ab", 2), Delta("a", 2, 1, 0, "x", 1)]


def test_a_gap_in_seq_is_a_protocol_error() -> None:
    mailbox = Mailbox("a")
    mailbox.put(Queued("a", 1))
    mailbox.put(Queued("a", 3))
    mailbox.put(Queued("a", 4))
    assert isinstance(mailbox.pop(), Queued)
    with pytest.raises(ProtocolError, match="message 3 came after 1"):
        mailbox.pop()


def test_a_gap_in_the_tokens_is_a_protocol_error() -> None:
    mailbox = Mailbox("a")
    mailbox.put(Delta("a", 1, 0, 0, "a", 1))
    mailbox.put(Delta("a", 2, 0, 2, "c", 1))
    mailbox.pop()
    with pytest.raises(ProtocolError, match="token 2 of sample 0 came where 1"):
        mailbox.pop()


def test_what_had_arrived_is_read_before_the_failure() -> None:
    mailbox = Mailbox("a")
    mailbox.put(Delta("a", 1, 0, 0, "a", 1))
    mailbox.fail(ConnectionLost("gone"))
    mailbox.put(Delta("a", 2, 0, 1, "late", 1))
    assert mailbox.pop() == Delta("a", 1, 0, 0, "a", 1)
    for _ in range(2):
        with pytest.raises(ConnectionLost):
            mailbox.pop()


def test_a_failure_after_the_end_changes_nothing() -> None:
    mailbox = Mailbox("a")
    mailbox.put(Done("a", 1, "stop"))
    mailbox.fail(ConnectionLost("gone"))
    assert drain(mailbox) == [Done("a", 1, "stop")]
    assert mailbox.pop() is None


async def test_a_cancelled_wait_takes_nothing() -> None:
    mailbox = Mailbox("a")
    waiting = asyncio.create_task(mailbox.wait())
    await asyncio.sleep(0)
    mailbox.put(Queued("a", 1))
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert mailbox.pop() == Queued("a", 1)


@given(st.lists(st.tuples(st.integers(0, 2), st.text(max_size=2), st.booleans()), max_size=30))
def test_reading_at_any_pace_gives_the_same_text(script: list[tuple[int, str, bool]]) -> None:
    mailbox = Mailbox("a")
    want, got, counts = {}, {}, {}  # type: ignore[var-annotated]
    heard: list[Arrival] = []
    for seq, (sample, text, read) in enumerate(script, 1):
        mailbox.put(Delta("a", seq, sample, counts.get(sample, 0), text, 1))
        counts[sample] = counts.get(sample, 0) + 1
        want[sample] = want.get(sample, "") + text
        if read:
            heard += drain(mailbox)
    mailbox.put(SampleDone("a", len(script) + 1, "stop"))
    heard += drain(mailbox)
    for message in heard:
        if isinstance(message, Delta):
            got[message.sample] = got.get(message.sample, "") + message.text
    assert got == want
