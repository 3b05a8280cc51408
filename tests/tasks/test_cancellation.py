"""What is cancelled leaves nothing, and loses nothing (I9); at each await: tests/strikes."""

import asyncio
import itertools

import pytest

import fencelock
from fencelock import Cohort, LeaseLost, NotHeld
from fencelock._runtime.clock import now
from tests.waiting import SOON


async def sound(client: fencelock.AsyncClient) -> None:
    """See that the answers on the client's connection still belong to their questions."""
    locks = [client.lock(f"sound {number}") for number in range(3)]
    await asyncio.gather(*(lock.acquire() for lock in locks))
    assert await asyncio.gather(*(lock.owned() for lock in locks)) == [True] * 3
    assert await client.lock("nobody").locked() is False
    await asyncio.gather(*(lock.release() for lock in locks))


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
    server = world.alone()
    client = world.client()
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
                await world.nothing_left(f"g{number}")
            else:
                assert task.result().holder.label == f"{number}"
    for lock in held:
        await lock.release()


async def test_cancelled_while_the_server_is_silent(world):
    """The undo goes out behind the request, and is there when the server goes on."""
    server = world.alone()
    client = world.client()
    async with client.lock("b"):
        pass
    server.pause()
    task = asyncio.create_task(client.lock("a", ttl=20).acquire())
    await world.tick()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    server.resume()
    await world.nothing_left()
    await world.until(lambda: "evalsha" in server.commandstats())


@pytest.mark.slow
async def test_a_release_cancelled_while_it_asks_for_a_patient_waiter(world):
    """As found: one that had waited for longer than server_timeout raised ServerUnreachable."""
    server = world.alone()
    options = {"server_timeout": 2.0, "cohort": Cohort(turns=1, seconds=60)}
    client = world.client(**options)
    holder, patient = client.lock("a"), client.lock("a")
    await holder.acquire()
    waits = asyncio.create_task(patient.acquire())
    since = now()
    await world.until(lambda: now() > since + 2.0)
    server.pause()
    release = asyncio.create_task(holder.release())
    await world.tick()
    release.cancel()
    with pytest.raises(asyncio.CancelledError):
        await release
    server.resume()
    assert await waits
    await patient.release()


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


async def test_a_resignation_beside_a_hand_over_to_nobody_ends_the_leadership(world):
    """As found: the hand-over resumed the lease, which was then proved beside the next leader's."""
    ann = world.client().election("a", candidate="ann", ttl=20)
    assert await ann.campaign()
    lease = ann.lease
    handing = asyncio.create_task(ann.hand_over("nobody"))
    await asyncio.sleep(0)  # its request is under way
    await ann.resign()
    with pytest.raises((NotHeld, LookupError)):
        await handing
    with pytest.raises(NotHeld, match="was released"):
        lease.check()
    await world.nothing_left()
