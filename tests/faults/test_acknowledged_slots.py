"""Acknowledged grants on a node of a Cluster, where only writes to keys reach a replica."""

import contextlib
import socket

import pytest

import fencelock
from tests.faults.world import View, outcome, spawn, wait_until
from tests.replication import counted
from tests.servers import Refused, Server

pytestmark = pytest.mark.one_face

CLUSTER = ("--cluster-enabled", "yes", "--repl-diskless-sync-delay", "0")
NAME = "lock"


@pytest.fixture(scope="module")
def pair():
    """A node that has all slots, and its replica."""
    with contextlib.ExitStack() as running:
        buses = [running.enter_context(reserved()) for _ in range(2)]
        master, replica = (
            running.enter_context(Server(args=(*CLUSTER, "--cluster-port", str(bus))))
            for bus in buses
        )
        master.command("CLUSTER", "ADDSLOTS", *range(16384))
        replica.command("CLUSTER", "MEET", "127.0.0.1", master.port, buses[0])
        known = master.command("CLUSTER", "MYID")
        wait_until(lambda: known in replica.command("CLUSTER", "NODES"), what="they have met")
        wait_until(lambda: followed(replica, known), what="it follows")
        counted(master, 1)
        wait_until(lambda: "state:ok" in master.command("CLUSTER", "INFO"), what="it serves")
        yield master, replica


@contextlib.contextmanager
def reserved():
    """Keep a free port that a server may listen on."""
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        line.bind(("127.0.0.1", 0))
        yield line.getsockname()[1]


def followed(replica, master):
    with contextlib.suppress(Refused):
        return replica.command("CLUSTER", "REPLICATE", master) == "OK"
    return False


def test_a_handed_over_grant_is_counted(connect, pair):
    master, replica = pair
    view = View(master, NAME)
    holder = connect(master.tcp_url).lock(NAME)
    waiter = connect(master.tcp_url, replicas=1, replicas_timeout=0.3).lock(NAME)
    wait_until(lambda: outcome(waiter.acquire)[0] is True, what="it is acknowledged")
    waiter.release()
    assert holder.acquire()
    waits = spawn(outcome, waiter.acquire)
    view.until_waiting(1)
    replica.pause()
    try:
        holder.release()
        error, _ = waits.result(20)
        assert isinstance(error, fencelock.NotAcknowledged)
        view.until_free()
    finally:
        replica.resume()
