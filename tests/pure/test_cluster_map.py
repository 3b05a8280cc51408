"""_topology/cluster_map.py: what many need at once is asked for once."""

import threading
from types import SimpleNamespace

import pytest

from fencelock._core.round_trips import RoundTrips
from fencelock._core.types import NoReply
from fencelock._io.io_blocking import BlockingIo
from fencelock._io.threads import run_blocking
from fencelock._io.wire import ReplyError, server_error
from fencelock._runtime.clock import now
from fencelock._topology.cluster_map import ClusterMap
from fencelock._topology.slots import (
    READ_MAP,
    ClusterSource,
    NodeAddress,
    key_in,
)
from tests.faults.world import spawn, wait_until

A, B = NodeAddress("a", 1), NodeAddress("b", 2)
ALL = [[0, 16383, [b"a", 1], [b"b", 2]]]
SOON = 10.0
CLUSTERED = ClusterSource((A, B), lambda node: node, "two nodes")
GET = b"GET"


def error(text):
    return server_error(ReplyError(text))


class Nodes(BlockingIo):
    """Nodes that answer commands as a test says; all that is asked is noted."""

    def __init__(self, answer):
        self.answer, self.trips, self.asked = answer, RoundTrips(), []
        self.at = {node: SimpleNamespace(node=node, give=lambda _: None) for node in (A, B)}

    async def lend(self, node, until):
        return self.at[node]

    async def command(self, connection, args, until):
        self.asked.append((connection.node, args[0]))
        found = self.answer(connection.node, args[0])
        if isinstance(found, Exception):
            raise found
        return found


def found_by(nodes):
    """Return a map that was read once, long ago, and is in doubt."""
    known = ClusterMap(CLUSTERED, nodes)
    known.slots.learn(ALL, A)
    known.slots.read_at = 0.0
    known.slots.invalidate(None)
    return known


def readings(nodes):
    return [node for node, word in nodes.asked if word == READ_MAP[0]]


class Slow:
    """An answer that waits for the test, and counts who asks for it."""

    def __init__(self, answer):
        self.answer, self.asked, self.goes = answer, 0, threading.Event()

    def __call__(self, *_):
        self.asked += 1
        self.goes.wait(SOON)
        return self.answer


CALLERS = 5


def at_once(flow, slow, joined):
    """Have several threads run a flow while the first one's answer is awaited; return the jobs."""
    jobs = [spawn(run_blocking, flow())]
    wait_until(lambda: slow.asked == 1, SOON, "the first one asks")
    jobs += [spawn(run_blocking, flow()) for _ in range(CALLERS - 1)]
    wait_until(joined, SOON, "the others wait for it")
    slow.goes.set()
    return jobs


def waiting_for(nodes, count):
    """Have every latch of these nodes counted; return a function that says if so many wait."""
    waits = []
    latch = nodes.latch

    def counted():
        made = latch()
        wait = made.wait_until

        async def noted(until):
            waits.append(made)
            return await wait(until)

        made.wait_until = noted
        return made

    nodes.latch = counted
    return lambda: len(waits) >= count


def test_a_map_that_names_no_node_forgets_none():
    slots = found_by(Nodes(None)).slots
    slots.learn([], A)
    assert (slots.masters, slots.sure(b"a")) == ((A,), None)


def test_all_that_need_the_map_at_once_have_it_read_once():
    slow = Slow(ALL)
    nodes = Nodes(slow)
    joined = waiting_for(nodes, CALLERS - 1)
    known = found_by(nodes)
    jobs = at_once(lambda: known.owner(key_in(1), now() + SOON), slow, joined)
    assert [job.result(SOON) for job in jobs] == [A] * CALLERS
    assert readings(nodes) == [A]


@pytest.mark.parametrize("replaced", [False, True])
def test_all_that_doubt_one_node_at_once_have_it_asked_about_once(replaced):
    key = key_in(1)
    slow = Slow(b"mine" if replaced else error("MOVED 1 a:1"))
    nodes = Nodes(lambda _, word: slow() if word == GET else [[0, 16383, [b"b", 2]]])
    joined = waiting_for(nodes, CALLERS - 1)
    known = found_by(nodes)
    jobs = at_once(lambda: known.confirm(key, A, now() + SOON), slow, joined)
    for job in jobs:
        assert isinstance(job.exception(SOON), NoReply) is replaced
    assert slow.asked == 1
