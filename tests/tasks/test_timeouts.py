"""One timer of the port serves all waiters of a loop: each gives up at a time of its own."""

import asyncio
import time

import pytest

from fencelock._io import port_asyncio

SOON = 8.0


@pytest.fixture(autouse=True)
def _set_rarely(monkeypatch):
    """Else the timer is set anew each second, whoever waits."""
    monkeypatch.setattr(port_asyncio, "REST_SECONDS", 60.0)


async def _seconds(work) -> float:
    began = time.monotonic()
    assert await work is False
    return time.monotonic() - began


def test_who_comes_later_may_give_up_earlier(world):
    """The timer, which is set for a patient waiter, is set anew for one with a short timeout."""

    async def scene() -> None:
        lock = world.client(deadlock_after=None).lock("a")  # else it looks after a second
        await lock.acquire()
        patient = asyncio.create_task(lock.acquire(timeout=60))
        await asyncio.sleep(0)
        assert await _seconds(lock.acquire(timeout=0.005)) < SOON
        assert not patient.done()
        await lock.release()
        assert await patient
        await lock.release()

    world.run(scene())


def test_the_timer_goes_on_for_those_that_are_left(world):
    """When it has woken one waiter, it is set for the next."""

    async def scene() -> None:
        lock = world.client(deadlock_after=None).lock("a")
        await lock.acquire()
        waits = [_seconds(lock.acquire(timeout=each)) for each in (0.02, 0.005, 0.012)]
        assert max(await asyncio.gather(*waits)) < SOON
        await lock.release()

    world.run(scene())
