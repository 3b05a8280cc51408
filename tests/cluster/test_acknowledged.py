"""Grants in a Cluster that a replica of the lock's shard must acknowledge."""

import pytest

import fencelock
from tests.faults.world import View, outcome, spawn, wait_until

WAIT_SECONDS = 0.5

pytestmark = pytest.mark.slow


@pytest.fixture
def replica(shared, view):
    """The replica of the lock's master; whatever a test did to it is over."""
    found = shared.replica_of(shared.owner(view.keys.lock))
    yield found
    found.resume()


def test_a_silent_replica_is_an_error_in_time_and_nothing_stays(
    shared, connect, view, replica, name
):
    client = connect(shared.url, replicas=1, replicas_timeout=WAIT_SECONDS)
    lock = client.lock(name)
    assert lock.acquire()
    lock.release()
    replica.pause()
    error, _ = outcome(lock.acquire)
    assert isinstance(error, fencelock.NotAcknowledged)
    assert (error.acknowledged, error.wanted) == (0, 1)
    view.until_free()
    elsewhere = next(  # the other shards have replicas of their own
        f"{name}-{number}"
        for number in range(100)
        if shared.owner(View(shared, f"{name}-{number}").keys.lock)
        is not shared.owner(view.keys.lock)
    )
    assert client.lock(elsewhere).acquire(timeout=20)
    replica.resume()
    wait_until(lambda: outcome(lock.acquire)[0] is True, what="it is acknowledged again")
    lock.release()


def test_a_handed_over_grant_is_counted(shared, connect, view, replica, name):
    """Only writes to keys reach a replica there, and a message is none."""
    holder = connect(shared.url).lock(name)
    waiter = connect(shared.url, replicas=1, replicas_timeout=WAIT_SECONDS).lock(name)
    assert holder.acquire()
    waits = spawn(outcome, waiter.acquire)
    view.until_waiting(1)
    replica.pause()
    holder.release()
    assert isinstance(waits.result(20)[0], fencelock.NotAcknowledged)
    view.until_free()


def test_a_renewal_that_nobody_acknowledged_prolongs_nothing(shared, connect, view, replica, name):
    client = connect(shared.url, replicas=1, replicas_timeout=WAIT_SECONDS)
    lock = client.lock(name, ttl=6)
    assert lock.acquire()
    first = lock.lease.deadline
    wait_until(lambda: lock.lease.deadline > first, what="it was renewed")
    replica.pause()
    wait_until(lambda: lock.lease.lost, 12, "lost at its deadline")
    replica.resume()
    view.until_free(10)


def test_a_renewal_of_several_counts_where_it_was_acknowledged(
    shared, connect, view, replica, name
):
    """The other shards have replicas of their own."""
    names = [name, *(f"{name}-{number}" for number in range(8))]
    views = {each: View(shared, each) for each in names}
    owner = shared.owner(view.keys.lock)
    elsewhere = [each for each in views.values() if shared.owner(each.keys.lock) is not owner]
    assert elsewhere
    client = connect(shared.url, replicas=1, replicas_timeout=WAIT_SECONDS)
    multi = client.multi(names, ttl=20)
    assert multi.acquire(timeout=9)
    lease = multi.lease
    lease.renew(30)
    assert 28 < lease.remaining() <= 30
    replica.pause()
    error, _ = outcome(lease.renew, 60)
    assert isinstance(error, fencelock.NotAcknowledged)
    assert all(each.remaining() > 50 for each in elsewhere)
    assert 20 < lease.remaining() <= 30
    replica.resume()
    wait_until(lambda: outcome(lease.renew, 60)[0] is None, what="it is acknowledged again")
    assert 50 < lease.remaining() <= 60
    multi.release()


def test_a_failover_keeps_what_was_acknowledged(own, connect, name):
    view = View(own, name)
    lock = connect(own.url, replicas=1, server_timeout=12.0).lock(name, ttl=20)
    assert lock.acquire()
    own.owner(view.keys.lock).kill()
    other = connect(own.url, server_timeout=12.0).lock(name)
    assert other.acquire(timeout=8) is False
    assert not lock.lease.lost
