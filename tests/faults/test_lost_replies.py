"""A request or its answer is lost, for every request of every operation (I4, I9).

Whatever the network did: the caller ends with the truth, nobody else's lock is touched, and
nothing is left behind. The leases are far longer than the tests, so that no expiry helps.
"""

from typing import NamedTuple

import pytest

from fencelock import NotHeld, OutcomeUnknown, ServerUnreachable
from tests.faults.world import outcome, spawn
from tests.waiting import machine_seconds

TTL = 60.0
TIMEOUT = 0.4
UNDONE_SECONDS = 8.0  # of this an undo may need to find another way than a silent connection
UNKNOWN = (OutcomeUnknown, ServerUnreachable)


class Loss(NamedTuple):
    """What is lost, and how the connection ends."""

    action: str
    then: str

    def __str__(self):
        return f"{self.action}-{self.then}"


QUICKLY = [Loss("drop_request", "rst"), Loss("drop_reply", "close")]
SLOWLY = [Loss("drop_request", "blackhole"), Loss("drop_reply", "silence")]
SILENT = [pytest.mark.slow, pytest.mark.either_face]
LOSSES = [*QUICKLY, *(pytest.param(each, marks=SILENT) for each in SLOWLY)]
every_loss = pytest.mark.parametrize("how", LOSSES, ids=str)


def time_for(how):
    """Return how long a call may take: long, unless silence is what ends it."""
    return TIMEOUT if how is None or how.then in {"silence", "blackhole"} else 10.0


@pytest.fixture
def client(connect, proxy, request):
    """A client of the face under test behind the proxy."""
    how = request.node.callspec.params.get("how")
    return connect(proxy.url, server_timeout=time_for(how))


@pytest.fixture
def other(connect, server):
    """Another client, on the server itself."""
    return connect(server.url)


def told_the_truth(result, lock, view, then):
    """Check an acquire's result against the server; return True when the lock is held."""
    if isinstance(result, UNKNOWN):
        assert then in {"silence", "blackhole"}, f"a broken connection is no reason: {result!r}"
        view.until_free(UNDONE_SECONDS)
        return False
    assert result is True
    assert view.holder() == lock.lease.holder
    assert not lock.lease.lost
    return True


@every_loss
@pytest.mark.parametrize("blocking", [True, False], ids=["acquire", "try"])
def test_acquire_of_a_free_lock(client, proxy, view, how, blocking):
    lock = client.lock(view.name, ttl=TTL)
    fault = proxy.on("acquire", how.action, then=how.then)
    result, _ = outcome(lock.acquire, blocking, time_for(how) if blocking else -1)
    fault.wait()
    if told_the_truth(result, lock, view, how.then):
        lock.release()
        assert view.free()


@pytest.mark.parametrize(
    "then", ["close", "rst", pytest.param("blackhole", marks=pytest.mark.slow)]
)
def test_the_connection_dies_with_the_grant(client, other, proxy, view, then):
    holding, lock = other.lock(view.name, ttl=TTL), client.lock(view.name, ttl=TTL)
    holding.acquire()
    fault = proxy.on("granted", "drop_reply", then=then)
    ending = spawn(outcome, lock.acquire, timeout=10.0)
    view.until_waiting(1)
    holding.release()
    fault.wait()
    result, _ = ending.result(20)
    assert told_the_truth(result, lock, view, "close")
    lock.release()
    assert view.free()


@every_loss
def test_renewal_by_wish(client, proxy, view, how):
    lock = client.lock(view.name, ttl=TTL)
    lock.acquire()
    lease, before = lock.lease, lock.lease.deadline
    fault = proxy.on("renew", how.action, then=how.then)
    result, took = outcome(lease.renew, TTL * 2)
    fault.wait()
    if how.then in {"close", "rst"}:
        assert result is None
        assert lease.deadline > before + TTL / 2
    else:
        assert isinstance(result, UNKNOWN)
        assert took < TIMEOUT + 0.1 + machine_seconds()
        assert lease.deadline < before + TTL / 2, "an unknown renewal does not count"
    assert view.holder() == lease.holder
    assert view.remaining() >= lease.remaining()
    lock.release()
    assert view.free()


@every_loss
def test_renewal_by_wish_for_less(client, proxy, view, how):
    """It changes nothing, whether it ran or not."""
    lock = client.lock(view.name, ttl=TTL, renew=False)
    lock.acquire()
    lease, before = lock.lease, lock.lease.deadline
    fault = proxy.on("renew", how.action, then=how.then)
    outcome(lease.renew, TTL / 2)
    fault.wait()
    assert lease.deadline == before
    assert view.remaining() >= lease.remaining()
    outcome(lock.release)
    view.until_free(UNDONE_SECONDS)


@every_loss
def test_release(client, proxy, view, how):
    lock = client.lock(view.name, ttl=TTL)
    lock.acquire()
    lease = lock.lease
    fault = proxy.on("release", how.action, then=how.then)
    result, took = outcome(lock.release)
    fault.wait()
    assert lease.remaining() == 0, "what was given back proves nothing, whatever is known of it"
    assert isinstance(outcome(lease.check)[0], NotHeld)
    assert isinstance(outcome(lease.renew)[0], NotHeld)
    assert isinstance(outcome(lock.release)[0], NotHeld)
    if isinstance(result, UNKNOWN):
        assert how.then in {"silence", "blackhole"}
        assert took < TIMEOUT + 0.1 + machine_seconds()
        view.until_free(UNDONE_SECONDS)
    else:
        assert result is None
        assert view.free()


@every_loss
def test_release_to_the_next_in_line(client, other, proxy, view, how):
    lock, waiting = client.lock(view.name, ttl=TTL), other.lock(view.name, ttl=TTL)
    lock.acquire()
    ending = spawn(outcome, waiting.acquire, timeout=15.0)
    view.until_waiting(1)
    fault = proxy.on("release", how.action, then=how.then)
    outcome(lock.release)
    fault.wait()
    assert ending.result(20)[0] is True
    proxy.forget()
    client.close()  # waits for what is still under way
    assert view.holder() == waiting.lease.holder, "a repeated release freed the next one's lock"
    assert not waiting.lease.lost
    waiting.release()
    assert view.free()
