"""The server takes no more clients: the waiters of a client do not starve its leases."""

import contextlib
import threading

import pytest
import redis

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


def test_a_connection_that_only_waits_is_lent_to_a_waiter_that_lost_its_own():
    """As found under load: it was granted, and asked in vain for as long as the other waited."""
    with Server(args=("--maxclients", "40")) as server, fencelock.Client(server.url) as client:
        admin = redis.Redis.from_url(server.url, single_connection_client=True)
        holder, granted = fencelock.Client(server.url), threading.Event()
        held, other = holder.lock("a", ttl=60), holder.lock("b", ttl=60)
        held.acquire()
        other.acquire()
        theirs = {each["id"] for each in admin.client_list()}

        def wait(name):
            with contextlib.suppress(fencelock.FencelockError), client.lock(name, cohort=None):
                granted.set()

        asks = thread(wait, "a")
        until(lambda: waiters_with_a_connection(client._port) == 1)
        (lost,) = {each["id"] for each in admin.client_list()} - theirs
        sits = thread(wait, "b")
        until(lambda: waiters_with_a_connection(client._port) == 2)
        admin.config_set("maxclients", len(admin.client_list()) - 1)
        admin.client_kill_filter(_id=lost)
        held.release()
        assert granted.wait(SOON), "it asks again, and finds that the lock is free"
        ended(asks)
        client.close()
        ended(sits)
        holder.close()
        admin.close()


def waiters_with_a_connection(port):
    with port.mutex:
        return sum(each.stood and bool(each.connection) for each in port.lines.all_waiters())
