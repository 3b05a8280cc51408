"""Waiting survives what happens to messages, connections and servers (I5, I6).

A lost wake-up costs time: at most the 2 s after which a waiter looks by itself. A dead connection
costs nothing: the waiter comes back and asks.
"""

import pytest

from fencelock import FencelockError
from fencelock._runtime.clock import now
from tests.faults.conftest import load
from tests.faults.world import allowed_seconds, in_line, outcome, until_served, wait_until

pytestmark = pytest.mark.one_face

LOOK_SECONDS = 2.0


def test_a_lost_wake_up_costs_a_look(connect, server, proxy, view, name):
    holding, lock = connect(server.url).lock(name, ttl=60), connect(proxy.url).lock(name, ttl=60)
    holding.acquire()
    (waiting,) = in_line([lock], view)
    lost = proxy.on("granted", "drop_push")
    released = now()
    holding.release()
    lost.wait()
    assert waiting.result(20) is True
    assert now() - released < LOOK_SECONDS + allowed_seconds()
    assert view.holder() == lock.lease.holder
    assert lock.lease.remaining() <= view.remaining()
    lock.release()
    assert view.free()


def wanted(connect, view, ttl=60):
    """Return a lock that is held, and three that wait for it with their futures."""
    holding, *locks = (
        connect(view.server.url).lock(view.name, ttl=length) for length in (ttl, 60, 60, 60)
    )
    holding.acquire()
    return holding, locks, in_line(locks, view)


@pytest.mark.parametrize("kind", ["pubsub", "all"])
def test_the_waiters_connection_is_killed(connect, server, view, kind):
    holding, locks, waiting = wanted(connect, view)
    for line in server.command("CLIENT", "LIST").splitlines():
        client = dict(field.split("=", 1) for field in line.split(" ") if "=" in field)
        if kind == "all" or int(client["sub"]):
            server.command("CLIENT", "KILL", "ID", client["id"])
    wait_until(lambda: listeners(server) >= 3, what="all listen again")
    released = now()
    holding.release()
    until_served(locks, waiting, view)
    assert now() - released < LOOK_SECONDS + allowed_seconds()


def listeners(server):
    listening = [line for line in server.command("CLIENT", "LIST").splitlines() if " sub=1" in line]
    return len(listening)


@pytest.mark.slow
def test_scripts_are_flushed_while_they_wait_and_hold(connect, server, view):
    holding, locks, waiting = wanted(connect, view, ttl=6)
    lease = holding.lease
    server.command("SCRIPT", "FLUSH")
    before = lease.deadline
    wait_until(lambda: lease.deadline > before, what="a renewal that brings the script along")
    server.command("SCRIPT", "FLUSH")
    holding.release()
    until_served(locks, waiting, view)
    load(server)


@pytest.mark.slow
def test_everything_is_flushed_while_they_wait_and_hold(connect, server, view):
    """The holder is told at its next renewal; those in line come back by their next look."""
    holding, locks, waiting = wanted(connect, view, ttl=12)
    lease = holding.lease
    server.flushall()
    wait_until(lambda: lease.lost, what="the loss is told")
    begun = now()
    until_served(locks, waiting, view)
    assert now() - begun < LOOK_SECONDS + allowed_seconds()


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_the_server_restarts_while_they_wait_and_hold(
    connect, own_server, own_view, persistent, how
):
    if persistent:
        own_server.command("CONFIG", "SET", "appendonly", "yes")
        wait_until(lambda: own_server.info("persistence")["aof_rewrite_in_progress"] == "0")
        own_server._options += ["--appendonly", "yes"]
    holding, locks, waiting = wanted(connect, own_view)
    getattr(own_server, how)()
    own_server.start()
    released, _ = outcome(holding.release)
    assert released is None if persistent else isinstance(released, FencelockError | None)
    until_served(locks, waiting, own_view)


@pytest.mark.parametrize("size", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_a_listener_that_reads_too_slowly_is_cut_off(start, own_server, own_view, size):
    """A frozen subscriber's output piles up, the server cuts it off; when it wakes it is back."""
    own_server.command("CONFIG", "SET", "client-output-buffer-limit", "pubsub 65536 65536 1")
    holder, *waiters = start(own_server.url, count=3)
    for child in (holder, *waiters):
        child.lock(own_view.name, ttl=60)
    holder.acquire(own_view.name)
    asked = []
    for number, child in enumerate(waiters, 1):
        asked.append(child.ask("acquire", own_view.name))
        own_view.until_waiting(number)
    for child in waiters:
        child.pause()
    channels = own_server.command("PUBSUB", "CHANNELS", "*")
    for _ in range(size * 10):
        for channel in channels:
            own_server.command("PUBLISH", channel, "x" * 1_000_000)
    wait_until(lambda: listeners(own_server) <= 1, what="cut off")
    for child in waiters:
        child.resume()
    wait_until(lambda: listeners(own_server) >= 2, what="they listen again")
    holder.tell("release", own_view.name)
    left = dict(zip(asked, waiters, strict=True))
    while left:
        wait_until(lambda: any(each.done() for each in left), what="the next grant")
        for each in [each for each in left if each.done()]:
            assert each.result()["granted"]
            left.pop(each).tell("release", own_view.name)
    own_view.until_free()
