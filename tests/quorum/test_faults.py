"""Nodes that die, freeze or forget: the lock goes on with a majority, and says so without one."""

import contextlib
import time

import pytest

from fencelock import LeaseLost, QuorumNotReached
from tests.waiting import machine_seconds, stalls

pytestmark = [pytest.mark.quorum, pytest.mark.slow]


def bound():
    """As in quorum/membership.py: what silent nodes may cost, and a busy machine beside it."""
    return 0.5 + machine_seconds()


def holders(world, name="a") -> list:
    """Return who holds on each node that answers."""
    return [node.command("GET", world.key(name)) for node in world.server.up]


async def test_a_dead_minority_is_not_missed(world):
    """Acquired, renewed beyond its ttl, and released, with two of five killed meanwhile."""
    client = world.client()
    lock = client.lock("a", ttl=6)
    async with lock as lease:
        world.server.kill(1, 3)
        end = lease.deadline + 0.5
        await world.until(lambda: lease.deadline > end, "renewed by the majority")
        assert await client.lock("a").locked() is True
        assert await world.client().lock("a").acquire(blocking=False) is False
    assert holders(world) == [None] * 3
    for _ in range(3):
        began = time.monotonic()
        async with lock as again:
            assert again.fence > lease.fence
            lease = again
        assert time.monotonic() - began < bound()


async def test_all_lost_at_once(world):
    """I8: the holder is told at its deadline; who asks is told what became of each node."""
    told = []
    lock = world.client().lock("a", ttl=0.8, on_lost=told.append)
    await lock.acquire()
    lease, end = lock.lease, lock.lease.deadline
    world.server.kill(0, 1, 2, 3, 4)
    await world.until(lambda: told, "it is told")
    assert lease.lost
    assert lease.deadline <= end + 0.8
    with pytest.raises(LeaseLost, match="expired"):
        await lock.release()
    with pytest.raises(QuorumNotReached) as refused:
        await lock.acquire(timeout=3)
    assert len(refused.value.causes) >= 3
    assert all(isinstance(cause, Exception) for cause in refused.value.causes.values())


@pytest.mark.prompt
async def test_a_lost_majority_is_one_error_per_node(world):
    """I12: a try says which nodes failed, and does not say that others hold the lock."""
    lock = world.client().lock("a")
    async with lock:
        pass
    world.server.kill(0, 2, 4)
    with pytest.raises(QuorumNotReached) as refused:
        await lock.acquire(blocking=False)
    dead = {world.server.nodes[number].url for number in (0, 2, 4)}
    assert set(refused.value.causes) <= dead | {"never"}
    assert len(refused.value.causes) == 3
    for node in refused.value.causes:
        assert str(refused.value).count(node) == 1, str(refused.value)
    began = time.monotonic()
    with pytest.raises(QuorumNotReached):
        await lock.acquire(timeout=0.4)
    assert time.monotonic() - began < bound()
    assert holders(world) == [None, None]


@pytest.mark.parametrize("frozen", [(0,), (1, 4)], ids=["one", "two"])
async def test_frozen_nodes_cost_a_bounded_time(world, frozen):
    """Acquire, renew and release, each; and only now and then."""
    lock = world.client().lock("a", ttl=8)
    async with lock:
        pass
    world.server.pause(*frozen)
    try:
        spans = []

        async def renew() -> None:
            await lock.lease.renew()

        for _ in range(5):
            for step in (lock.acquire, renew, lock.release):
                began = time.monotonic()
                await step()
                spans.append(time.monotonic() - began)
        assert max(spans) < bound()
        assert sorted(spans)[len(spans) // 2] < 0.1 + stalls().seconds, (
            "they are asked again and again"
        )
        async with lock as lease:
            end = lease.deadline + 1
            await world.until(lambda: lease.deadline > end, "renewed by the others")
    finally:
        world.server.resume(*frozen)
    await world.until(lambda: holders(world) == [None] * 5, "what they ran late was undone")


@pytest.mark.prompt
@pytest.mark.parametrize("frozen", [(0,), (1,), (4,), (0, 1)], ids=str)
async def test_a_node_that_freezes_with_a_place_in_line_holds_nobody_up(world, frozen):
    """I6, I9, I13: a release passes the others, a timeout holds, and the place there ends."""
    holder, waiter, late = (world.client().lock("a", ttl=8) for _ in range(3))
    await holder.acquire()
    waits = world.start(waiter.acquire(timeout=20))
    await world.in_line("a", 1)
    gives_up = world.start(late.acquire(timeout=1.5))
    await world.in_line("a", 2)
    world.server.pause(*frozen)
    try:
        began = time.monotonic()
        assert await gives_up.result(1.5 + bound()) is False
        await holder.release()
        assert await waits.result(8) is True
        assert time.monotonic() - began < 1.5 + 2 * bound() + 2.0
        assert waiter.lease.remaining() > 0
    finally:
        world.server.resume(*frozen)
    await waiter.release()
    await world.until(lambda: holders(world) == [None] * 5, "what they ran late was undone")
    await world.until(lambda: world.waiting("a") == 0, "no place is left")


@pytest.mark.prompt
async def test_a_frozen_majority_ends_the_lease_and_the_wait(world):
    """I8, I13: nobody believes in a lease that no majority can prove."""
    told = []
    holder, waiter = world.client().lock("a", ttl=4, on_lost=told.append), world.client().lock("a")
    await holder.acquire()
    assert await waiter.acquire(blocking=False) is False
    world.server.pause(0, 1, 2)
    try:
        began = time.monotonic()
        with contextlib.suppress(QuorumNotReached):
            assert await waiter.acquire(timeout=0.3) is False
        assert time.monotonic() - began < bound()
        await world.until(lambda: told, "the holder is told")
    finally:
        world.server.resume(0, 1, 2)
    with pytest.raises(LeaseLost):
        await holder.release()
    assert await waiter.acquire(timeout=8) is True
    await waiter.release()


async def test_a_node_that_lost_its_lease_gets_it_back(world):
    """A lease heals while its majority holds; then another minority may go."""
    lock = world.client().lock("a", ttl=6)
    async with lock as lease:
        world.server.nodes[2].command("DEL", world.key("a"))
        # By an id of its own: what undid the last one may come late.
        healed = f"{lease.holder}~1"
        await world.until(lambda: holders(world)[2] == healed, "healed")
        known = lease.deadline + 0.3
        await world.until(lambda: lease.deadline > known, "and the holder knows it")
        for number in (0, 1):
            world.server.nodes[number].command("SET", world.key("a"), "somebody", "PX", 60000)
        later = lease.deadline + 0.3
        await world.until(lambda: lease.deadline > later, "renewed by the three that are left")
        lease.check()
        assert await lock.owned()
    assert all(holder in {None, "somebody"} for holder in holders(world))


async def test_a_majority_that_forgot_is_told(world):
    """I8: at the next renewal, long before the ttl is over.

    What is left on other nodes stays until then: the body of a ``with`` may not have looked yet.
    """
    told = []
    lock = world.client().lock("a", ttl=6, on_lost=told.append)
    await lock.acquire()
    lease = lock.lease
    for number in (0, 1, 2):
        world.server.nodes[number].command("SET", world.key("a"), "somebody", "PX", 60000)
    await world.until(lambda: told, "told at a renewal", 5)
    with pytest.raises(LeaseLost, match="taken"):
        lease.check()
    await world.until(lambda: lease.holder not in holders(world), "what was left of it has ended")
