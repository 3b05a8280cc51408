"""What CPython tests of ``asyncio``'s Event, with real waiting for counted ticks."""

import asyncio
import random

import pytest

from fencelock._core.keys import SignalKeys
from tests.tasks.world import cut

# A case of test_asyncio.test_locks → where it is.
EVENTS = {
    "test_repr": "test_repr_tells_what_was_seen_last",
    "test_wait": "test_all_who_wait_go_on",
    "test_wait_on_set": "test_waiting_for_what_is_set",
    "test_wait_cancel": "test_a_cancelled_wait_leaves_the_list",
    "test_clear": "test_clear",
    "test_clear_with_waiters": "test_clear_with_waiters",
}
ROUNDS = 60


def listed(world, name="a"):
    return world.server.command("ZCARD", SignalKeys(world.prefix, name).watch[1])


def test_every_case_of_theirs_is_here():
    for case in EVENTS.values():
        assert case in globals(), case


async def test_repr_tells_what_was_seen_last(world):
    event = world.client().event("a")
    assert repr(event).endswith(": unset>")
    await event.set()
    assert repr(event).endswith(": set>")


async def test_all_who_wait_go_on(world):
    event = world.client().event("a")
    tasks = [asyncio.create_task(event.wait()) for _ in range(3)]
    await world.until(lambda: listed(world) == 1)
    assert not any(task.done() for task in tasks)
    await event.set()
    assert await asyncio.gather(*tasks) == [True] * 3


async def test_waiting_for_what_is_set(world):
    event = world.client().event("a")
    await event.set()
    assert await event.wait() is True


async def test_a_cancelled_wait_leaves_the_list(world):
    event = world.client().event("a")
    tasks = [asyncio.create_task(event.wait()) for _ in range(2)]
    await world.until(lambda: listed(world) == 1)
    tasks[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    await event.is_set()
    assert listed(world) == 1
    tasks[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[1]
    await world.until(lambda: listed(world) == 0, "nobody is on the list")


async def test_clear(world):
    event = world.client().event("a")
    assert not await event.is_set()
    await event.set()
    assert await event.is_set()
    await event.clear()
    assert not await event.is_set()


async def test_clear_with_waiters(world):
    event = world.client().event("a")
    task = asyncio.create_task(event.wait())
    await world.until(lambda: listed(world) == 1)
    await event.set()
    await event.clear()
    assert not await event.is_set()
    await event.set()
    await event.set()
    assert await task is True
    assert listed(world) == 0


async def test_a_wait_cancelled_at_any_await(world):
    """I9: whenever it strikes, nothing is left on the list."""
    client, chance = world.client(), random.Random(21)
    for _ in range(ROUNDS):
        event = client.event("a")
        await cut(event.wait(), chance.choice([1, 2]), chance.choice([0.0, 0.0003]))
        await world.until(lambda: listed(world) == 0, "nobody is on the list")
    await client.event("a").set()
    assert await client.event("a").wait()
