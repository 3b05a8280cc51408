"""A waiter of a reader/writer lock dies at the head of the line (I7)."""

import pytest

from tests.faults.world import ShareView, wait_until

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
