"""Fencing tokens: I3. They only grow, whatever happens to the keys."""

from itertools import pairwise

import pytest

from fencelock import LeaseLost
from fencelock.scripts.constants import FENCE_ROOM


async def fence_of(lock) -> int:
    async with lock as lease:
        return lease.fence


def growing(fences: list[int]) -> bool:
    return all(one < two for one, two in pairwise(fences))


@pytest.mark.no_quorum  # explicit owners are one server's
async def test_every_grant_has_a_greater_fence(world):
    """I3: from grant to grant, over handles, clients, and ways of being granted."""
    one, two = world.client(), world.client()
    fences = []
    for client in (one, two, one, one, two):
        fences.append(await fence_of(client.lock("a")))
        fences.append(await fence_of(client.rlock("a")))
        fences.append(await fence_of(client.rlock("a", owner="o")))
    holder = one.lock("a")
    await holder.acquire()
    fences.append(holder.lease.fence)
    job = world.start(fence_of(two.lock("a")))
    await world.in_line("a", 1)
    await holder.release()
    fences.append(await job.result())
    assert growing(fences), fences
    assert all(fence < 2**53 for fence in fences), "a double cannot carry it exactly"


async def test_an_expired_holder_has_the_smaller_fence(world):
    """I3: that is what fences are for."""
    late = world.client().lock("a", ttl=0.3, renew=False)
    await late.acquire()
    lease = late.lease
    following = world.client().lock("a")
    await following.acquire(timeout=5)
    assert following.lease.fence > lease.fence
    await following.release()
    with pytest.raises(LeaseLost):
        await late.release()


async def test_the_last_fence_is_remembered_for_ten_minutes(world):
    """I3: beyond the lease, so that a server's clock that steps back finds it."""
    await fence_of(world.client().lock("a", ttl=5))
    assert 590_000 < world.server.command("PTTL", world.keys("a").grant[1]) <= 605_000


async def test_fences_grow_when_the_record_is_gone(world):
    """I3: the record of the last grant ends after ten minutes without one."""
    lock = world.client().lock("a")
    fences = [await fence_of(lock)]
    world.server.command("DEL", world.keys("a").grant[1])
    fences.append(await fence_of(lock))
    world.server.flushall()
    fences.append(await fence_of(lock))
    assert growing(fences), fences


@pytest.mark.one_server
@pytest.mark.slow
async def test_fences_grow_over_a_restart_that_forgets(world):
    """I3: without persistence too."""
    server = world.alone()
    lock = world.client().lock("a")
    fences = [await fence_of(lock)]
    server.restart()
    assert server.command("DBSIZE") == 0
    fences.append(await fence_of(lock))
    assert growing(fences), fences


async def test_fences_grow_when_the_clock_was_set_back(world):
    """I3: above all that the last holder's client may have used, whatever the clock says."""
    lock = world.client().lock("a")
    fence = await fence_of(lock)
    record = world.server.command("GET", world.keys("a").grant[1])
    ahead = fence + 3_600_000_000
    planted = record.replace(str(fence), str(ahead), 1)
    world.server.command("SET", world.keys("a").grant[1], planted, "PX", 60_000)
    fences = [ahead, await fence_of(lock), await fence_of(lock)]
    assert fences == [ahead, ahead + FENCE_ROOM, ahead + 2 * FENCE_ROOM]


@pytest.mark.no_quorum  # explicit owners are one server's
async def test_reentry_keeps_the_fence(world):
    """I3: one tenure, one fence; also when the lock was taken by an owner id."""
    for lock in (world.client().rlock("a"), world.client().rlock("a", owner="o")):
        async with lock as one, lock as two:
            assert one.fence == two.fence
