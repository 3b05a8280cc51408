"""The server takes no more clients: the waiters of a client do not starve its leases."""

import contextlib
import threading

import pytest

import fencelock
from tests.servers import Server
from tests.threads.state import connections, ended, thread
from tests.waiting import SOON, until


def lends_its_connection(port):
    with port.mutex:  # a waiter may join its line meanwhile
        return any(each.stood and not each.connection for each in port.lines.all_waiters())


@pytest.mark.slow
def test_waiters_leave_a_connection_to_renew_and_release_with():
    """As found: they took the last one, and the holder's lease ended."""
    with Server(args=("--maxclients", "40")) as server, fencelock.Client(server.url) as client:
        lock, granted = client.lock("a", ttl=6), []
        lock.acquire()

        def wait():
            with client.lock("a") as lease:
                granted.append(lease.fence)

        server.command("CONFIG", "SET", "maxclients", len(connections(server)) + 4)
        waiters = [thread(wait) for _ in range(8)]
        for _ in range(2):
            end = lock.lease.deadline
            until(lambda end=end: lock.lease.lost or lock.lease.deadline > end)
            assert not lock.lease.lost
        lock.release()
        for each in waiters:
            ended(each)
        assert len(granted) == 8


def test_waiters_leave_a_connection_to_one_that_lent_its_own():
    """As found: it was granted, and could not ask, as the others sat on all connections."""
    with Server(args=("--maxclients", "40")) as server, fencelock.Client(server.url) as client:
        server.command("SET", "fencelock:b", "another holder")
        lock, granted = client.lock("a", ttl=60, cohort=None), threading.Event()
        lock.acquire()
        server.command("CONFIG", "SET", "maxclients", len(connections(server)))

        def wait():
            with client.lock("a", ttl=60, cohort=None):
                granted.set()

        def sit():
            with contextlib.suppress(fencelock.FencelockError):
                client.lock("b").acquire()

        lends = thread(wait)
        until(lambda: lends_its_connection(client._port))
        lock.release()
        sits = thread(sit)
        assert granted.wait(SOON), "it asks again, and finds that it was granted"
        ended(lends)
        assert all(each.keys.name != "a" for each in client._port._lent), "it is over"
        client.close()
        ended(sits)
