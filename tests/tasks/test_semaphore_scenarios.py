"""What CPython tests of ``asyncio.Semaphore``, with real waiting in place of counted loop ticks.

Left out: ``test_initial_value_zero``, as a semaphore without permits lets nobody in, ever (limits
are 1 or more; what is opened later is an event); and the tests of ``_wake_up_next`` and
``_waiters``, which are private to asyncio.
"""

import asyncio

import pytest

from fencelock import LeaseLost, NotHeld, OverReleased
from fencelock._core.keys import LockKeys
from fencelock._core.look.show import revoke


async def test_repr_tells_the_limit_and_what_is_held(world):
    """Asyncio's tells the value, which only the server knows here."""
    semaphore = world.client().semaphore("a", 2)
    assert "limit=2 held=0" in repr(semaphore)
    async with semaphore:
        assert "limit=2 held=1" in repr(semaphore)


async def test_the_value_must_not_be_negative(world):
    """A ValueError, as asyncio's."""
    with pytest.raises(ValueError, match="limit"):
        world.client().semaphore("a", -1)


async def test_semaphore(world):
    """Acquired and released, it is not locked; without holding, a release is an error."""
    semaphore = world.client().semaphore("a", 1)
    assert await semaphore.acquire() is True
    assert await semaphore.locked()
    await semaphore.release()
    assert not await semaphore.locked()
    with pytest.raises(NotHeld):
        await semaphore.release()


async def test_a_bounded_one_is_not_released_too_often(world):
    """A ValueError, as asyncio.BoundedSemaphore's."""
    semaphore = world.client().bounded_semaphore("a", 1)
    with pytest.raises(ValueError) as raised:
        await semaphore.release()
    assert isinstance(raised.value, OverReleased)


async def test_acquire_in_order_of_arrival(world):
    """Each release lets in exactly one, the one that came first."""
    semaphore, result = world.client().semaphore("a", 2), []

    async def enter(number: int) -> bool:
        granted = await semaphore.acquire()
        result.append(number)
        return granted

    assert await semaphore.acquire()
    assert await semaphore.acquire()
    tasks = []
    for number in (1, 2, 3):
        tasks.append(asyncio.create_task(enter(number)))
        await world.in_line(number)
    for count in (1, 2, 3):
        await semaphore.release()
        await world.until(lambda count=count: len(result) == count)
        assert world.waiting() == 3 - count
    assert result == [1, 2, 3]
    assert [await task for task in tasks] == [True] * 3
    await semaphore.release(2)


async def test_acquire_cancel(world):
    """Who is cancelled leaves the line; the permits are not touched."""
    semaphore = world.client().semaphore("a", 1)
    await semaphore.acquire()
    waiter = asyncio.create_task(semaphore.acquire())
    await world.in_line(1)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    await world.in_line(0)
    await semaphore.release()
    assert await semaphore.available() == 1


async def test_acquire_cancel_before_awoken(world):
    """The first waiters are cancelled in the very moment of the release: a later one gets in."""
    semaphore = world.client().semaphore("a", 1)
    await semaphore.acquire()
    tasks = []
    for number in range(4):
        tasks.append(asyncio.create_task(semaphore.acquire()))
        await world.in_line(number + 1)
    releasing = asyncio.create_task(semaphore.release())
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[1].cancel()
    await releasing
    await world.until(lambda: sum(task.done() for task in tasks) == 3, "one of the others is in")
    assert [task.cancelled() for task in tasks[:2]] == [True, True]
    assert await tasks[2] is True
    tasks[3].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await semaphore.release()


async def test_acquire_no_hang(world):
    """A waiter that is cancelled after it was granted hands its permit on."""
    semaphore, go = world.client().semaphore("a", 1), asyncio.Event()

    async def first() -> None:
        async with semaphore:
            await go.wait()
        second_task.cancel()

    async def second() -> None:
        async with semaphore:
            await asyncio.sleep(0)

    first_task = asyncio.create_task(first())
    await world.until(lambda: "held=1" in repr(semaphore))
    second_task = asyncio.create_task(second())
    await world.in_line(1)
    go.set()
    await asyncio.wait({first_task, second_task}, timeout=8)
    assert await asyncio.wait_for(semaphore.acquire(), 8) is True
    await semaphore.release()


async def test_context_manager(world):
    """A permit inside, back outside, also when the body raises."""
    semaphore = world.client().semaphore("a", 2)
    async with semaphore:
        assert not await semaphore.locked()
        async with semaphore:
            assert await semaphore.locked()
        assert not await semaphore.locked()
    with pytest.raises(ZeroDivisionError):
        async with semaphore:
            raise ZeroDivisionError
    assert await semaphore.available() == 2


async def test_acquire_fifo_order(world):
    """Tasks that go round and round take turns, and none comes twice before all came once."""
    semaphore, order = world.client().semaphore("a", 1), []

    async def rounds(tag: str) -> None:
        for number in (1, 2):
            async with semaphore:
                order.append(f"{tag}{number}")

    await semaphore.acquire()
    tasks = []
    for place, tag in enumerate("cba"):
        tasks.append(asyncio.create_task(rounds(tag)))
        await world.in_line(place + 1)
    await semaphore.release()
    await asyncio.gather(*tasks)
    assert order == ["c1", "b1", "a1", "c2", "b2", "a2"]


async def test_a_newcomer_does_not_overtake_who_was_woken(world):
    """Released and asked for again at once: the one in line is first (gh-90155)."""
    semaphore, order = world.client().semaphore("a", 1), []

    async def follow() -> None:
        async with semaphore:
            order.append("in line")

    await semaphore.acquire()
    follower = asyncio.create_task(follow())
    await world.in_line(1)
    await semaphore.release()
    async with semaphore:
        order.append("newcomer")
    await follower
    assert order == ["in line", "newcomer"]


async def test_on_lost_cancel_ends_the_body(world):
    """As a lock's: an operator takes it, the body is cancelled, and LeaseLost comes out."""
    client = world.client()

    async def body() -> None:
        async with client.semaphore("a", 1, on_lost="cancel"):
            await revoke(client._port(), LockKeys(world.prefix, "a"), "enough")
            await asyncio.wait_for(asyncio.Event().wait(), 8)

    with pytest.raises(LeaseLost, match="enough"):
        await body()
