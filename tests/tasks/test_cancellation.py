"""Cancellation at any await leaves nothing, and loses nothing (I9)."""

import asyncio
import itertools
import random

import pytest

import fencelock
from fencelock import Cohort, LeaseLost
from fencelock._runtime.clock import now
from tests.tasks.world import SOON, World, cut


async def sound(client: fencelock.AsyncClient) -> None:
    """See that the answers on the client's connection still belong to their questions."""
    locks = [client.lock(f"sound {number}") for number in range(3)]
    await asyncio.gather(*(lock.acquire() for lock in locks))
    assert await asyncio.gather(*(lock.owned() for lock in locks)) == [True] * 3
    assert await client.lock("nobody").locked() is False
    await asyncio.gather(*(lock.release() for lock in locks))


async def test_the_first_acquire_of_a_client_cancelled(world):
    """60 times, while it dials, greets and subscribes: the next acquire connects as if new."""
    chance = random.Random(13)
    for _ in range(60):
        async with fencelock.AsyncClient(world.server.url, key_prefix=world.prefix) as client:
            lock = client.lock("a", ttl=20)
            _, granted = await cut(lock.acquire(), chance.randint(1, 3), chance.uniform(0, 0.003))
            if granted:
                await lock.release()
            await world.nothing_left()
            async with client.lock("a", timeout=8):
                pass


async def test_the_task_that_connects_cancelled(world):
    """A program cancels all tasks but its own: who waits for the connection gets another one."""
    client = world.client()
    locks = [client.lock(name, ttl=20) for name in "ab"]
    asking = [asyncio.create_task(lock.acquire()) for lock in locks]
    await asyncio.sleep(0)
    dials = [each for each in asyncio.all_tasks() if each.get_name() == "fencelock-dial"]
    assert dials
    for each in dials:
        each.cancel()
    assert await asyncio.gather(*asking) == [True, True]
    for lock in locks:
        await lock.release()


async def test_renew_cancelled(world):
    """The lease stays what it was, or is longer; it is never shorter or forgotten."""
    client = world.client()
    async with client.lock("a", ttl=5) as lease:
        for nth in (1, 1, 2):
            end = lease.deadline
            await cut(lease.renew(), nth)
            assert lease.deadline >= end
        await lease.renew()
        lease.check()
    await world.nothing_left()


async def test_a_body_cancelled_twice_releases(world):
    """The second cancellation strikes the release: it is carried out in the background."""
    lock, inside = world.client().lock("a"), asyncio.Event()

    async def hold() -> None:
        async with lock:
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await inside.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await world.nothing_left()


async def test_gathered_cancellations_do_not_mix_up_answers(world):
    """Four calls on one connection, any of them cancelled: each other one has its own answer.

    All answers come after the cancellations, because the server stands still until then.
    """
    lonely = World(world.loop, type(world.server)())
    with lonely.server as server:
        client = world.client(server.url, key_prefix=lonely.prefix)
        held = [client.lock(f"held {number}", label=f"{number}") for number in range(4)]
        for lock in held:
            await lock.acquire()
        for cancelled in itertools.product([True, False], repeat=4):
            await sound(client)
            calls = [
                client.lock(f"g{number}", ttl=20).acquire() if struck else client.status(lock.name)
                for number, (lock, struck) in enumerate(zip(held, cancelled, strict=True))
            ]
            server.pause()
            tasks = [asyncio.create_task(call) for call in calls]
            await world.tick()
            for task, struck in zip(tasks, cancelled, strict=True):
                if struck:
                    task.cancel()
            server.resume()
            await asyncio.wait(tasks, timeout=SOON)
            for number, task in enumerate(tasks):
                if cancelled[number]:
                    assert task.cancelled()
                    await lonely.nothing_left(f"g{number}")
                else:
                    assert task.result().holder.label == f"{number}"
        for lock in held:
            await lock.release()
        await client.aclose()


async def test_cancelled_while_the_server_is_silent(world):
    """The undo goes out behind the request, and is there when the server goes on."""
    lonely = World(world.loop, type(world.server)())
    with lonely.server as server:
        client = world.client(server.url, key_prefix=lonely.prefix)
        async with client.lock("b"):
            pass
        server.pause()
        task = asyncio.create_task(client.lock("a", ttl=20).acquire())
        await world.tick()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        server.resume()
        await lonely.nothing_left()
        await lonely.until(lambda: "evalsha" in server.commandstats())
        await client.aclose()


@pytest.mark.slow
async def test_a_release_cancelled_while_it_asks_for_a_patient_waiter(world):
    """As found: one that had waited for longer than server_timeout raised ServerUnreachable."""
    lonely = World(world.loop, type(world.server)())
    with lonely.server as server:
        options = {"server_timeout": 2.0, "cohort": Cohort(turns=1, seconds=60)}
        client = world.client(server.url, key_prefix=lonely.prefix, **options)
        holder, patient = client.lock("a"), client.lock("a")
        await holder.acquire()
        waits = asyncio.create_task(patient.acquire())
        since = now()
        await lonely.until(lambda: now() > since + 2.0)
        server.pause()
        release = asyncio.create_task(holder.release())
        await world.tick()
        release.cancel()
        with pytest.raises(asyncio.CancelledError):
            await release
        server.resume()
        assert await waits
        await patient.release()
        await client.aclose()


async def test_a_late_cancellation_of_a_lost_body(world):
    """A body that is cancelled after its lease was lost: the cancellation goes on."""
    lock = world.client().lock("a", ttl=0.3, renew=False)
    inside = asyncio.Event()

    async def hold() -> None:
        async with lock as lease:
            await world.until(lambda: lease.lost)
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await inside.wait()
    task.cancel()
    with pytest.raises((asyncio.CancelledError, LeaseLost)) as raised:
        await task
    assert raised.type is asyncio.CancelledError


async def test_a_lease_whose_renewal_was_cancelled_is_not_kept(world):
    """As found: nobody used it, and on the server it lasted as long as that renewal asked for.

    A lease that is kept has so little left that a client which dies stops nobody for long (I7).
    """
    client = world.client()
    lock = client.lock("a", ttl=30, linger=0.4)
    async with lock:
        pass
    while world.holder("a") is None:  # at first the client does not hear recalls yet
        async with lock:
            pass
    await lock.acquire()
    renewing, key = asyncio.ensure_future(lock.lease.renew(600)), f"{world.prefix}a"
    while world.server.command("PTTL", key) <= 60_000:
        await asyncio.sleep(0)
        world.server.command("PING")  # the loop stands still, and the server runs what it was sent
    assert renewing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await renewing
    await lock.release()
    await sound(client)
    assert world.holder("a") is None
