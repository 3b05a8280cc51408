"""A coroutine that the garbage collector closes while its thread changes a table."""

import asyncio

import pytest

from tests.kinds import MADE
from tests.strikes.sections import Interrupted


@pytest.mark.parametrize("held", ["lock", "semaphore", "multi"])
def test_the_release_waits_for_the_unlock(monkeypatch, world, caplog, held):
    """It is carried out, and changes no table that is half changed; its handle lives until then."""

    async def story():
        meddled = Interrupted(lambda: body.close())  # noqa: PLW0108  # it is made below
        meddled.put_in(monkeypatch)
        client, inside = world.client(), asyncio.Event()

        async def holding():
            async with MADE[held](client, "mine"):
                inside.set()
                await asyncio.Event().wait()

        body = holding()
        task = asyncio.create_task(body)
        await inside.wait()
        before = meddled.arm(1)
        async with client.lock("a"):
            assert meddled.disarm() > before  # it struck
        other = client.lock("mine")
        await world.until(lambda: world.server.command("EXISTS", f"{world.prefix}mine") == 0)
        assert await other.acquire(timeout=5)
        await other.release()
        task.cancel()
        await asyncio.wait([task])

    world.run(story())
    assert "was dropped while it held" not in caplog.text
