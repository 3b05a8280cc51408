"""Cancellation at any await of semaphores and reader/writer locks leaves nothing (I9)."""

import asyncio
import random

import pytest

from tests.tasks.test_cancellation import FORMS, Tally, moment, sound
from tests.tasks.world import cut

ROUNDS = 100


def permits(client):
    """Take two of three permits."""
    semaphore = client.semaphore("a", 3, ttl=20)
    return semaphore, {"permits": 2}


def read(client):
    return client.rwlock("a", read_ttl=20).read, {}


def write(client):
    return client.rwlock("a", write_ttl=20).write, {}


KINDS = pytest.mark.parametrize("kind", [permits, read, write], ids=lambda each: each.__name__)


def size(options):
    return (options["permits"],) if "permits" in options else ()


async def nothing_left(world):
    """Wait until no key but the record is there."""
    await world.until(
        lambda: not world.server.command("EXISTS", f"{world.prefix}a") and not world.waiting(),
        "nothing is left",
    )


@KINDS
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_acquire_cancelled_at_any_await(world, kind, form):
    """100 times, alone: no lease that nobody owns, no place in line, a sound connection."""
    client, chance, tally = world.client(), random.Random(21), Tally(ROUNDS)
    for _ in tally:
        handle, options = kind(client)
        cancelled, _ = await cut(enter_and_leave(handle, form | options), *moment(chance))
        tally.struck += cancelled
        await nothing_left(world)
    await sound(client)


async def enter_and_leave(handle, options):
    """Acquire and release in one task; cancelled while it releases, that is carried out."""
    if await handle.acquire(**options):
        await handle.release(*size(options))


@KINDS
async def test_cancelled_while_it_changes_hands(world, kind):
    """100 times, in line between others: they are granted all the same."""
    client, other = world.client(), world.client()
    chance, tally = random.Random(22), Tally(ROUNDS)
    holder, follower = other.semaphore("a", 3, ttl=20), other.semaphore("a", 3, ttl=20)
    if kind is not permits:
        lock = other.rwlock("a", read_ttl=20, write_ttl=20)
        holder, follower = lock.write, lock.write

    async def follow() -> None:
        async with follower:
            await asyncio.sleep(0)

    async def hold(leaving) -> None:
        await holder.acquire(**({"permits": 3} if kind is permits else {}))
        entered.set()
        await leaving.wait()
        await holder.release(*((3,) if kind is permits else ()))

    async def strike() -> bool:
        cancelled, _ = await cut(enter_and_leave(*kind(client)), *moment(chance))
        return cancelled

    for _ in tally:
        entered, leaving = asyncio.Event(), asyncio.Event()
        holding = asyncio.create_task(hold(leaving))
        await entered.wait()
        both = [asyncio.create_task(strike()), asyncio.create_task(follow())]
        for _ in range(chance.randint(0, 8)):
            await asyncio.sleep(0)
        leaving.set()
        cancelled, *_ = await asyncio.wait_for(asyncio.gather(*both, holding), 8)
        tally.struck += cancelled
        await nothing_left(world)
    await sound(client)


async def test_a_release_of_several_cancelled_at_any_await(world):
    """100 times: all that was asked for is given back, in the background, and no more."""
    client, chance, tally = world.client(), random.Random(23), Tally(ROUNDS)
    for turn in tally:
        semaphore = client.semaphore("a", 5, ttl=20)
        await semaphore.acquire(permits=2)
        await semaphore.acquire(permits=3)
        count = 4 if turn % 2 else 5
        nth = 1 + turn // 2 % 2
        cancelled, _ = await cut(semaphore.release(count), nth, chance.choice([0, 0, 0.0001]))
        tally.struck += cancelled
        if count == 4:
            for _ in range(1000):
                if await semaphore.available() == 4:
                    break
            assert await semaphore.available() == 4
            await semaphore.release()
        await nothing_left(world)
        del semaphore
    await sound(client)
