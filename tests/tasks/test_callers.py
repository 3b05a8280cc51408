"""A hold is of a task that can release it: of whoever waits in ``wait_for``, or of any if it ended.

Python 3.11's ``asyncio.wait_for`` runs a coroutine in a task of its own, which ends with it, and so
do ``create_task`` and ``gather`` in every Python.
"""

import asyncio
import inspect

import pytest

import fencelock
from fencelock import NotHeld
from tests.kinds import MADE

BY_TASK = ("rlock", "read", "write")  # another task can release none
every = pytest.mark.parametrize("kind", ["lock", *BY_TASK, "semaphore", "multi"])
OPTIONS = {"lock": {"strict": True}, "write": {"reentrant": True}}
AWAITED = {
    "wait_for": lambda call: asyncio.wait_for(call, 5),
    "create_task": asyncio.create_task,
    "gather": asyncio.gather,
}
awaited = pytest.mark.parametrize("how", AWAITED.values(), ids=list(AWAITED))


def made(client, kind):
    return MADE[kind](client, **OPTIONS.get(kind, {}))


@every
@awaited
async def test_what_was_acquired_is_released(world, kind, how):
    """I9: also when the acquire ran in a task of its own; nothing is left."""
    handle = made(world.client(), kind)
    assert await how(handle.acquire()) in (True, [True])
    lease = handle.lease
    assert lease is not None
    await handle.release()
    assert handle.lease is None
    assert await handle.acquire(timeout=1), "a second time"
    await handle.release()
    await world.nothing_left()


@every
async def test_wait_for_changes_nothing(world, kind):
    """Its task is no other one: what waits in it holds, enters again, and releases."""
    handle = made(world.client(), kind)
    for _ in range(2):
        assert await asyncio.wait_for(asyncio.wait_for(handle.acquire(timeout=2), 5), 5) is True
        lease = handle.lease
        if kind in BY_TASK:
            assert await asyncio.wait_for(handle.acquire(timeout=2), 5) is True
            assert await asyncio.wait_for(handle.release(), 5) == 1
        assert handle.lease is lease
        await asyncio.wait_for(handle.release(), 5)
    await world.nothing_left()


@every
async def test_another_task_is_another_caller(world, kind):
    """While it lives, what it holds is its own."""
    handle, entered, leave = made(world.client(), kind), asyncio.Event(), asyncio.Event()

    async def hold():
        await asyncio.wait_for(handle.acquire(), 5)
        entered.set()
        await leave.wait()
        if kind in BY_TASK:
            await asyncio.wait_for(handle.release(), 5)

    holding = asyncio.create_task(hold())
    await entered.wait()
    if kind in BY_TASK:
        with pytest.raises(NotHeld):
            await handle.release()
    else:
        await handle.release()
    leave.set()
    await holding
    await world.nothing_left()


@every
async def test_a_cancelled_wait_for_leaves_nothing(world, kind):
    """I9: cancelled at any turn of the loop, the lock is free or its caller has it."""
    client = world.client()
    for turns in range(1, 80, 3):
        handle = made(client, kind)
        call = asyncio.ensure_future(asyncio.wait_for(handle.acquire(), 5))
        for _ in range(turns):
            await asyncio.sleep(0)
        call.cancel()
        (result,) = await asyncio.gather(call, return_exceptions=True)
        if result is True:
            await handle.release()
        assert isinstance(result, asyncio.CancelledError) or result is True
        await world.nothing_left()


async def test_calls_look_like_coroutine_functions(world):
    """Mocks, and frameworks that await what they are given, ask."""
    handle = world.client().lock("a")
    assert inspect.iscoroutinefunction(handle.acquire)
    assert inspect.iscoroutinefunction(fencelock.AsyncLock.release)
    assert inspect.iscoroutinefunction(inspect.unwrap(handle.acquire))
    with pytest.raises(TypeError, match="positional"):
        handle.acquire(True, 1, 2)
    with pytest.raises(NotHeld):
        await handle.release()


def test_a_call_from_outside_of_a_loop(server):
    """As ``asyncio.run(lock.acquire())`` has it: of the task that runs it."""
    client = fencelock.AsyncClient(server.url)
    handle = client.lock("outside")
    with asyncio.Runner() as runner:
        assert runner.run(handle.acquire()) is True
        runner.run(handle.release())
        runner.run(client.aclose())


async def by_timeout(call):
    async with asyncio.timeout(60):
        await call


async def by_wait_for(call):
    await asyncio.wait_for(call, 60)


@pytest.mark.parametrize("bounded", [by_timeout, by_wait_for], ids=["timeout", "wait_for"])
async def test_a_timeout_of_asyncio_is_unknown_to_a_wait_for_itself(world, bounded):
    """It would never be granted, and is refused at once, as without that timeout."""
    own = world.client().lock("a")
    async with own:
        with pytest.raises(fencelock.Deadlock):
            await bounded(own.acquire())
        assert not await own.acquire(timeout=0.02), "its own timeout counts"
