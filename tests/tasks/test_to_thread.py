"""What runs in a thread for a task that is cancelled."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import fencelock
from tests.waiting import SOON


class Work:
    """A function that begins, waits until the test lets it go on, and says when it has ended."""

    def __init__(self):
        self.began, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, result=None):
        self.began.set()
        self.go.wait(SOON)
        self.ended.set()
        return result


def test_a_cancelled_body_holds_its_lock_until_its_thread_has_ended(world):
    work, went_on = Work(), []

    async def body(lock):
        async with lock:
            await fencelock.to_thread(work)
            went_on.append(True)

    async def play():
        lock = world.client().lock("a")
        task = asyncio.create_task(body(lock))
        await asyncio.to_thread(work.began.wait, SOON)
        for _ in range(2):  # whoever cancels it may be impatient
            task.cancel()
            await world.tick()
        assert world.holder()
        work.go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert work.ended.is_set()
        await world.nothing_left()

    world.run(play())
    assert not went_on


def test_it_returns_and_raises_what_the_function_does(world):
    async def play():
        assert await fencelock.to_thread(int, "ff", base=16) == 255
        with pytest.raises(ZeroDivisionError):
            await fencelock.to_thread(divmod, 1, 0)
        with pytest.raises(IndexError):
            await fencelock.to_thread([].pop)

    world.run(play())


def test_what_has_not_begun_never_begins(world):
    first, second = Work(), Work()

    async def play():
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        working = asyncio.create_task(fencelock.to_thread(first))
        await world.until(first.began.is_set)
        waiting = asyncio.create_task(fencelock.to_thread(second))
        await world.tick()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        first.go.set()
        await working

    world.run(play())
    assert not second.began.is_set()
