"""A master that was frozen and replaced wakes up, serves what it was sent, and is not believed."""

from pathlib import Path

import pytest

from fencelock._runtime.clock import now
from fencelock._topology.slots import MasterCheck
from tests.faults.world import View, spawn, wait_until

CLIENTS = 6
TTL = 8.0  # a failover takes some 2 s here
TABLE = Path("/proc/net/tcp")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not TABLE.exists(), reason="needs Linux's table of connections"),
]


def unread(port):
    """Return how many connections to a port have something that its server has not read."""
    found = 0
    for line in TABLE.read_text().splitlines()[1:]:
        _, here, _, _, queues, *_ = line.split()
        found += int(here.rpartition(":")[2], 16) == port and int(queues.partition(":")[2], 16) > 0
    return found


def awakened(cluster, connect, name):
    """Ask a master for a lock that its successor granted; return what that and who asks say."""
    view = View(cluster, name)
    late = [connect(cluster.url).lock(name, ttl=60) for _ in range(CLIENTS)]
    for lock in late:
        lock.acquire()
        lock.release()
    master = cluster.owner(view.keys.lock)
    replica = cluster.replica_of(master)
    master.pause()
    wait_until(lambda: replica.info("replication")["role"] == "master", 15, "promoted")
    held = connect(cluster.url).lock(name, ttl=60)
    assert held.acquire(timeout=15)
    before = unread(master.port)
    jobs = [spawn(lock.acquire, timeout=3) for lock in late]
    wait_until(lambda: unread(master.port) >= before + len(late), 0.9, "all have asked")
    master.resume()
    granted = sum(job.result(20) is True for job in jobs)
    assert View(replica, name).holder() == held.lease.holder
    return granted


def test_it_grants_nothing(own, connect, name):
    assert awakened(own, connect, name) == 0


def test_without_the_check_it_grants(own, connect, name, monkeypatch):
    """The test before this one would see it."""
    monkeypatch.setattr(MasterCheck, "counts", lambda *_: True)
    assert awakened(own, connect, name) > 0


def test_its_handoff_is_not_believed_at_its_successor(own, connect, name):
    """It finds the lease expired that its successor renews, and runs a waiter's proof of life."""
    view = View(own, name)
    holder, client = (connect(own.url, server_timeout=12.0) for _ in range(2))
    lock, waiter = holder.lock(name, ttl=TTL), client.lock(name, ttl=TTL)
    assert lock.acquire()
    lease, job = lock.lease, spawn(waiter.acquire, timeout=60)
    master = own.owner(view.keys.lock)
    replica, alive = own.replica_of(master), view.keys.grant[3].decode()
    wait_until(lambda: master.command("ZCARD", alive), what="its script is known")
    master.command("WAIT", 1, 5000)
    master.pause()
    ends = now() + TTL
    wait_until(lambda: replica.info("replication")["role"] == "master", 15, "promoted")
    View(replica, name).until_waiting(1, 15)
    wait_until(lambda: now() > ends, TTL + 1, "its lease has ended there")
    proved = client.lock(f"{{{view.keys.lock.decode()}}}")  # of the same slot
    assert proved.acquire(timeout=15)
    proved.release()
    assert not lease.lost
    master.resume()
    wait_until(lambda: master.info("replication")["role"] == "slave", 15, "demoted")
    assert not job.done()
    assert View(replica, name).holder() == lease.holder
    lock.release()
    assert job.result(20) is True
    waiter.release()
