from __future__ import annotations

import asyncio

import pytest
from tui_kit import link_to
from ultra_sdk import ConnectError
from ultra_sdk.testing import FakeEngine


async def test_one_client_is_made_however_many_ask() -> None:
    with FakeEngine(model="m") as fake:
        link = link_to(fake)
        first, second = await asyncio.gather(link.client(), link.client())
        assert first is second
        assert link.hello is not None and link.hello.model == "m"
        assert link.fetched.is_set()
        await link.close()


async def test_a_failed_attempt_is_made_again_when_asked_again() -> None:
    with FakeEngine() as fake:
        link = link_to(fake)
    with pytest.raises(ConnectError):
        await link.client()
    assert link.fetched.is_set()
    with pytest.raises(ConnectError):
        await link.client()
    await link.close()


async def test_giving_up_a_request_does_not_give_up_the_connection() -> None:
    with FakeEngine() as fake:
        link = link_to(fake)
        waiting = asyncio.create_task(link.client())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert await link.client()
        await link.close()


async def test_status_is_reported_until_there_is_a_client() -> None:
    with FakeEngine() as fake:
        link = link_to(fake)
        seen: list[str] = []
        link.on_change = lambda: seen.append(link.status)
        link._report("fetching m")
        assert not link.fetched.is_set()
        link._report("loading m")
        assert link.fetched.is_set()
        await link.client()
        await link.close()
    assert seen == ["fetching m", "loading m", ""]


async def test_switching_the_model_forgets_the_old_engine() -> None:
    with FakeEngine() as fake:
        link = link_to(fake)
        await link.client()
        await link.switch("other")
        assert (link.model, link.hello) == ("other", None)
        assert await link.client()
        await link.close()
