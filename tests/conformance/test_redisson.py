"""Locks in Redisson's layout, beside a program that does what Redisson's scripts do.

The real library is beside ours in tests/integrations.
"""

import gc
import re

import pytest
import redis

from fencelock import LeaseLost, NotHeld, ServerUnsuitable
from fencelock.compat import redisson
from tests.conformance.world import StraightLock, needs_no_server

pytestmark = [
    pytest.mark.no_quorum,  # Redisson's clients ask one server
]
LONG_MS = 60_000
JAVA = "6a1f0b1e-3a3e-4a55-9d0f-6d0a0a0a0a0a:51"


class Java:
    """A thread of a Java program, as far as the server sees it."""

    def __init__(self, world, name="a"):
        self.server, self.key = world.server, world.key(name)
        tag = "%s" if "{" in self.key else "{%s}"
        self.channel = "redisson_lock__channel:" + tag % self.key
        self.token = "redisson_lock_token:" + tag % self.key

    def lock(self, ttl_ms=LONG_MS):
        if self.hash().keys() <= {JAVA}:
            self.server.command("HINCRBY", self.key, JAVA, 1)
            return self.server.command("PEXPIRE", self.key, ttl_ms) == 1
        return False

    def unlock(self):
        assert self.hash().keys() == {JAVA}
        self.server.command("DEL", self.key)
        self.server.command("PUBLISH", self.channel, "0")

    def waiters(self):
        return self.server.command("PUBSUB", "NUMSUB", self.channel)[1]

    def hash(self):
        told = self.server.command("HGETALL", self.key)
        return dict(zip(told[::2], told[1::2], strict=True))


def made(world, client, kind="Lock", name="a", **options):
    """Return a handle of the face; its name is the key as it is."""
    if world.blocking:
        return StraightLock(getattr(redisson, kind)(client.inner, world.key(name), **options))
    return getattr(redisson, f"Async{kind}")(client, world.key(name), **options)


@pytest.fixture
def heard(world):
    """Listen as a Java waiter does."""
    client = redis.Redis.from_url(world.server.tcp_url)
    ear = client.pubsub(ignore_subscribe_messages=True)
    yield ear
    ear.close()
    client.close()


@pytest.mark.one_server
async def test_it_is_the_lock_that_redisson_knows(world, heard):
    """A hash of one field, with a count; a release deletes it, and says 0 on Redisson's channel."""
    java, lock = Java(world), made(world, world.client())
    heard.subscribe(java.channel)
    heard.get_message(timeout=5)
    async with lock as lease:
        ((field, count),) = java.hash().items()
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[1-9][0-9]*", field)
        assert (count, lease.holder) == ("1", field)
        assert 25_000 < world.pttl("a") <= 30_000
        assert not java.lock()
        async with lock:
            await world.until(lambda: java.hash() == {field: "2"})
        await world.until(lambda: java.hash() == {field: "1"})
        assert await lock.locked()
        assert await lock.owned()
        with pytest.raises(AttributeError, match="FencedLock"):
            _ = lease.fence
    assert java.hash() == {}
    assert heard.get_message(timeout=5)["data"] == b"0"
    assert java.lock()
    assert not await lock.acquire(blocking=False)
    assert not await lock.owned()
    java.unlock()


@pytest.mark.one_server
@pytest.mark.parametrize("name", ["a", "{x}a", "a{b"])
async def test_a_waiter_wakes_by_their_message(world, name):
    """It asks before it listens, after that, and at the message: it does not poll."""
    java, lock = Java(world, name), made(world, world.client(), name=name)

    async def turn():
        async with lock as lease:
            assert java.hash().keys() == {lease.holder}

    await turn()  # from here on the server knows the scripts

    assert java.lock()
    with world.commands() as sent:
        job = world.start(turn())
        await world.until(lambda: java.waiters() == 1)
        java.unlock()
        await job.result()
    assert sent.scripts in {3, 4}  # the message may come before it asked again
    assert (sent["subscribe"], sent["unsubscribe"]) == (1, 1)
    assert java.waiters() == 0


@pytest.mark.one_server
async def test_one_of_a_client_asks_for_all(world):
    """As one of a Java process: a message wakes one waiter of each, and each has its turn."""
    java, clients = Java(world), [world.client(), world.client()]
    assert java.lock()
    inside, order = [], []

    async def turn(client):
        async with made(world, client) as lease:
            inside.append(lease.holder)
            await world.tick()
            assert inside == [lease.holder]
            order.append(inside.pop())

    jobs = [world.start(turn(client)) for client in clients for _ in range(3)]
    await world.until(lambda: java.waiters() == 2)
    java.unlock()
    for job in jobs:
        await job.result()
    assert len(set(order)) == 6
    assert java.waiters() == 0


async def test_a_thread_or_task_enters_again_by_any_handle(world):
    """As Redisson's: the thread is the holder, whichever handle it uses; no other releases."""
    client = world.client()
    one, two = made(world, client), made(world, client)
    async with one as lease:
        async with two as again:
            assert again.holder == lease.holder
        assert await two.acquire(blocking=False)
        assert await world.start(two.acquire(blocking=False)).result() is False
        with pytest.raises(NotHeld):
            await world.start(one.release()).result()
        assert await two.release() == 1
        assert await two.acquire()
    assert await one.owned()
    assert await two.release() == 0
    with pytest.raises(NotHeld):
        await one.release()
    assert not await one.locked()


async def test_a_handle_that_is_gone_ends_nothing_that_another_one_has(world):
    """The lease is renewed as long as any handle of its thread or task can release it."""
    client = world.client()
    one, two = (made(world, client, watchdog_timeout=4.5) for _ in range(2))
    assert await one.acquire()
    assert await two.acquire()
    deadline = two.lease.deadline
    del one
    gc.collect()
    await world.until(lambda: two.lease.deadline > deadline)
    assert [await two.release(), await two.release()] == [1, 0]
    assert not await two.locked()


async def test_waiting_ends_in_time_and_leaves_nothing(world):
    """I9, I13: neither a subscription nor a field, whatever the others do."""
    java, lock = Java(world), made(world, world.client(), timeout=0.05)
    assert java.lock()
    assert not await lock.acquire(timeout=0.05)
    with pytest.raises(TimeoutError):
        async with lock:
            pass
    assert java.waiters() == 0
    assert java.hash() == {JAVA: "1"}
    java.unlock()
    assert await lock.acquire()
    assert await lock.release() == 0


async def test_a_lease_time_is_not_renewed_and_the_watchdog_renews(world):
    """I8: after its end the lease is lost here, and free for Java."""
    java, client = Java(world), world.client()
    short, kept = made(world, client, lease_time=0.3), made(world, client, "Lock", "b")
    watched = made(world, client, "Lock", "b", watchdog_timeout=1.5)
    async with watched as lease:
        assert await short.acquire()
        await world.until(lambda: short.lease.lost)
        assert not lease.lost
        assert await kept.acquire()
        assert await kept.release() == 1
    await world.until(java.lock)
    with pytest.raises(LeaseLost):
        await short.release()
    assert java.hash() == {JAVA: "1"}
    java.unlock()


async def test_force_unlock_takes_it_from_any_holder(world):
    """From Java; from another client, which finds out at a renewal; from this one, at once."""
    java, client = Java(world), world.client()
    mine = made(world, client, watchdog_timeout=1.5)
    theirs = made(world, world.client(), watchdog_timeout=1.5)
    assert not await mine.force_unlock()
    assert java.lock()
    assert await mine.force_unlock()
    async with mine as lease:
        pass
    assert await theirs.acquire()
    assert await mine.force_unlock()
    await world.until(lambda: theirs.lease.lost)
    with pytest.raises(LeaseLost):
        await theirs.release()
    await mine.acquire()
    lease = mine.lease
    assert await mine.force_unlock()
    assert lease.lost
    with pytest.raises(LeaseLost, match="revoked"):
        await mine.release()
    assert java.hash() == {}


async def test_operators_see_it_for_what_it_is_and_take_it(world):
    """``ls`` and ``show`` name the field; the reason of a revocation comes with a renewal."""
    java, client = Java(world), world.client()
    lock = made(world, world.client(), watchdog_timeout=1.5)
    await client.event("e").set()
    assert java.lock()
    status = await client.status("a")
    assert (status.kind, status.field, status.held) == ("redisson", JAVA, True)
    assert [each.field for each in await client.locks()] == [JAVA]
    assert (await client.revoke("a", reason="stuck")).field == JAVA
    assert await client.revoke("a", reason="stuck") is None
    assert await lock.acquire()
    assert (await client.status("a")).field == lock.lease.holder
    assert await client.revoke("a", reason="for Ann")
    await world.until(lambda: lock.lease.lost)
    with pytest.raises(LeaseLost, match="for Ann"):
        await lock.release()
    assert await client.locks() == []
    await client.event("e").delete()


async def test_a_fence_is_redissons_token(world):
    """One count for both languages; here the same for one that enters again."""
    java, lock = Java(world), made(world, world.client(), "FencedLock")
    async with lock as first, lock as again:
        assert again.fence == first.fence
    for _ in range(2):
        world.server.command("INCR", java.token)
    async with lock as later:
        assert later.fence == first.fence + 3
        assert int(world.server.command("GET", java.token)) == later.fence
    assert java.lock()
    assert not await lock.acquire(blocking=False)
    assert int(world.server.command("GET", java.token)) == later.fence
    java.unlock()
    world.server.command("DEL", java.token)


async def test_a_key_of_another_kind_is_no_lock(world):
    """A lock of ours on the same key is a text: each refuses the other's."""
    client = world.client()
    async with client.lock("a"):
        with pytest.raises(ServerUnsuitable):
            await made(world, client).acquire()
    async with made(world, client):
        with pytest.raises(ServerUnsuitable):
            await client.lock("a").acquire()


@needs_no_server
async def test_what_redisson_lacks_is_refused_by_name(world):
    """Also a client that asks several servers, and locks of Redisson's that are not shared."""
    client = world.client()
    for option in ("linger", "cohort", "wait", "owner", "ttl", "renew", "deadlock_after"):
        with pytest.raises(TypeError, match=option):
            made(world, client, **{option: 1})
    with pytest.raises(ValueError, match="lease_time"):
        made(world, client, lease_time=0)
    with pytest.raises(ValueError, match="replicas"):
        made(world, world.client(replicas=1))
    for name in ("FairLock", "AsyncReadWriteLock", "RedLock", "MultiLock", "SpinLock"):
        with pytest.raises(AttributeError, match="is not shared"):
            getattr(redisson, name)
