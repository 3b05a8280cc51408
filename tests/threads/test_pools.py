"""Threads of a pool that wait for a lock: the pool has others for those that release it."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

from tests.waiting import SOON, until

TASKS = (os.cpu_count() or 1) + 4 + 10  # more than asyncio's own pool has threads


def test_more_tasks_than_threads_acquire_and_release_in_threads(client):
    """As found: all threads waited in ``acquire``, and none was left to release."""
    lock = client.lock("x")

    async def turn():
        assert await asyncio.to_thread(lock.acquire)
        await asyncio.to_thread(lock.release)

    async def play():
        async with asyncio.timeout(SOON):
            await asyncio.gather(*(turn() for _ in range(TASKS)))

    asyncio.run(play())
    assert not lock.locked()


def test_a_loop_ends_while_its_threads_wait(client):
    """It waits for each of its threads: no other may come meanwhile."""
    lock = client.lock("x")
    found = []

    def tries():
        found.append(any(lock.acquire(timeout=0.02) for _ in range(20)))

    async def play():
        for _ in range(TASKS):
            _ = asyncio.get_running_loop().run_in_executor(None, tries)

    with client.lock("x"):
        asyncio.run(play())
    assert found == [False] * TASKS


def test_a_pool_that_a_program_made_keeps_its_size(client):
    """One thread may be the whole point of it."""
    names = set()

    def turn(_):
        names.add(threading.current_thread().name)
        with client.lock("x"):
            pass

    with ThreadPoolExecutor(1) as pool:
        with client.lock("x"):
            turns = [pool.submit(turn, each) for each in range(3)]
            until(lambda: names, "one waits, or is about to")
        for each in turns:
            each.result(SOON)
    assert len(names) == 1
