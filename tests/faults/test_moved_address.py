"""An address that leads to another master: REPLICAOF by hand, a proxy, a name of a managed service.

The old master becomes a replica, and closes no connection: only its refusals tell.
"""

import pytest

from fencelock import ServerReadOnly
from tests.faults.world import Threads, View, outcome, spawn, wait_until
from tests.kinds import HELD
from tests.topologies.moving import Moving

pytestmark = pytest.mark.one_face

NAME, TTL = "lock", 3.0
KINDS = ("lock", "poll", "semaphore", "multi")


@pytest.fixture
def moving():
    with Moving() as servers:
        yield servers


def heard(moving, client):
    """Return the channels of a client that are heard at the master."""
    channels = f"*{client.port.client_channel.decode()}*"
    return moving.master.command("PUBSUB", "CHANNELS", channels)


def test_calls_and_renewals_go_on_at_the_new_master(connect, moving):
    client = connect(moving.url)
    held = {kind: HELD[kind](client, f"a-{kind}", ttl=60) for kind in KINDS}
    for lock in held.values():
        assert lock.acquire()
    kept = client.lock(NAME, ttl=TTL)
    assert kept.acquire()
    moving.move()
    other = client.lock("another", ttl=60)
    assert other.acquire(timeout=20) is True
    before = kept.lease.deadline
    for lock in held.values():
        lock.lease.renew()
        lock.release()
    wait_until(lambda: kept.lease.deadline > before, 8, "it is renewed")
    moving.move()
    for lock in (kept, other):
        assert outcome(lock.release)[0] is None


def test_a_revocation_is_heard_after_the_next_renewal(connect, moving):
    """The connection that listens is replaced with those that ask."""
    client = connect(moving.url)
    lock = client.lock(NAME, ttl=TTL)
    assert lock.acquire()
    lease = lock.lease
    wait_until(lambda: heard(moving, client), 8, "it listens")
    moving.move()
    wait_until(lambda: heard(moving, client), 8, "it listens there")
    Threads(moving.url).client.revoke(NAME, reason="why not")
    wait_until(lambda: lease.lost, TTL / 3, "it is told")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_waiter_goes_on_at_the_new_master(connect, moving, kind):
    """Its next heartbeat finds out; it was in line there, too."""
    client = connect(moving.url)
    holder, waiter = (HELD[kind](each, NAME, ttl=60) for each in (connect(moving.url), client))
    assert holder.acquire()
    waits = spawn(waiter.acquire, timeout=60)
    if kind != "poll":
        View(moving.master, NAME).until_waiting(1)
    moving.move()
    if kind != "poll":
        wait_until(lambda: heard(moving, client), 8, "it listens there")
    holder.release()
    assert waits.result(20) is True
    waiter.release()


@pytest.mark.parametrize("known", [False, True], ids=["from the beginning", "since a moment ago"])
def test_a_server_that_stays_read_only_is_told(connect, own_server, known):
    """At once, if no master ever answered there; else it is given the time of the call."""
    seconds = 2.0
    client = connect(own_server.tcp_url, server_timeout=seconds)
    if known:
        assert client.lock(NAME, ttl=60).acquire()
    own_server.command("REPLICAOF", "127.0.0.1", 1)
    result, took = outcome(client.lock("another").acquire)
    assert isinstance(result, ServerReadOnly)
    assert result.code == "READONLY"
    assert (took > seconds / 4) == known
