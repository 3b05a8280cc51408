"""A coroutine that the garbage collector closes while its thread changes a table."""

import asyncio
import threading

import pytest

from fencelock._runtime import mutex

HELD = {
    "lock": lambda client: client.lock("mine"),
    "semaphore": lambda client: client.semaphore("mine", 2),
    "multi": lambda client: client.multi(["mine", "also"]),
}


class Interrupted:
    """The mutex, which calls ``strike`` inside its next section once ``armed``."""

    def __init__(self, strike):
        self._lock = threading.RLock()
        self._strike = strike
        self.armed = False

    def put_in(self, monkeypatch):
        """Have all clients of this test use it."""
        monkeypatch.setattr(mutex, "_lock", self)
        monkeypatch.setattr(mutex, "owned", self._lock._is_owned)

    def __enter__(self):
        self._lock.acquire()
        if self.armed:
            self.armed = False
            self._strike()

    def __exit__(self, *_):
        self._lock.release()


@pytest.mark.parametrize("held", HELD)
def test_the_release_waits_for_the_unlock(monkeypatch, world, caplog, held):
    """It is carried out, and changes no table that is half changed; its handle lives until then."""

    async def story():
        meddled = Interrupted(lambda: body.close())  # noqa: PLW0108  # it is made below
        meddled.put_in(monkeypatch)
        client, inside = world.client(), asyncio.Event()

        async def holding():
            async with HELD[held](client):
                inside.set()
                await asyncio.Event().wait()

        body = holding()
        task = asyncio.create_task(body)
        await inside.wait()
        meddled.armed = True
        async with client.lock("a"):
            assert not meddled.armed  # it struck
        other = client.lock("mine")
        await world.until(lambda: world.server.command("EXISTS", f"{world.prefix}mine") == 0)
        assert await other.acquire(timeout=5)
        await other.release()
        task.cancel()
        await asyncio.wait([task])

    world.run(story())
    assert "was dropped while it held" not in caplog.text
