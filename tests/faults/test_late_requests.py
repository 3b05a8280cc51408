"""A request arrives after its connection was reset and it was asked again elsewhere.

A balancer or proxy between client and server can do that. Requests of who holds no more change
nothing for others. A late acquire does: it takes the lock for nobody until its ttl ends. That is
the price of asking again; a resource that checks fences is not touched by it.
"""

import pytest

from fencelock import OutcomeUnknown, ServerUnreachable
from fencelock._core.deadlines import HANDOFF_TTL_SECONDS
from tests.faults.world import outcome, wait_until
from tests.waiting import machine_seconds

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


@pytest.mark.parametrize("action", ["drop_reply", "late_request"])
def test_a_late_renewal_shortens_nothing(connect, proxy, view, action):
    """It may come at any time, after others (I2)."""
    lock = connect(proxy.url, server_timeout=0.5).lock(view.name, ttl=6)
    lock.acquire()
    late, before = proxy.on("renew", action), lock.lease.deadline
    outcome(lock.lease.renew, 3)
    assert lock.lease.deadline >= before
    late.wait()
    lock.lease.renew(60)
    if action == "late_request":
        arrived(proxy, late, "renew")
    assert 55 < lock.lease.remaining() <= view.remaining()
    lock.release()


def test_a_late_acquire_while_the_lock_is_held_changes_nothing(client, proxy, view):
    late = proxy.on("acquire", "late_request")
    lock = client.lock(view.name, ttl=60)
    lock.acquire()
    fence = lock.lease.fence
    arrived(proxy, late, "acquire")
    assert view.holder() == lock.lease.holder
    lock.release()
    assert view.free()
    lock.acquire()
    assert lock.lease.fence > fence
    lock.release()


def test_a_late_acquire_after_the_release_is_over_with_its_ttl(client, proxy, view, successor):
    ttl = 0.6
    late = proxy.on("acquire", "late_request")
    lock = client.lock(view.name, ttl=ttl)
    lock.acquire()
    outcome(lock.release)  # on a machine that stands still it was over before
    arrived(proxy, late, "acquire")
    assert successor.acquire(timeout=ttl + 0.1 + machine_seconds())
    successor.release()
    view.until_free()


@pytest.mark.usefixtures("patient")
def test_a_late_place_in_line_costs_a_claim(client, proxy, view, successor):
    """Its process lives and listens, so it is granted; nobody takes it, and the claim ends."""
    successor.acquire()
    late = proxy.on("acquire", "late_request")
    lock = client.lock(view.name, ttl=60)
    assert lock.acquire(timeout=0.2) is False
    arrived(proxy, late, "acquire")
    assert view.holder() == successor.lease.holder
    successor.release()
    view.until_free(HANDOFF_TTL_SECONDS + machine_seconds())


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
