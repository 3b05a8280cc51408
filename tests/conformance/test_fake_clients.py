"""fakeredis: clients without a server or a socket, which are used by their public calls."""

from __future__ import annotations

import asyncio
import gc

import fakeredis
import pytest

import fencelock
from tests.conformance.world import needs_no_server

pytest.importorskip("lupa", reason="lupa, which runs the scripts, has no wheel for this Python")


class Fake:
    """A server that is none, its clients of the world's face, and a look into it."""

    def __init__(self, world, **options):
        self.world = world
        self.server = fakeredis.FakeServer()
        self._make = fakeredis.FakeRedis if world.blocking else fakeredis.FakeAsyncRedis
        self._options = options
        self.look = fakeredis.FakeRedis(server=self.server)

    def client(self, **options):
        return self.world.client(self._make(server=self.server, **self._options), **options)

    async def in_line(self, name, number):
        await self.world.until(
            lambda: self.look.zcard(self.world.keys(name).grant[2]) == number, f"{number} in line"
        )

    def ms_left(self, name):
        return self.look.pttl(f"{self.world.prefix}{name}")


@pytest.fixture(params=[False, True], ids=["bytes", "decoding"])
def fake(world, request):
    return Fake(world, decode_responses=request.param)


@needs_no_server
async def test_taken_waited_for_handed_over_and_released(world, fake):
    holder, waiter = fake.client().lock("a"), fake.client().lock("a")
    assert await holder.acquire()
    fence = holder.lease.fence
    job = world.start(waiter.acquire(timeout=20))
    await fake.in_line("a", 1)
    await holder.release()
    assert await job.result() is True
    assert waiter.lease.fence > fence
    await waiter.release()
    assert fake.ms_left("a") < 0


@needs_no_server
async def test_a_timeout_leaves_nothing(world, fake):
    holder, waiter = fake.client().lock("a"), fake.client().lock("a")
    async with holder:
        assert await waiter.acquire(blocking=False) is False
        assert await waiter.acquire(timeout=0.05) is False
        await fake.in_line("a", 0)


@needs_no_server
async def test_a_lease_is_renewed_and_its_loss_is_told(world, fake):
    lock = fake.client().lock("a", ttl=3)
    await lock.acquire()
    before = lock.lease.deadline
    await world.until(lambda: lock.lease.deadline > before, "a renewal")
    fake.look.delete(f"{world.prefix}a")
    await world.until(lambda: lock.lease.lost, "the loss")
    with pytest.raises(fencelock.LeaseLost):
        await lock.release()


@needs_no_server
async def test_other_primitives(world, fake):
    client = fake.client()
    semaphore, event = client.semaphore("s", 2), client.event("e")
    assert await semaphore.acquire()
    assert await semaphore.acquire()
    assert await semaphore.acquire(timeout=0.02) is False
    job = world.start(event.wait(20))
    await event.set()
    assert await job.result() is True
    async with client.multi(["x", "y"]), client.rwlock("r").write:
        assert await client.lock("x").locked()
    await semaphore.release(2)


@needs_no_server
async def test_a_fake_that_is_not_connected_is_unreachable(world, fake):
    client = fake.client(server_timeout=1)
    async with client.lock("a"):
        pass
    fake.server.connected = False
    with pytest.raises((fencelock.ServerUnreachable, fencelock.OutcomeUnknown)):
        await client.lock("a").acquire()
    fake.server.connected = True
    async with client.lock("a"):
        assert fake.ms_left("a") > 0


@needs_no_server
async def test_the_other_colour_is_refused(world):
    wrong = fakeredis.FakeAsyncRedis if world.blocking else fakeredis.FakeRedis
    with pytest.raises(TypeError, match="needs a"):
        world.client(wrong())


def test_a_program_that_ends_right_behind_its_client():
    """No task is destroyed while it is pending, which would be a warning, and so a failure."""

    async def program():
        async with fencelock.AsyncClient(fakeredis.FakeAsyncRedis()) as client, client.lock("a"):
            pass

    asyncio.run(program(), debug=True)
    gc.collect()
