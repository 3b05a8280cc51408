"""What CPython tests of ``asyncio``'s Event and Condition, with real waiting for counted ticks."""

import asyncio
import random

import pytest

from fencelock._core.keys import ConditionKeys, LockKeys, SignalKeys
from tests.tasks.world import cut

# A case of test_asyncio.test_locks → where it is, or why it is left out.
EVENTS = {
    "test_repr": "test_repr_tells_what_was_seen_last",
    "test_wait": "test_all_who_wait_go_on",
    "test_wait_on_set": "test_waiting_for_what_is_set",
    "test_wait_cancel": "test_a_cancelled_wait_leaves_the_list",
    "test_clear": "test_clear",
    "test_clear_with_waiters": "test_clear_with_waiters",
}
CONDITIONS = {
    "test_wait": "test_who_is_notified_gets_the_lock_in_order",
    "test_wait_cancel": "test_a_cancelled_wait_has_the_lock_again",
    "test_wait_cancel_contested": "test_a_cancelled_wait_stands_in_line_for_the_lock",
    "test_wait_cancel_after_notify": "test_a_cancelled_wait_passes_its_notification_on",
    "test_wait_unacquired": "test_a_lock_that_is_not_held",
    "test_wait_for": "test_wait_for",
    "test_wait_for_unacquired": "test_a_lock_that_is_not_held",
    "test_notify": "test_notify",
    "test_notify_all": "test_notify_all",
    "test_notify_unacquired": "test_a_lock_that_is_not_held",
    "test_notify_all_unacquired": "test_a_lock_that_is_not_held",
    "test_repr": "test_repr_tells_the_lock",
    "test_context_manager": "test_context_manager",
    "test_explicit_lock": "test_context_manager",
    "test_ambiguous_loops": "left out: a client serves several loops, there is nothing ambiguous",
    "test_timeout_in_block": "test_timeout_in_block",
}
ROUNDS = 60


def listed(world, name="a"):
    return world.server.command("ZCARD", SignalKeys(world.prefix, name).watch[1])


def condition_waiters(world, name="a"):
    keys = ConditionKeys(LockKeys(world.prefix, name))
    return world.server.command("ZCARD", keys.condition)


def test_every_case_of_theirs_is_here_or_left_out_with_a_reason():
    for case in (*EVENTS.values(), *CONDITIONS.values()):
        assert case in globals() or case.startswith("left out: "), case


# --- events ---------------------------------------------------------------------------------------


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


# --- conditions -----------------------------------------------------------------------------------


async def waits(condition, result, number):
    async with condition:
        if await condition.wait():
            result.append(number)


async def three(world, condition, result):
    """Let three wait, one after the other."""
    tasks = []
    for number in (1, 2, 3):
        tasks.append(asyncio.create_task(waits(condition, result, number)))
        await world.until(lambda number=number: condition_waiters(world) == number)
    return tasks


async def test_who_is_notified_gets_the_lock_in_order(world):
    condition, result = world.client().condition("a"), []
    tasks = await three(world, condition, result)
    assert not await condition.locked()
    await condition.acquire()
    await condition.notify()
    assert result == []
    await condition.notify(2)
    assert result == []
    await condition.release()
    await asyncio.wait(tasks)
    assert result == [1, 2, 3]
    await world.nothing_left()


async def test_a_cancelled_wait_has_the_lock_again(world):
    condition, held = world.client().condition("a"), []

    async def waiting():
        await condition.acquire()
        try:
            await condition.wait()
        finally:
            held.append(await condition.lock.owned())
            await condition.release()

    task = asyncio.create_task(waiting())
    await world.until(lambda: condition_waiters(world) == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert held == [True]
    assert condition_waiters(world) == 0
    await world.nothing_left()


async def test_a_cancelled_wait_stands_in_line_for_the_lock(world):
    """However often it is cancelled: it does not go on without the lock."""
    condition, result = world.client().condition("a"), []
    task = asyncio.create_task(waits(condition, result, 1))
    await world.until(lambda: condition_waiters(world) == 1)
    await condition.acquire()
    for _ in range(3):
        task.cancel()
        await world.until(lambda: condition_waiters(world) == 0)
        await world.in_line(1)
    assert not task.done()
    await condition.release()
    with pytest.raises(asyncio.CancelledError):
        await task
    await world.nothing_left()


async def test_a_cancelled_wait_passes_its_notification_on(world):
    condition, result = world.client().condition("a"), []
    first, *others = await three(world, condition, result)
    await condition.acquire()
    await condition.notify()
    assert world.waiting() == 1
    first.cancel()
    await world.until(lambda: condition_waiters(world) == 1, "the next one was notified")
    await condition.release()
    with pytest.raises(asyncio.CancelledError):
        await first
    await others[0]
    assert result == [2]
    others[1].cancel()
    await asyncio.wait(others)
    await world.nothing_left()


async def test_a_lock_that_is_not_held(world):
    condition = world.client().condition("a")
    for use in (condition.wait, condition.notify, condition.notify_all):
        with pytest.raises(RuntimeError):
            await use()
    assert await condition.wait_for(lambda: [1, 2, 3]) == [1, 2, 3]
    with pytest.raises(RuntimeError):
        await condition.wait_for(lambda: False)


async def test_wait_for(world):
    condition, state = world.client().condition("a"), []

    async def waiting():
        async with condition:
            return await condition.wait_for(lambda: state)

    task = asyncio.create_task(waiting())
    await world.until(lambda: condition_waiters(world) == 1)
    async with condition:
        await condition.notify()
    await world.until(lambda: condition_waiters(world) == 1 and world.holder() is None)
    assert not task.done()
    async with condition:
        state.append(1)
        await condition.notify()
    assert await task == [1]


async def test_notify(world):
    condition, result = world.client().condition("a"), []
    tasks = await three(world, condition, result)
    async with condition:
        await condition.notify(1)
    await tasks[0]
    assert result == [1]
    async with condition:
        await condition.notify(1)
        await condition.notify(2048)
    await asyncio.wait(tasks)
    assert result == [1, 2, 3]


async def test_notify_all(world):
    condition, result = world.client().condition("a"), []
    tasks = await three(world, condition, result)
    async with condition:
        await condition.notify_all()
    await asyncio.wait(tasks)
    assert result == [1, 2, 3]


async def test_repr_tells_the_lock(world):
    condition = world.client().condition("a")
    assert "unlocked" in repr(condition)
    async with condition:
        assert "<locked" in repr(condition)


async def test_context_manager(world):
    client = world.client()
    lock = client.lock("a")
    condition = client.condition(lock)
    assert condition.lock is lock
    assert not await condition.locked()
    async with condition:
        assert await condition.locked()
        assert await lock.locked()
    assert not await condition.locked()


async def test_timeout_in_block(world):
    condition = world.client().condition("a")
    async with condition:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(condition.wait(), 0.02)
        assert await condition.locked()
    await world.nothing_left()


async def test_a_wait_on_a_condition_cancelled_at_any_await(world):
    """I9, and no notification is lost: whenever it strikes, the other one hears of it."""
    client, other, chance = world.client(), world.client(), random.Random(22)
    for _ in range(ROUNDS):
        await struck(world, client.condition("a"), other.condition("a"), chance)
        await world.nothing_left()
        await world.until(lambda: condition_waiters(world) == 0)


async def struck(world, condition, follower, chance):
    """Cancel one of two that wait, as one is notified: one of them goes on."""
    went_on = []

    async def victim():
        async with condition:
            await cut(condition.wait(), chance.choice([1, 2]), chance.choice([0.0, 0.0004, 0.002]))
            went_on.append("victim")

    first = asyncio.create_task(victim())
    second = asyncio.create_task(waits(follower, went_on, "follower"))
    await world.until(
        lambda: condition_waiters(world) + first.done() == 2, "both wait, or one is gone"
    )
    while "follower" not in went_on:
        async with follower:
            await follower.notify()
        await world.tick()
    await asyncio.wait({first, second})
