"""Holders and waiters of semaphores and reader/writer locks die or freeze (I7).

A side of a reader/writer lock belongs to the thread or task that acquired it. What a child is asked
for runs in one of its own, so nothing releases it here: the child is killed, and its lease ends.
"""

import pytest

from fencelock._runtime.clock import now
from tests.faults.test_dead_and_frozen import slack
from tests.faults.world import ShareView, wait_until
from tests.waiting import machine_seconds

pytestmark = pytest.mark.either_face


@pytest.fixture
def view(server, name):
    return ShareView(server, name)


def asks(child, view, kind, name, **options):
    """Have a child wait in line; return what it was told, as a future."""
    before = view.waiting()
    child.make(kind, name, **options)
    asked = child.ask("acquire", name)
    view.until_waiting(before + 1)
    return asked


@pytest.mark.parametrize(
    ("held", "wanted"), [("semaphore", "semaphore"), ("read", "write"), ("write", "read")]
)
def test_a_killed_holders_permits_come_back_when_its_lease_ends(server, start, view, held, wanted):
    name = view.name
    holder, waiter = start(server.url, count=2)
    options = {"limit": 1} if held == "semaphore" else {}
    ttl = {"ttl" if held == "semaphore" else f"{held}_ttl": 1}
    holder.make(held, name, **options, **ttl)
    holder.acquire(name)
    asked = asks(waiter, view, wanted, name, **options)
    died = now()
    holder.kill()
    assert asked.result(20)["returned"] - died < 1 + slack()
    assert view.holders() == 1


def test_killed_waiters_are_skipped_at_once(server, start, connect, view, name):
    *dead, alive = start(server.url, count=3)
    holder = connect(server.url).semaphore(name, limit=1)
    holder.acquire()
    *_, asked = [asks(child, view, "semaphore", name, limit=1) for child in (*dead, alive)]
    for child in dead:
        child.kill()
    released = now()
    holder.release()
    assert asked.result(20)["returned"] - released < machine_seconds()
    alive.tell("release", name)
    assert view.free()


def test_a_killed_head_that_does_not_fit_holds_up_nobody(server, start, connect, view, name):
    """The server sees that nobody listens, also when the head is not granted anything.

    Its place stays until it was silent for 7 s: it may only be connecting again.
    """
    dead, alive = start(server.url, count=2)
    holder = connect(server.url).read(name)
    holder.acquire()
    asks(dead, view, "write", name)
    listening = set(server.command("PUBSUB", "CHANNELS"))
    dead.kill()
    wait_until(lambda: listening - set(server.command("PUBSUB", "CHANNELS")), 5, "it is gone")
    alive.make("read", name)
    assert alive.acquire(name, timeout=5)["granted"]
    assert (view.holders(), view.waiting()) == (2, 1)
    assert connect(server.url).read(name).locked() is False, "who asks does not wait for it"
