"""A quorum says and leaves behind what one server does: each of these was different once."""

import pytest

import fencelock
from fencelock import LeaseLost, QuorumNotReached
from fencelock._core.look.show import Looker
from fencelock._io.threads import run_blocking
from fencelock.scripts import BREAK

pytestmark = pytest.mark.quorum


def test_a_name_in_use_for_a_foreign_sorted_set_is_shown(world):
    for node in world.server.nodes:
        node.command("ZADD", world.key("a"), 1, "foreign")
    with fencelock.Client(world.server.url, node_timeout=1) as client:  # it dials five at first
        info = run_blocking(Looker(client._port, world.keys("a").prefix).show(world.keys("a")))
    assert (info.kind, info.limit, info.holders) == ("other", 0, ())


async def test_who_waits_is_shown_at_whichever_node_that_is(world):
    """Each name has a first node of its own, in whose line its waiters stand."""
    client, other = world.client(), world.client()
    locks, theirs = ([each.lock(name) for name in "abcdef"] for each in (client, other))
    for each in locks:
        assert await each.acquire()
    waits = [world.start(each.acquire()) for each in theirs]
    lines = [world.keys(each.name).grant[2] for each in locks]
    nodes = world.server.nodes
    await world.until(lambda: sum(at.command("EXISTS", *lines) for at in nodes) == len(lines))
    assert [each.waiting for each in await client.locks()] == [1] * len(lines)
    for one, wait, another in zip(locks, waits, theirs, strict=True):
        await one.release()
        assert await wait.result()
        await another.release()


@pytest.mark.parametrize("ends", ["renew", "release"])
async def test_an_operator_s_word_says_more_than_what_else_ended_the_lease(world, ends):
    lock = world.client().lock("a", ttl=60, renew=False)
    await lock.acquire()
    keys, nodes, lease = world.keys("a").all, world.server.nodes, lock.lease
    for node in nodes[:2]:
        node.command("EVAL", BREAK.source, len(keys), *keys, "enough", 60_000, "1")
    await world.until(lambda: sum(part.loss is not None for part in lease.parts) == 2)
    nodes[2].command("SET", keys[0], "another", "PX", 60_000)
    with pytest.raises(LeaseLost, match="revoked: enough"):
        await (lease.renew() if ends == "renew" else lock.release())


@pytest.mark.slow
async def test_a_release_without_a_majority_says_of_which_lock_it_was(world):
    lock = world.client().lock("a", ttl=60)
    await lock.acquire()
    world.server.kill(0, 1, 2)
    with pytest.raises(QuorumNotReached) as refused:
        await lock.release()
    assert refused.value.name == "a"
