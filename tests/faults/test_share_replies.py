"""A request for permits or its answer is lost: the truth is told, the count is right (I4, I9)."""

import pytest

from tests.faults.test_lost_replies import (
    LOSSES,
    TTL,
    UNDONE_SECONDS,
    UNKNOWN,
    time_for,
)
from tests.faults.world import ShareView, outcome, spawn

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
