"""A request arrives after its connection was reset and it was asked again elsewhere.

A balancer or proxy between client and server can do that. Requests of who holds no more change
nothing for others. A late acquire does: it takes the lock for nobody until its ttl ends. That is
the price of asking again; a resource that checks fences is not touched by it.
"""

import pytest

from fencelock import OutcomeUnknown, ServerUnreachable
from tests.faults.world import outcome, wait_until

pytestmark = pytest.mark.one_face

UNKNOWN = (OutcomeUnknown, ServerUnreachable)


@pytest.fixture
def client(connect, proxy):
    return connect(proxy.url)


@pytest.fixture
def successor(connect, view):
    """Somebody else's handle of the same lock."""
    return connect(view.server.url).lock(view.name, ttl=60, renew=False)


def arrived(proxy, fault, script):
    """Let the late request arrive; return once the server has run it."""
    before = proxy.server.commandstats().get("evalsha", 0)
    fault.arrive()
    wait_until(
        lambda: proxy.server.commandstats().get("evalsha", 0) > before, what=f"the late {script}"
    )


@pytest.mark.parametrize("then", ["release", "renew", "abandon"])
def test_a_late_request_changes_nothing_for_the_successor(client, proxy, view, successor, then):
    lock = client.lock(view.name, ttl=60)
    if then == "abandon":
        successor.acquire()
        late = proxy.on("abandon", "late_request")
        outcome(lock.acquire, timeout=0.05)
    else:
        lock.acquire()
        late = proxy.on(then, "late_request")
        outcome(lock.lease.renew if then == "renew" else lock.release)
        if then == "renew":
            lock.release()
        successor.acquire(timeout=20)
    late.wait()
    before = view.remaining()
    arrived(proxy, late, then)
    assert view.holder() == successor.lease.holder
    assert view.remaining() <= before
    view.until_waiting(0)
    successor.release()
    assert view.free()


def test_an_undo_does_not_overtake_its_request(client, proxy, view):
    """The request is held up on its way; given up, its undo comes behind it, wherever that is."""
    slow = proxy.on("acquire", "delay_request")
    result, _ = outcome(client.lock(view.name, ttl=60).acquire, timeout=0.2)
    assert isinstance(result, UNKNOWN)
    for _ in range(30):  # what goes another way is there by now
        proxy.server.command("PING")
    slow.go.set()
    record = view.keys.grant[1].decode()
    wait_until(lambda: proxy.server.command("EXISTS", record), what="the request ran")
    view.until_free()
