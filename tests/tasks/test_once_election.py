"""Cancellation at any await of what is made of locks: nothing is left, and nothing is lost (I9)."""

import asyncio
import random

import pytest

from fencelock import LeaseLost, NotHeld
from tests.tasks.test_cancellation import Tally, moment
from tests.tasks.world import cut

ROUNDS = 100
NAMES = ["b", "a"]


async def nothing_left(world):
    for name in NAMES:
        await world.nothing_left(name)


@pytest.mark.parametrize("options", [{}, {"blocking": False}, {"timeout": 0.01}], ids=str)
async def test_a_multi_cancelled_at_any_await(world, options):
    client, chance, tally = world.client(), random.Random(21), Tally(ROUNDS)
    for _ in tally:
        multi = client.multi(NAMES, ttl=20)
        cancelled, granted = await cut(multi.acquire(**options), *moment(chance))
        tally.struck += cancelled
        if granted:
            await multi.release()
        await nothing_left(world)


async def test_a_multi_cancelled_while_it_waits_for_the_second(world):
    client, other = world.client(), world.client()
    chance, tally = random.Random(22), Tally(ROUNDS)
    holder = other.lock("b", ttl=20)
    for _ in tally:
        await holder.acquire()
        multi = client.multi(NAMES, ttl=20)
        task = asyncio.create_task(cut(multi.acquire(), chance.randint(1, 6)))
        for _ in range(chance.randint(0, 12)):
            await asyncio.sleep(0)
        await holder.release()
        cancelled, granted = await asyncio.wait_for(task, 8)
        tally.struck += cancelled
        if granted:
            await multi.release()
        await nothing_left(world)


async def test_a_multi_whose_release_is_cancelled_is_released(world):
    client, chance, tally = world.client(), random.Random(23), Tally(ROUNDS)
    for _ in tally:
        multi = client.multi(NAMES, ttl=20)
        await multi.acquire()
        cancelled, _ = await cut(multi.release(), *moment(chance))
        tally.struck += cancelled
        await nothing_left(world)
        with pytest.raises(NotHeld):
            await multi.release()


async def test_a_run_cancelled_at_any_await_is_done_or_free(world):
    client, chance, tally = world.client(), random.Random(24), Tally(ROUNDS)
    for turn in tally:
        ran = []

        async def draw(ran=ran):
            await asyncio.sleep(0)
            ran.append(True)

        once = client.once(f"draw:{turn}", within=60)
        cancelled, _ = await cut(once.run(draw), *moment(chance))
        tally.struck += cancelled
        await world.nothing_left(f"draw:{turn}")
        later = await once.run(draw)
        assert len(ran) == (1 if not later.ran else 1 + len(ran[1:]))
        if not cancelled:
            assert (later.ran, len(ran)) == (False, 1)


async def test_a_campaign_cancelled_at_any_await_leaves_nothing(world):
    client, chance, tally = world.client(), random.Random(25), Tally(ROUNDS)
    for _ in tally:
        election = client.election("a", candidate="ann", ttl=20)
        cancelled, granted = await cut(election.campaign(), *moment(chance))
        tally.struck += cancelled
        if granted:
            await election.resign()
        await world.nothing_left()
        assert not election.is_leader


async def test_a_hand_over_cancelled_at_any_await_ends_the_leadership(world):
    chance, tally = random.Random(26), Tally(ROUNDS // 2)
    client, other = world.client(), world.client()
    for _ in tally:
        ann = client.election("a", candidate="ann", ttl=20)
        bob = other.election("a", candidate="bob", ttl=20)
        assert await ann.campaign()
        campaign = asyncio.create_task(bob.campaign())
        await world.in_line(1)
        cancelled, _ = await cut(ann.hand_over("bob"), *moment(chance))
        tally.struck += cancelled
        assert await asyncio.wait_for(campaign, 8)
        assert (ann.is_leader, bob.is_leader) == (False, True)
        await bob.resign()
        await world.nothing_left()


async def test_changes_cancelled_leave_the_connection_sound(world):
    client, chance = world.client(), random.Random(27)
    election = client.election("a", candidate="ann")

    async def watches():
        async for _ in client.election("a").changes():
            pass

    for _ in range(ROUNDS):
        await cut(watches(), chance.randint(1, 2))
        async with election:
            assert (await election.leader()).candidate == "ann"
    await world.until(lambda: len(world.connections()) == 1)


async def test_a_cancelled_body_of_a_multi_releases_all(world):
    client = world.client()
    inside = asyncio.Event()

    async def works():
        async with client.multi(NAMES):
            inside.set()
            await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(works())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await nothing_left(world)


async def test_a_loss_cancels_the_body_of_a_multi_and_not_what_is_around_it(world):
    """Two leases are lost at once; the cancellation of somebody else goes on."""
    client = world.client()
    multi = client.multi(NAMES, ttl=0.3, on_lost="cancel")
    with pytest.raises(LeaseLost):  # noqa: PT012 - the end of the block raises
        async with asyncio.timeout(8), multi:
            for name in NAMES:
                world.server.command("DEL", world.prefix + name)
            await asyncio.get_running_loop().create_future()
    assert asyncio.current_task().cancelling() == 0
    await asyncio.sleep(0)


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
