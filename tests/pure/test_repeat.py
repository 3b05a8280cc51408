"""What waits for time: what runs every few seconds beside an operation, and a port's sleep."""

import asyncio
import threading
from itertools import pairwise

import pytest

from fencelock._io.port_asyncio import AioPort
from fencelock._io.threads import RepeatingThread, run_blocking
from fencelock._runtime.clock import now

PAUSE = 0.02


def test_a_thread_runs_the_flow_after_each_pause_until_the_block_ends():
    runs, thrice = [now()], threading.Event()

    async def flow():
        runs.append(now())
        if len(runs) > 3:
            thrice.set()

    async def block():
        async with RepeatingThread(flow, PAUSE):
            assert thrice.wait(8)

    run_blocking(block())
    assert_paused(runs)


def test_a_task_runs_the_flow_after_each_pause_until_the_block_ends():
    runs, tasks = [now()], []

    async def block():
        thrice = asyncio.Event()

        async def flow():
            runs.append(now())
            if len(runs) > 3:
                thrice.set()

        port = object.__new__(AioPort)
        port.loop, port._tasks = asyncio.get_running_loop(), set()
        async with port.repeating(flow, PAUSE):
            tasks.extend(port._tasks)
            await asyncio.wait_for(thrice.wait(), 8)
        await asyncio.wait(tasks)

    asyncio.run(block())
    assert tasks[0].cancelled()
    assert_paused(runs)


def assert_paused(runs):
    pauses = [later - earlier for earlier, later in pairwise(runs)]
    assert len(pauses) >= 3
    assert all(pause >= PAUSE * 0.9 for pause in pauses)


@pytest.mark.parametrize("pause", [PAUSE, 0.0, -1.0])
def test_a_task_sleeps_until_the_instant_and_lets_others_run(pause):
    async def sleeps():
        until, turns = now() + pause, []
        asyncio.get_running_loop().call_soon(turns.append, None)
        await object.__new__(AioPort).sleep(until)
        return until, len(turns)  # what runs later does not count

    until, turns = asyncio.run(sleeps())
    assert now() >= until
    assert turns == 1, "others ran, also where the instant has passed"
