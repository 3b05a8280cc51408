"""Cancellation at any await of what is made of locks: nothing is left, and nothing is lost (I9)."""

import asyncio
import itertools

import pytest

from fencelock import LeaseLost, NotHeld
from tests.tasks.world import cut

NAMES = ["b", "a"]
# At which suspension, and how much later, to strike.
MOMENTS = [*itertools.product((1, 2, 3), (0.0, 0.0002, 0.0005))]


async def test_a_run_cancelled_at_any_await_is_done_or_free(world):
    client = world.client()
    for turn, moment in enumerate(MOMENTS):
        ran = []

        async def draw(ran=ran):
            await asyncio.sleep(0)
            ran.append(True)

        once = client.once(f"draw:{turn}", within=60)
        cancelled, _ = await cut(once.run(draw), *moment)
        await world.nothing_left(f"draw:{turn}")
        later = await once.run(draw)
        assert len(ran) == (1 if not later.ran else 1 + len(ran[1:]))
        if not cancelled:
            assert (later.ran, len(ran)) == (False, 1)


async def test_a_campaign_cancelled_at_any_await_leaves_nothing(world):
    client = world.client()
    for moment in MOMENTS:
        election = client.election("a", candidate="ann", ttl=20)
        _, granted = await cut(election.campaign(), *moment)
        if granted:
            await election.resign()
        await world.nothing_left()
        assert not election.is_leader


async def test_a_hand_over_cancelled_at_any_await_ends_the_leadership(world):
    client, other = world.client(), world.client()
    for moment in MOMENTS:
        ann = client.election("a", candidate="ann", ttl=20)
        bob = other.election("a", candidate="bob", ttl=20)
        assert await ann.campaign()
        campaign = asyncio.create_task(bob.campaign())
        await world.in_line(1)
        await cut(ann.hand_over("bob"), *moment)
        assert await asyncio.wait_for(campaign, 8)
        assert (ann.is_leader, bob.is_leader) == (False, True)
        await bob.resign()
        await world.nothing_left()


async def test_changes_cancelled_leave_the_connection_sound(world):
    client = world.client()
    election = client.election("a", candidate="ann")

    async def watches():
        async for _ in client.election("a").changes():
            pass

    for moment in MOMENTS:
        await cut(watches(), *moment)
        async with election:
            assert (await election.leader()).candidate == "ann"
    await world.until(lambda: len(world.connections()) == 1)


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
