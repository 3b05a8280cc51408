"""Very many waiters on one lock: two commands per acquisition, in order, and no herd (I5, I7)."""

import pytest

from fencelock._core.deadlines import HEARTBEAT_SECONDS
from fencelock._runtime.clock import now
from tests.faults.conftest import load
from tests.faults.world import wait_until
from tests.scale.children import QUEUE, children, scripts_run
from tests.servers import Server

CROWDS = [
    pytest.param("tasks", 300, 2, id="300 tasks"),
    pytest.param("clients", 100, 2, id="100 clients"),
    pytest.param("tasks", 10_000, 2, id="10000 tasks", marks=pytest.mark.slow),
    pytest.param("threads", 1_000, 2, id="1000 threads", marks=pytest.mark.slow),
    pytest.param("clients", 1_000, 4, id="1000 clients", marks=pytest.mark.slow),
]
# Repeated requests, and looks of a client for more than the waiter itself.
SPARE = 0.1


@pytest.fixture
def server():
    with Server() as server:
        load(server)
        server.command("CONFIG", "SET", "maxclients", "4000")
        yield server


def line_up(server, crowd):
    """Have all stand in line; return their ids in the order in which the server has them."""
    for child in crowd:
        child.tell("stand")
    for child in crowd:
        child.answer()
    return [entry.split()[0] for entry in server.command("ZRANGE", QUEUE, 0, -1)]


def looks(server):
    """Return how many looks there were: each forgets old proofs of life, and nothing else does."""
    return server.commandstats().get("zremrangebyscore", 0)


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "count", "processes"), CROWDS)
def test_all_are_served_in_order_when_the_holder_dies(server, kind, count, processes):
    each = ("crowd", kind, server.url, count // processes)
    with children(("crowd", "holder", server.url, 1), *[each] * processes) as [holder, *crowd]:
        holder.ask("stand")
        server.command("CONFIG", "RESETSTAT")
        order = line_up(server, crowd)
        assert len(order) == count
        died = now()
        holder.kill()
        wait_until(lambda: server.command("ZCARD", QUEUE) < count, 20, "the next is granted")
        assert_no_herd(server, kind, count, processes, died)
        for child in crowd:
            child.tell("served")
        taken = sorted(grant for child in crowd for grant in child.answer()["taken"])
        assert [who for _, who in taken] == order
        assert len({fence for fence, _ in taken}) == count
        asked = scripts_run(server) - (looks(server) if kind == "clients" else 0)
        assert 2.0 <= asked / count < 2.0 + SPARE


def assert_no_herd(server, kind, count, processes, died):
    """Nobody asked more often than every 2 s, but for one more look when the lease ended."""
    clients = count if kind == "clients" else processes
    seconds = now() - died
    assert (
        scripts_run(server) - count <= clients * (2 + seconds / HEARTBEAT_SECONDS) + SPARE * count
    )
