"""A short use of every primitive, by two clients of a face: for tests of what a user may do."""

from __future__ import annotations

import contextlib
from typing import Any

from fencelock import LeaseLost
from tests.conformance.world import World


async def there(world: World, job: Any, name: str, where: str) -> None:
    """Wait until somebody stands there, or was refused."""
    key = f"{world.prefix}{{{world.prefix}{name}}}~{where}"
    await world.until(lambda: job.done or world.server.command("ZCARD", key), where)
    if job.done:
        await job.result()


async def locks(world: World, client: Any, other: Any) -> None:
    holder, waiter = (each.lock("a", ttl=9) for each in (client, other))
    await holder.acquire()
    job = world.start(waiter.acquire())
    await there(world, job, "a", "queue")
    await holder.lease.renew()
    await holder.release()
    assert await job.result() is True
    assert await waiter.owned()
    assert await holder.acquire(timeout=0.02) is False
    await waiter.release()
    assert await holder.locked() is False
    one, two = (each.rlock("r", owner="job") for each in (client, other))
    assert await one.acquire()
    assert await two.acquire()
    assert await two.release() == 1
    assert await client.rlock("r", owner="job").release() == 0
    with contextlib.suppress(LeaseLost):
        await one.release()
    async with client.multi(["m1", "m2"]) as lease:
        await lease.renew()


async def shares(world: World, client: Any, other: Any) -> None:
    async with client.semaphore("s", 2) as lease:
        assert await client.semaphore("s", 2).acquire(permits=2, timeout=0.02) is False
        await client.semaphore("s", 2).set_limit(3)
        assert await client.semaphore("s", 3).available() == 2
        await lease.renew()
    sides = client.rwlock("w")
    async with sides.write, sides.read as lease:
        await lease.renew()
    async with client.rwlock("w").read:
        async with sides.read:
            job = world.start(taken(client.rwlock("w").write))
            await there(world, job, "w", "queue")
        assert await sides.read.locked()
    await job.result()


async def taken(side: Any) -> None:
    async with side:
        pass


async def signals(world: World, client: Any, other: Any) -> None:
    event, latch = client.event("e"), client.latch("l", 2)
    job = world.start(other.event("e").wait())
    await there(world, job, "e", "watch")
    await event.set()
    assert await job.result() is True
    assert await event.is_set()
    await event.clear()
    assert await latch.count_down() == 1
    assert await latch.wait(0.01) is False
    await client.barrier("b", 1).wait()


async def once(world: World, client: Any, other: Any) -> None:
    async def draw() -> int:
        return 7

    made = client.once("o", within=60)
    assert (await made.run(draw)).ran
    assert not (await other.once("o", within=60, wait=True).run(draw)).ran
    assert await made.forget()


async def elections(world: World, client: Any, other: Any) -> None:
    ann, bob = client.election("v", candidate="ann"), other.election("v", candidate="bob")
    assert await ann.campaign()
    job = world.start(bob.campaign())
    await there(world, job, "v", "queue")
    await ann.hand_over("bob")
    assert await job.result()
    assert (await ann.leader()).candidate == "bob"
    assert [each.candidate async for each in bob.changes(timeout=0.3)] == ["bob"]
    await bob.resign()


EVERYTHING = (locks, shares, signals, once, elections)
