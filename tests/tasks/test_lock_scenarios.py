"""What CPython tests of ``asyncio.Lock``, with real waiting in place of counted loop ticks."""

import asyncio

import pytest

from fencelock import NotHeld


async def test_repr_tells_the_state(world):
    """As asyncio.Lock's."""
    lock = world.client().lock("a")
    assert "unlocked" in repr(lock)
    async with lock:
        assert "<locked" in repr(lock)
    assert "unlocked" in repr(lock)


async def test_release_without_holding(world):
    """A RuntimeError, as asyncio.Lock's."""
    lock = world.client().lock("a")
    with pytest.raises(RuntimeError) as raised:
        await lock.release()
    assert isinstance(raised.value, NotHeld)


async def test_context_manager(world):
    """Locked inside, free outside, also when the body raises."""
    lock = world.client().lock("a")
    assert not await lock.locked()
    async with lock:
        assert await lock.locked()
    assert not await lock.locked()
    with pytest.raises(ZeroDivisionError):
        async with lock:
            raise ZeroDivisionError
    assert not await lock.locked()


async def test_acquire_in_order_of_arrival(world):
    """Each release lets in exactly one, the one that came first."""
    lock, result = world.client().lock("a"), []

    async def enter(number: int) -> bool:
        granted = await lock.acquire()
        result.append(number)
        return granted

    await lock.acquire()
    tasks = []
    for number in (1, 2, 3):
        tasks.append(asyncio.create_task(enter(number)))
        await world.in_line(number)
    for count in (1, 2, 3):
        await lock.release()
        await world.until(lambda count=count: len(result) == count)
        assert world.waiting() == 3 - count
    assert result == [1, 2, 3]
    assert [await task for task in tasks] == [True, True, True]
    await lock.release()


async def test_a_cancelled_acquire_leaves_the_line(world):
    """The one behind it moves up; the lock is not touched."""
    lock = world.client().lock("a")
    await lock.acquire()
    quitter = asyncio.create_task(lock.acquire())
    await world.in_line(1)
    follower = asyncio.create_task(lock.acquire())
    await world.in_line(2)
    quitter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await quitter
    await world.in_line(1)
    assert not follower.done()
    await lock.release()
    assert await follower is True
    await lock.release()


async def test_cancel_race(world):
    """A releases while B's wait is cancelled: C gets in."""
    lock, go, entered = world.client().lock("a"), asyncio.Event(), []

    async def enter(name: str, blocker: asyncio.Event | None) -> None:
        async with lock:
            entered.append(name)
            if blocker is not None:
                await blocker.wait()

    one = asyncio.create_task(enter("A", go))
    await world.until(lambda: entered)
    two = asyncio.create_task(enter("B", None))
    await world.in_line(1)
    three = asyncio.create_task(enter("C", None))
    await world.in_line(2)
    go.set()
    two.cancel()
    await asyncio.wait({one, two, three}, timeout=8)
    assert two.cancelled() or "B" in entered
    assert (entered[0], entered[-1]) == ("A", "C")
    await world.nothing_left()


async def test_cancel_release_race(world):
    """Cancel the first waiter and release in one breath: exactly one of the others gets in."""
    lock, taken = world.client().lock("a"), []

    async def enter(number: int) -> None:
        await lock.acquire()
        taken.append(number)

    await lock.acquire()
    tasks = []
    for number in (1, 2, 3):
        tasks.append(asyncio.create_task(enter(number)))
        await world.in_line(number)
    tasks[0].cancel()
    await lock.release()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    await tasks[1]
    assert taken == [2]
    assert not tasks[2].done()
    await world.in_line(1)
    tasks[2].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[2]
    await lock.release()
    await world.nothing_left()


async def test_cancelled_before_it_was_woken(world):
    """A waiter is cancelled when the grant is on its way: the grant goes on to the next."""
    lock = world.client().lock("a")
    for turn in range(10):
        await lock.acquire()
        first = asyncio.create_task(lock.acquire())
        await world.in_line(1)
        second = asyncio.create_task(lock.acquire())
        await world.in_line(2)
        releasing = asyncio.create_task(lock.release())
        for _ in range(turn):
            await asyncio.sleep(0)
        first.cancel()
        await releasing
        await asyncio.wait({first}, timeout=8)
        if not first.cancelled():  # it was granted before
            await lock.release()
        assert await asyncio.wait_for(second, 8) is True
        await lock.release()
        await world.nothing_left()


async def test_two_cancelled_before_they_were_woken(world):
    """Two in a row: the third gets in."""
    lock = world.client().lock("a")
    await lock.acquire()
    tasks = []
    for number in (1, 2, 3, 4):
        tasks.append(asyncio.create_task(lock.acquire()))
        await world.in_line(number)
    releasing = asyncio.create_task(lock.release())
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[1].cancel()
    await releasing
    assert await asyncio.wait_for(tasks[2], 8) is True
    assert not tasks[3].done()
    await lock.release()
    assert await asyncio.wait_for(tasks[3], 8) is True
    await lock.release()
    await asyncio.wait(tasks)
    await world.nothing_left()


async def test_a_finished_waiter_is_cancelled_too_late(world):
    """What was granted is granted: a cancellation after the task has ended changes nothing."""
    lock = world.client().lock("a")
    await lock.acquire()
    task = asyncio.create_task(lock.acquire())
    await world.in_line(1)
    await lock.release()
    assert await task is True
    assert task.cancel() is False
    assert await lock.locked()
    await lock.release()
    await world.nothing_left()


async def test_each_task_has_a_hold_of_its_own(world):
    """Tasks share a handle and never a lease; any task may release."""
    lock, leases = world.client().lock("a"), []

    async def turn() -> None:
        async with lock as lease:
            assert lock.lease is lease
            leases.append(lease.fence)

    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(turn())
    assert leases == sorted(set(leases))
    await lock.acquire()
    await asyncio.create_task(lock.release())
    await world.nothing_left()


async def test_an_rlock_belongs_to_its_task(world):
    """Another task waits, and may not release."""
    lock = world.client().rlock("a")
    async with lock, lock:
        assert await asyncio.create_task(lock.acquire(timeout=0.02)) is False
        with pytest.raises(NotHeld, match="another one owns it"):
            await asyncio.create_task(lock.release())
    await world.nothing_left()


async def test_many_tasks_use_one_connection(world):
    """I10: a hundred at once, one connection."""
    client = world.client()
    client._port().link.silence = 60.0  # a server that stands still for a second gets no second one

    async def turn(number: int) -> None:
        async with client.lock(f"{number % 50}"):
            assert len(world.connections()) == 1

    async with asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(turn(number))


async def test_an_idle_client_has_no_task(world):
    """I10: nothing runs in the loop when nothing is to be done."""
    client = world.client()
    me = asyncio.current_task()
    async with client.lock("a"):
        await world.until(lambda: asyncio.all_tasks() == {me}, "no task while holding")
    await world.until(lambda: asyncio.all_tasks() == {me}, "no task afterwards")
