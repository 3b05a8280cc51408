"""Answers that get lost, callers that give up, and many who wait: nothing is left on any node."""

import asyncio
import contextlib
import time

import pytest

from tests.faults.proxy import Proxy
from tests.waiting import machine_seconds

pytestmark = pytest.mark.quorum


async def all_free(world) -> None:
    """Wait until no node has a holder, and nobody is in line."""
    key = world.key("a")
    await world.until(
        lambda: not world.server.command("KEYS", key) and not world.waiting("a"), "nothing is left"
    )


@contextlib.contextmanager
def behind_proxies(world, *numbers: int):
    """Lend a client to whom these nodes are reached through proxies, and the proxies."""
    with contextlib.ExitStack() as stack:
        proxies = {n: stack.enter_context(Proxy(world.server.nodes[n])) for n in numbers}
        urls = [(proxies.get(n) or node).url for n, node in enumerate(world.server.nodes)]
        yield world.client(urls), list(proxies.values())


@pytest.mark.nightly
@pytest.mark.parametrize("then", ["rst", "blackhole"])
@pytest.mark.parametrize("what", ["acquire", "quorum_vote", "release", "membership", "hello"])
async def test_lost_replies_of_a_minority_cost_a_moment(world, what, then):
    """I4: what ran without our knowing is undone, and nobody waits for its ttl."""
    with behind_proxies(world, 0, 3) as (client, proxies):
        lock = client.lock("a", ttl=60)
        if what not in {"membership", "hello"}:
            async with lock:
                pass
        for proxy in proxies:
            proxy.on(what, "drop_reply", then=then, times=2)
        for _ in range(3):
            began = time.monotonic()
            async with lock:
                pass
            assert time.monotonic() - began < 4 + machine_seconds()
        await all_free(world)


async def test_giving_up_at_any_await_leaves_nothing(world):
    """I9: cancelled after 0, 1, 2 … steps of the loop, whatever it was at."""
    if world.blocking:
        return  # a thread cannot be cancelled
    lock = world.client().lock("a", ttl=60)
    async with lock:
        pass
    for steps in range(80):
        task = asyncio.ensure_future(lock.acquire())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            if await task:
                await lock.release()
        if steps % 8 == 0:
            await all_free(world)
    await all_free(world)


async def test_a_timeout_in_line_leaves_nothing(world):
    """I9, I13: neither a place nor a grant, on any node."""
    holder, waiter = world.client().lock("a"), world.client().lock("a")
    async with holder:
        began = time.monotonic()
        assert await waiter.acquire(timeout=0.2) is False
        assert time.monotonic() - began < 0.2 + 0.1 + machine_seconds()
        assert world.waiting("a") == 0
    await all_free(world)


@pytest.mark.slow
async def test_twenty_wait_without_a_herd(world):
    """I5: two commands per node and turn, however many wait; nobody votes in vain."""
    clients = [world.client() for _ in range(20)]
    holder = world.client().lock("a", ttl=60)
    for client in (*clients, *clients):  # every client is at home before anything is counted
        async with client.lock("other"):
            pass
    turns: list[int] = []

    async def turn(client) -> None:
        async with client.lock("a", ttl=60, timeout=30) as lease:
            turns.append(lease.fence)

    await holder.acquire()
    jobs = [world.start(turn(client)) for client in clients]
    await world.in_line("a", 20)
    with world.commands() as sent:
        await holder.release()
        for job in jobs:
            await job.result(20)
    assert turns == sorted(set(turns))
    assert sent.scripts <= 20 * 2 * 5 + 40, sent.counts
