"""The SDK against a scripted server: every way in which a stream can end, and every way to leave it."""

from __future__ import annotations

import asyncio
import gc
import time

import pytest
from ultra_sdk import (
    ChatMessage,
    Client,
    ConnectionLost,
    Delta,
    Done,
    EngineFailed,
    IdleTimeout,
    InvalidRequest,
    Prefill,
    Queued,
    RequestError,
    SampleDone,
    Sampling,
    StreamTruncated,
    Timeout,
    connect,
)
from ultra_sdk.client import build
from ultra_sdk.errors import Unauthorized
from ultra_sdk.protocol import Error
from ultra_sdk.testing import Answer, FakeEngine


def dial(fake: FakeEngine, timeout: Timeout | None = None) -> Client:
    return connect(unix=fake.unix, token=fake.token, timeout=timeout)


SLOW = Answer([f"{number} " for number in range(500)], delay=0.02)


async def test_events_in_order_and_a_result() -> None:
    with FakeEngine(Answer(["Hel", "lo"], delay=0.01)) as fake:
        async with dial(fake) as engine:
            assert engine.info.model == "fake" and engine.info.context_tokens == 4096
            async with engine.stream("hi", max_tokens=9, seed=7) as stream:
                events = [event async for event in stream]
            assert [type(event) for event in events] == [Queued, Prefill, Delta, Delta, SampleDone, Done]
            result = await stream.result()
    assert (result.text, result.finish, result.seed) == ("Hello", "stop", 7)
    assert result.usage.output_tokens == 2 and result.samples[0].token_count == 2
    assert result.time_to_first_token > 0 and result.tokens_per_second > 0
    [create] = fake.creates
    assert create.messages == [ChatMessage("user", "hi")] and create.prompt is None
    assert (create.max_tokens, create.sampling.seed) == (9, 7)


async def test_the_token_of_a_named_server_may_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FakeEngine("yes") as fake:
        monkeypatch.setenv("ULTRA_TOKEN", "wrong")
        with pytest.raises(Unauthorized):
            await connect(unix=fake.unix).__aenter__()
        monkeypatch.setenv("ULTRA_TOKEN", fake.token)
        async with connect(unix=fake.unix) as engine:
            assert (await engine.generate("x")).text == "yes"


async def test_raw_text_is_sent_as_it_is() -> None:
    with FakeEngine("return n") as fake:
        async with dial(fake) as engine:
            await engine.generate(raw="def f(n):")
    assert (fake.creates[0].prompt, fake.creates[0].messages) == ("def f(n):", None)


async def test_text_comes_piece_by_piece() -> None:
    with FakeEngine(Answer(["a", "b", "c"], delay=0.02)) as fake:
        async with dial(fake) as engine, engine.stream("x") as stream:
            assert "".join([piece async for piece in stream.text]) == "abc"
            assert (await stream.result()).text == "abc"


async def test_generate_with_messages_and_several_samples() -> None:
    with FakeEngine("Fine, thanks.") as fake:
        async with dial(fake) as engine:
            result = await engine.generate(
                [{"role": "system", "content": "s"}, ChatMessage("user", "u")], n=3, temperature=0.5
            )
    assert [sample.text for sample in result.samples] == ["Fine, thanks."] * 3
    assert fake.creates[0].messages == [ChatMessage("system", "s"), ChatMessage("user", "u")]
    assert fake.creates[0].prompt is None and fake.creates[0].sampling.temperature == 0.5


async def test_a_failure_is_raised_with_its_code_and_the_connection_lives() -> None:
    bad = Answer(error=Error("invalid_request", "n must be 1", param="n"))
    broken = Answer(["half"], error=Error("engine_failed", "sorry", retryable=True))
    with FakeEngine([bad, broken, "well"]) as fake:
        async with dial(fake) as engine:
            with pytest.raises(InvalidRequest, match="n must be 1") as invalid:
                await engine.generate("x", id="r1")
            assert (invalid.value.param, invalid.value.request_id) == ("n", "r1")
            async with engine.stream("x") as stream:
                with pytest.raises(EngineFailed) as failed:
                    await stream.result()
                assert failed.value.retryable and stream.text_so_far() == "half"
                with pytest.raises(EngineFailed):
                    await stream.result()
            assert (await engine.generate("x")).text == "well"


async def test_pydantic_ai_6610_a_cut_stream_is_never_a_short_success() -> None:
    with FakeEngine([Answer(["par", "tial"], then="close"), Answer(["more"], then="drop"), "ok"]) as fake:
        async with dial(fake) as engine:
            with pytest.raises(StreamTruncated) as truncated:
                await engine.generate("x")
            assert truncated.value.partial == "partial"
            with pytest.raises(ConnectionLost) as lost:
                await engine.generate("x")
            assert lost.value.partial == "more"
            assert (await engine.generate("x")).text == "ok", "the next request connects anew"
    assert len(fake.creates) == 3, "nothing was run twice"


async def test_opencode_37580_silence_has_an_end() -> None:
    with FakeEngine(Answer(["half"], then="silent")) as fake:
        async with dial(fake, Timeout(idle=0.3)) as engine:
            with pytest.raises(IdleTimeout) as idle:
                await engine.generate("x")
            assert idle.value.partial == "half"


async def test_heartbeats_keep_a_slow_request_alive_until_its_deadline() -> None:
    with FakeEngine(Answer(["half"], then="hang")) as fake:
        async with dial(fake) as engine:
            with pytest.raises(RequestError, match="did not end within 2.5 s") as late:
                await engine.generate("x", timeout=Timeout(idle=2.0, total=2.5))
            assert late.value.code == "deadline_exceeded"
    assert len(fake.cancels) == 1


async def test_cancel_from_another_task() -> None:
    with FakeEngine(SLOW) as fake:
        async with dial(fake) as engine, engine.stream("x") as stream:
            await stream.__anext__()
            canceller = asyncio.create_task(stream.cancel())
            result = await stream.result()
            await canceller
            await stream.cancel()
    assert result.finish == "cancelled" and result.samples[0].finish == "cancelled"
    assert fake.cancels == [stream.id]


async def test_leaving_early_cancels_and_waits_for_the_end() -> None:
    with FakeEngine([SLOW, "next"]) as fake:
        async with dial(fake) as engine:
            started = time.monotonic()
            async with engine.stream("x") as stream:
                async for _ in stream.text:
                    break
            assert time.monotonic() - started < 5, "the whole answer takes 10 s"
            assert fake.cancels == [stream.id]
            await stream.aclose()
            assert (await engine.generate("x")).text == "next"


async def test_leaving_a_dead_server_does_not_hang() -> None:
    with FakeEngine(Answer(["a"], then="silent")) as fake:
        async with dial(fake) as engine:
            started = time.monotonic()
            async with engine.stream("x") as stream:
                await anext(stream.text)
            assert 1.5 < time.monotonic() - started < 10


async def test_wait_for_around_a_read_loses_no_event() -> None:
    words = [f"{number} " for number in range(60)]
    with FakeEngine(Answer(words, delay=0.005)) as fake:
        async with dial(fake) as engine, engine.stream("x") as stream:
            pieces: list[str] = []
            while True:
                try:
                    event = await asyncio.wait_for(anext(stream), 0.003)
                except TimeoutError:
                    continue
                except StopAsyncIteration:
                    break
                if isinstance(event, Delta):
                    pieces.append(event.text)
    assert "".join(pieces) == "".join(words)


async def test_a_slow_reader_does_not_hold_up_its_neighbours_and_gets_it_all() -> None:
    long = Answer([f"{number} " for number in range(3000)])
    with FakeEngine(lambda create: "quick" if create.messages[0].content == "quick" else long) as fake:
        async with dial(fake) as engine, engine.stream("slow") as slow:
            await anext(slow)
            for _ in range(5):
                assert (await engine.generate("quick")).text == "quick"
            await asyncio.sleep(0.3)
            events = [event async for event in slow if isinstance(event, Delta)]
            assert len(events) < 3000
            assert (await slow.result()).text == "".join(long.chunks)


async def test_many_streams_at_once() -> None:
    with FakeEngine(lambda create: Answer([create.messages[0].content] * 20, delay=0.001)) as fake:
        async with dial(fake) as engine:
            results = await asyncio.gather(*(engine.generate(f"{number};") for number in range(50)))
    assert [result.text for result in results] == [f"{number};" * 20 for number in range(50)]


async def test_a_lost_connection_ends_every_stream_on_it() -> None:
    with FakeEngine(Answer(["a"], then="hang")) as fake:
        async with dial(fake) as engine:
            tasks = [asyncio.create_task(engine.generate("x")) for _ in range(3)]
            while len(fake.creates) < 3:
                await asyncio.sleep(0.01)
            fake.drop()
            results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [ConnectionLost] * 3


async def test_misuse_is_told_in_words() -> None:
    with FakeEngine() as fake:
        client = dial(fake)
        with pytest.raises(RuntimeError, match="enter the client first"):
            await client.generate("x")
        with pytest.raises(RuntimeError, match="enter the client first"):
            print(client.info)
        async with client:
            stream = client.stream("x")
            with pytest.raises(RuntimeError, match="enter the stream first"):
                await anext(stream)
            async with stream:
                with pytest.raises(RuntimeError, match="already started"):
                    await stream.__aenter__()
                await stream.result()
            with pytest.raises(RuntimeError, match="already open"):
                await client.__aenter__()


async def test_a_stream_that_is_never_entered_leaves_nothing() -> None:
    with FakeEngine() as fake:
        async with dial(fake) as engine:
            engine.stream("x")
            gc.collect()
    assert fake.creates == []


async def test_too_big_a_request_is_refused_before_it_is_sent() -> None:
    with FakeEngine() as fake:
        async with dial(fake) as engine:
            with pytest.raises(InvalidRequest, match="at most 8388608") as refused:
                await engine.generate("x" * (9 * 2**20))
            assert refused.value.code == "message_too_large"
            assert (await engine.generate("x")).text == "Hello."


async def test_tokens_that_keep_coming_do_not_extend_the_deadline() -> None:
    with FakeEngine(SLOW) as fake:
        async with dial(fake) as engine:
            with pytest.raises(RequestError, match="did not end within 0.3 s"):
                await engine.generate("x", timeout=Timeout(total=0.3))


async def test_half_a_surrogate_pair_is_an_invalid_request() -> None:
    with FakeEngine() as fake:
        async with dial(fake) as engine:
            with pytest.raises(InvalidRequest, match="not valid Unicode"):
                await engine.generate("\ud800")
            assert (await engine.generate("x")).text == "Hello."


async def test_an_id_that_is_running_is_refused() -> None:
    with FakeEngine(SLOW) as fake:
        async with dial(fake) as engine, engine.stream("x", id="same"):
            with pytest.raises(InvalidRequest, match="is running") as refused:
                await engine.generate("x", id="same")
            assert refused.value.code == "duplicate_id"


async def test_closing_the_client_ends_its_streams_and_says_so() -> None:
    with FakeEngine(Answer(["half"], then="hang")) as fake:
        engine = await dial(fake).__aenter__()
        task = asyncio.create_task(engine.generate("x"))
        while not fake.creates:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        await engine.aclose()
        with pytest.raises(ConnectionLost, match="the client was closed"):
            await task


def test_options_become_the_wire_message() -> None:
    create = build(
        "p", {"stop": "x", "logit_bias": {5: 1.0}, "n": 2, "sampling": Sampling(top_k=3), "seed": 1}
    )
    assert create.sampling == Sampling(top_k=3, stop=["x"], logit_bias={"5": 1.0}, seed=1)
    assert create.n == 2 and len(create.id) == 16
    with pytest.raises(TypeError):
        build("p", {"temprature": 1})  # type: ignore[typeddict-unknown-key]
    with pytest.raises(TypeError, match="twice"):
        build([{"role": "user", "content": "x"}], {"messages": []})
