"""A request for permits or its answer is lost: the truth is told, the count is right (I4, I9)."""

import pytest

from tests.faults.test_lost_replies import (
    LEAVE,
    LOSSES,
    TTL,
    UNDONE_SECONDS,
    UNKNOWN,
    time_for,
)
from tests.faults.world import ShareView, outcome, spawn, wait_until

LIMIT = 3
every_loss = pytest.mark.parametrize("how", LOSSES, ids=str)


class Counted(ShareView):
    """A semaphore whose counter is looked at, too."""

    def taken(self):
        """Return how many permits the scripts count."""
        lock, record, *_ = self.keys.grant
        if not self.server.command("EXISTS", lock):
            return 0  # then what the record counts has ended
        return int(self.server.command("GET", record).split()[4])

    def free(self):
        return super().free() and self.taken() == 0


@pytest.fixture
def view(server, name):
    return Counted(server, name)


@pytest.fixture
def semaphore(connect, proxy, name, request):
    """A handle of the face under test behind the proxy."""
    how = request.node.callspec.params.get("how")
    return connect(proxy.url, server_timeout=time_for(how)).semaphore(name, limit=LIMIT, ttl=TTL)


@pytest.fixture
def other(connect, server, name):
    """Another client's, on the server itself."""
    return connect(server.url).semaphore(name, limit=LIMIT, ttl=TTL)


@every_loss
@pytest.mark.parametrize("blocking", [True, False], ids=["acquire", "try"])
def test_acquire(semaphore, proxy, view, how, blocking):
    fault = proxy.on("shares_acquire", how.action, then=how.then)
    options = {"timeout": time_for(how)} if blocking else {}
    result, _ = outcome(semaphore.acquire, blocking, permits=2, **options)
    fault.wait()
    if isinstance(result, UNKNOWN):
        assert how.then in {"silence", "blackhole"}
        view.until_free(UNDONE_SECONDS)
    else:
        assert result is True
        assert (view.holders(), view.taken()) == (1, 2)
        semaphore.release(2)
        assert view.free()


@every_loss
def test_a_part_that_is_given_back(semaphore, proxy, view, how):
    semaphore.acquire(permits=3)
    fault = proxy.on("shares_release", how.action, then=how.then)
    result, _ = outcome(semaphore.release)
    fault.wait()
    assert result is None or isinstance(result, UNKNOWN)
    wait_until(lambda: view.taken() == 2, UNDONE_SECONDS, "one came back, and only one")
    outcome(semaphore.release, 2)
    view.until_free(UNDONE_SECONDS)


@every_loss
def test_release(semaphore, other, proxy, view, how):
    semaphore.acquire(permits=3)
    waits = spawn(other.acquire, permits=3)
    view.until_waiting(1)
    fault = proxy.on("shares_release", how.action, then=how.then)
    result, _ = outcome(semaphore.release, 3)
    fault.wait()
    assert result is None or isinstance(result, UNKNOWN)
    assert waits.result(UNDONE_SECONDS) is True
    assert (view.holders(), view.taken()) == (1, 3)
    other.release(3)
    assert view.free()


@every_loss
def test_leaving_the_line(semaphore, other, proxy, view, how):
    other.acquire(permits=2)
    outcome(semaphore.acquire, permits=2, timeout=LEAVE)  # to connect may take that long by itself
    fault = proxy.on("shares_abandon", how.action, then=how.then)
    result, _ = outcome(semaphore.acquire, permits=2, timeout=LEAVE)
    fault.wait()
    assert result is False or isinstance(result, UNKNOWN)
    view.until_waiting(0, UNDONE_SECONDS)
    assert (view.holders(), view.taken()) == (1, 2)
    other.release(2)
    assert view.free()


@pytest.mark.parametrize(
    "then", ["close", "rst", pytest.param("blackhole", marks=pytest.mark.slow)]
)
def test_the_connection_dies_with_the_grant(semaphore, other, proxy, view, then):
    other.acquire(permits=2)
    fault = proxy.on("granted", "drop_reply", then=then)
    ending = spawn(outcome, semaphore.acquire, permits=2, timeout=10.0)
    view.until_waiting(1)
    other.release(2)
    fault.wait()
    result, _ = ending.result(20)
    assert result is True
    assert (view.holders(), view.taken()) == (1, 2)
    semaphore.release(2)
    assert view.free()


@pytest.mark.parametrize("action", ["drop_request", "drop_reply"])
def test_a_limit_that_is_changed(semaphore, other, proxy, view, action):
    other.acquire(permits=3)
    waits = spawn(other.acquire, permits=2)
    view.until_waiting(1)
    fault = proxy.on("shares_limit", action, then="rst")
    assert outcome(semaphore.set_limit, 5)[0] is None
    fault.wait()
    assert waits.result(20) is True
    assert view.taken() == 5
    other.release(5)
    assert view.free()
