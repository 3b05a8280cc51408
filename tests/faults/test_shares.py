"""Holders and waiters of semaphores and reader/writer locks die or freeze (I7).

A side of a reader/writer lock belongs to the thread or task that acquired it. What a child is asked
for runs in one of its own, so nothing releases it here: the child is killed, and its lease ends.
"""

import pytest

from fencelock._core.deadlines import HANDOFF_TTL_SECONDS
from fencelock._runtime.clock import now
from tests.faults.test_dead_and_frozen import slack
from tests.faults.world import ShareView, wait_until
from tests.waiting import machine_seconds

pytestmark = pytest.mark.either_face

KINDS = {"semaphore": {"limit": 2}, "read": {}, "write": {}}


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


@pytest.mark.slow
def test_a_killed_reader_does_not_end_the_others(server, start, view, name):
    """Its lease ends alone; the others are renewed on and on, and a writer waits for them."""
    dead, alive, writer = start(server.url, count=3)
    for child, ttl in ((dead, 1), (alive, 4)):
        child.make("read", name, read_ttl=ttl)
        child.acquire(name)
    asked = asks(writer, view, "write", name)
    dead.kill()
    wait_until(lambda: view.holders() == 1)
    assert not asked.done()
    alive.tell("check", name)
    assert alive.losses == []
    alive.kill()
    assert asked.result(20)["granted"]


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
    listening = len(server.command("PUBSUB", "CHANNELS"))
    dead.kill()
    wait_until(lambda: len(server.command("PUBSUB", "CHANNELS")) < listening, 5, "it is gone")
    alive.make("read", name)
    assert alive.acquire(name, timeout=5)["granted"]
    assert (view.holders(), view.waiting()) == (2, 1)
    assert connect(server.url).read(name).locked() is False, "who asks does not wait for it"


@pytest.mark.slow
def test_a_frozen_head_costs_its_claim(server, start, connect, view, name):
    frozen, alive = start(server.url, count=2)
    holder = connect(server.url).semaphore(name, limit=1)
    holder.acquire()
    late, asked = [asks(child, view, "semaphore", name, limit=1) for child in (frozen, alive)]
    frozen.pause()
    released = now()
    holder.release()
    assert asked.result(20)["returned"] - released < HANDOFF_TTL_SECONDS + slack()
    frozen.resume()
    alive.tell("release", name)
    assert late.result(20)["granted"], "the frozen one goes on waiting when it wakes"
    frozen.tell("release", name)
    assert view.free()


@pytest.mark.slow
def test_a_frozen_head_that_does_not_fit_is_taken_for_dead(server, start, connect, view, name):
    """A frozen writer holds up readers for three proofs of life at most (7 s), and a look."""
    frozen, alive = start(server.url, count=2)
    holder = connect(server.url).read(name)
    holder.acquire()
    late = asks(frozen, view, "write", name)
    frozen.pause()
    stopped = now()
    asked = asks(alive, view, "read", name)
    assert asked.result(15)["returned"] - stopped < 7 + 2 + 2 + slack()
    alive.kill()
    frozen.resume()
    view.until_waiting(1)
    assert not late.done(), "it asks again when it wakes, and stands behind the readers"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_holder_learns_of_its_loss_and_hurts_nobody(server, start, view, name, kind):
    """I8: stopped for longer than its ttl, it is told when it wakes; the others went on."""
    frozen, alive = start(server.url, count=2)
    options = {"limit": 1} if kind == "semaphore" else {}
    ttl = "ttl" if kind == "semaphore" else f"{kind}_ttl"
    frozen.make(kind, name, **options, **{ttl: 3})
    first = frozen.acquire(name)
    asked = asks(alive, view, "semaphore" if options else "write", name, **options)
    frozen.pause()
    second = asked.result(20)
    assert second["fence"] > first["fence"]
    frozen.resume()
    wait_until(lambda: frozen.losses, 5, "the loss is told")
    assert frozen.tell("check", name)["error"] == "LeaseLost"
    assert "error" not in alive.tell("check", name)
    assert view.holders() == 1
