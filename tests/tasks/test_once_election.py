"""Elections and multis that are cancelled, or told to end twice (I9)."""

import asyncio
import itertools

import pytest

from fencelock import NotHeld
from tests.tasks.world import cut

NAMES = ["b", "a"]
# At which suspension, and how much later, to strike.
MOMENTS = [*itertools.product((1, 2, 3), (0.0, 0.0002, 0.0005))]


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
