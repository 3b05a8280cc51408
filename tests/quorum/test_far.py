"""Nodes that are far away: a connection takes several round trips, and each takes its time."""

import contextlib

import pytest

from tests.conformance.world import FACES, World
from tests.faults.proxy import Proxy
from tests.topologies.quorum import Quorum

pytestmark = [pytest.mark.quorum, pytest.mark.slow]

# Of node_timeout, 50 ms, only the second is more; an undecided node has ten times as long.
ROUND_TRIPS = [0.045, 0.08]


class Far(Quorum):
    """Servers behind proxies."""

    def __init__(self, nodes=3):
        super().__init__(nodes)
        self.proxies = []

    @property
    def url(self):
        return ",".join(proxy.url for proxy in self.proxies)

    def start(self):
        super().start()
        self.proxies = [Proxy(node) for node in self.nodes]
        return self

    def close(self):
        for proxy in self.proxies:
            proxy.close()
        super().close()

    def lag(self, seconds):
        for proxy in self.proxies:
            proxy.lag = seconds


@pytest.fixture(params=FACES[:2])
def world(request):
    with Far() as servers:
        yield World(request.param, servers)


@pytest.mark.parametrize("seconds", ROUND_TRIPS)
async def test_nodes_that_are_far_away_are_reached(world, seconds):
    """Both faces alike, with the first request of a client."""
    world.server.lag(seconds)
    lock = world.client().lock("a")
    assert await lock.acquire(blocking=False) is True
    assert [node.command("GET", world.key("a")) for node in world.server.nodes] == [
        lock.lease.holder
    ] * 3
    await lock.release()
    assert [node.command("GET", world.key("a")) for node in world.server.nodes] == [None] * 3


async def test_a_silent_node_costs_no_more_when_others_are_connected(world):
    """Its connection is opened beside them; they answer meanwhile."""
    async with world.client().lock("a"):  # the servers know one another
        pass
    world.server.proxies[0].new_connections = "blackhole"
    lock = world.client().lock("a", ttl=60)
    assert await lock.acquire(timeout=20) is True
    holders = [node.command("GET", world.key("a")) for node in world.server.nodes]
    assert holders.count(lock.lease.holder) == 2
    await lock.release()


async def test_a_connection_that_came_too_late_serves_the_next_request(world):
    """Or a far node would be dialled for ever."""
    world.server.lag(0.25)
    lock = world.client(node_timeout=0.04).lock("a")
    with contextlib.suppress(Exception):  # nothing can be decided in 0.4 s
        await lock.acquire(timeout=0.1)
    await world.until(lambda: len(links(world)) == 3, "the nodes are connected")
    world.server.lag(0.02)
    assert await lock.acquire(timeout=20) is True
    await lock.release()


def links(world):
    return [proxy for proxy in world.server.proxies if proxy.links()]
