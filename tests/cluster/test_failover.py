"""A master dies or freezes while a lock on it is held, waited for, renewed and released."""

import pytest

import fencelock
from tests.cluster.turns import Turns
from tests.faults.world import View, in_line, outcome, until_served, wait_until
from tests.waiting import machine_seconds

# A failover takes some 2 s here (node timeout 1 s); what waits for it has more.
TTL, PATIENCE = 12.0, 12.0
CLIENTS = 4

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("fault", ["kill", "pause"]),
]


def strike(cluster, view, fault):
    """Kill or freeze the master of a lock, whose replica has it; return both."""
    master = cluster.owner(view.keys.lock)
    replica = cluster.replica_of(master)
    master.command("WAIT", 1, 5000)  # it has all that was written so far
    getattr(master, fault)()
    return master, replica


def test_holders_and_waiters_go_on(own, connect, name, fault):
    """The lease stays, waiters are in line again at the new master, fences grow."""
    view = View(own, name)
    holder, *waiters = [
        connect(own.url, server_timeout=PATIENCE).lock(name, ttl=TTL) for _ in range(3)
    ]
    assert holder.acquire()
    jobs = in_line(waiters, view, timeout=40)
    master, replica = strike(own, view, fault)
    holder.lease.renew()
    assert replica.info("replication")["role"] == "master"
    at_new = View(replica, name)
    at_new.until_held_by(holder.lease)
    at_new.until_waiting(2, 10)
    if fault == "pause":
        master.resume()
        wait_until(lambda: master.info("replication")["role"] == "slave", 15, "demoted")
    fence = holder.lease.fence
    holder.release()
    _, fences = until_served(waiters, jobs, at_new, 30)
    assert fences[0] > fence


def test_an_acquire_that_meets_the_fault(own, connect, name, fault):
    """It goes on at the new master within its timeout."""
    view = View(own, name)
    lock = connect(own.url, server_timeout=PATIENCE).lock(name, ttl=20)
    assert lock.acquire()
    lock.release()
    master, replica = strike(own, view, fault)
    assert lock.acquire(timeout=20)
    assert View(replica, name).holder() == lock.lease.holder
    if fault == "pause":
        master.resume()
    lock.release()


def test_no_two_hold_at_once(own, connect, name, fault):
    """Turns of four clients through a failover, and back.

    The last grant before the fault may have reached its client and not the replica: then it is
    lost, and its release says so. The next one comes seconds later.
    """
    view = View(own, name)
    turns = Turns(own, name)
    turns.begin([connect(own.url, server_timeout=PATIENCE) for _ in range(CLIENTS)])
    turns.until_more(50)
    master = own.owner(view.keys.lock)
    getattr(master, fault)()
    turns.until_more(50, 40)
    if fault == "pause":
        master.resume()
    else:
        master.start()
    wait_until(lambda: master.info("replication")["role"] == "slave", 15, "demoted")
    turns.until_more(50, 40)
    assert turns.end() == []
    assert len(turns.troubles) <= 1
    assert all(isinstance(error, fencelock.LeaseLost) for error in turns.troubles)


def test_the_whole_cluster_is_down(own, connect, name, fault):
    """Nobody answers: a try ends in time with the truth, never with "held"."""
    lock = connect(own.url, server_timeout=1.0).lock(name, ttl=20)
    assert lock.acquire()
    lock.release()
    for node in own.masters[:2]:
        getattr(node, fault)()
    for node in own.replicas:
        node.kill()
    wait_until(lambda: "state:fail" in own.masters[2].command("CLUSTER", "INFO"), 10, "down")
    result, took = outcome(lock.acquire, timeout=0.5)
    assert isinstance(result, fencelock.FencelockError)
    assert not isinstance(result, fencelock.NotAcquired)
    assert took < 0.5 + 0.1 + machine_seconds()
    if fault == "pause":
        for node in own.masters[:2]:
            node.resume()
