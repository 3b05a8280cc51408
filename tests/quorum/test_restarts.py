"""A node that was restarted empty has no vote, until no lease is left that it could have forgotten.

Each trial does what gave two majorities in 50 of 50 without that: three nodes grant a lock, one of
them is restarted and forgets it, and a client that comes anew asks it and the other two.
"""

import pytest

from fencelock import LeaseLost, QuorumNotReached, ServerUnsuitable

pytestmark = [pytest.mark.quorum, pytest.mark.slow]

TTL = 8.0


async def got(lock) -> bool:
    """Return True if a lock was granted: no majority is as good as held by others."""
    try:
        return await lock.acquire(blocking=False)
    except QuorumNotReached:
        return False


@pytest.mark.parametrize("forgetful", [0, 1, 2])
async def test_a_forgetful_node_gives_no_second_majority(world, forgetful):
    """Neither to a client that knew it before, nor to one that comes anew."""
    old = world.client().lock("a", ttl=TTL, renew=False)
    async with old:
        pass
    lock = world.client().lock("a", ttl=TTL, renew=False)
    with pytest.raises(LeaseLost):  # at its release: too few know of it by then
        await _forgotten(world, lock, old, forgetful)


async def _forgotten(world, lock, old, forgetful):
    other = next(n for n in (0, 1, 2) if n != forgetful)
    async with lock as lease:
        # Two others forget by an operator's hand, so that three nodes know nothing of the lease.
        for number in (3, 4):
            world.server.nodes[number].command("DEL", world.key("a"))
        world.server.nodes[forgetful].restart()
        fresh = world.client().lock("a", ttl=TTL)
        assert await got(old) is False
        assert await got(fresh) is False
        assert world.server.nodes[other].command("GET", world.key("a")) == lease.holder
        lease.check()


async def test_it_votes_again_when_the_longest_lease_is_over(world):
    """And then counts as any other: with two others down it makes the majority."""
    lock = world.client().lock("a", ttl=3)
    async with lock:
        pass
    world.server.nodes[0].restart()
    world.server.kill(1, 2)
    with pytest.raises(QuorumNotReached) as refused:
        await lock.acquire(blocking=False)
    said = str(refused.value.causes.get(world.server.nodes[0].url, ""))
    assert "restarted" in said
    fresh = world.client().lock("a", ttl=3)
    assert await fresh.acquire(timeout=20) is True
    await fresh.release()


async def test_servers_that_nobody_ever_knew_vote_at_once(world):
    """Five that were just started are no five that forgot."""
    lock = world.client().lock("a", ttl=60)
    assert await lock.acquire(blocking=False) is True
    other = world.client().lock("a", ttl=60)
    assert await other.acquire(blocking=False) is False
    await lock.release()


async def test_a_lease_that_is_renewed_for_longer_is_remembered_as_long(world):
    """Or a node that forgot it would vote again after the ttl that it was granted for."""
    lock = world.client().lock("a", ttl=TTL, renew=False)
    async with lock as lease:
        await lease.renew(60)
        assert lease.remaining() > 50
    membership = world.key("~quorum")
    told = [node.command("HGET", membership, "ttl") for node in world.server.nodes]
    assert [int(ttl) for ttl in told if ttl].count(60_000) >= 3


async def test_a_long_lease_that_was_released_keeps_nobody_from_voting(world):
    """Only that of a minute and less counts for as long as it may have been."""
    async with world.client().lock("long", ttl=3600):
        pass
    nodes = world.server.nodes
    membership = world.key("~quorum")

    def given_up():
        fields = [node.command("HGETALL", membership) for node in nodes]
        claims = [
            each[at + 1]
            for each in fields
            for at in range(0, len(each), 2)
            if each[at].startswith("~")
        ]
        return len(claims) == len(nodes) and all(each.endswith(" 0") for each in claims)

    await world.until(given_up, "its client said so to all nodes")
    for node in nodes[:3]:
        node.restart()
    short = world.client().lock("short", ttl=3)
    assert await short.acquire(timeout=30) is True
    await short.release()


async def test_one_server_under_several_names_is_no_quorum(world):
    """Its run id says so, whatever the addresses and the databases."""
    node = world.server.nodes[0].url
    source = [node, node.replace("db=0", "db=1"), node.replace("db=0", "db=2")]
    lock = world.client(source).lock("a")
    for _ in range(2):
        with pytest.raises(ServerUnsuitable, match="different servers"):
            await lock.acquire(blocking=False)
