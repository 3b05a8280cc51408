"""A server whose clock jumps ahead ends leases early: two majorities, which the fence orders.

The promise excludes it; see docs/how-to/use-a-quorum.md. What a jump must not do is bring a smaller
fence, or end a lease that a majority of right clocks still proves.
"""

import contextlib

import pytest

from fencelock import LeaseLost, QuorumNotReached
from fencelock._core.quorum.membership import order
from tests.conformance.world import FACES, World
from tests.faults.wall_clock import server_with_a_clock, why_not
from tests.topologies.quorum import Quorum

pytestmark = [
    pytest.mark.quorum,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "there is a clock to set"),
]

AHEAD = 3600


class Clocked(Quorum):
    """Three servers, each with a clock that can be set."""

    def __init__(self, lent):
        self.nodes = [server for server, _ in lent]
        self._jumps = [jump for _, jump in lent]
        self.dead = set()

    def jump(self, number, seconds):
        self._jumps[number](seconds)


@pytest.fixture(params=FACES[:2])
def world(request, tmp_path_factory):
    with contextlib.ExitStack() as stack:
        folders = [tmp_path_factory.mktemp("clock") for _ in range(3)]
        lent = [stack.enter_context(server_with_a_clock(folder)) for folder in folders]
        yield World(request.param, Clocked(lent))


async def test_a_jump_of_one_clock_may_give_two_majorities_and_the_fence_tells_them_apart(world):
    servers, client = world.server, world.client()
    # Who waits stands in line at the first node: only its clock lets a second one in.
    jumps, _, silent = order(world.key("a").encode(), tuple(node.url for node in servers.nodes))
    async with client.lock("a"):  # all three know each other from here on
        pass
    servers.pause(silent)
    first = client.lock("a", ttl=60, renew=False)
    await first.acquire()
    servers.resume(silent)
    servers.jump(jumps, AHEAD)
    second = world.client().lock("a", ttl=60, renew=False)
    await second.acquire(timeout=10)
    assert not first.lease.lost  # two believe that they hold
    assert second.lease.fence > first.lease.fence
    await second.release()
    with pytest.raises(LeaseLost):
        await first.release()


async def test_a_jump_of_one_clock_is_outvoted_by_two_right_ones(world):
    lock = world.client().lock("a", ttl=60, renew=False)
    async with lock as lease:
        world.server.jump(1, AHEAD)
        assert await world.client().lock("a").acquire(blocking=False) is False
        lease.check()


async def test_a_clock_that_is_set_after_its_node_restarted_gives_no_vote(world):
    """As at the boot of a host whose time service starts after the server."""
    servers, lock = world.server, world.client().lock("a", ttl=60)
    forgets, _, silent = order(world.key("a").encode(), tuple(node.url for node in servers.nodes))
    async with lock:  # all three know each other from here on
        pass
    servers.pause(silent)
    await lock.acquire()
    servers.resume(silent)
    servers.nodes[forgets].restart()
    servers.jump(forgets, AHEAD)
    assert int(servers.nodes[forgets].info("server")["uptime_in_seconds"]) > 60
    with contextlib.suppress(QuorumNotReached):  # or it is seen to be held
        assert await world.client().lock("a", ttl=60).acquire(blocking=False) is False
    with contextlib.suppress(LeaseLost):  # the node that is left is no majority
        await lock.release()
