"""Ctrl-C at every point of a turn within a cohort, of a kept lease, and of a notified wait (I9).

Other threads of the same client wait before and behind the one that is struck: each of them has
its turn.
"""

import threading

import pytest

import fencelock
from fencelock import Cohort
from fencelock._core.deadlines import HANDOFF_TTL_SECONDS
from fencelock._core.lock.tenure import Tenure
from tests.threads.state import ended, thread
from tests.threads.test_interrupt_points import entered, every_point, pytestmark
from tests.waiting import until

__all__ = ["pytestmark"]

LINGER = 0.02  # each play waits for the end of what is kept
OPTIONS = {
    "turns": {"cohort": Cohort(turns=64, seconds=60)},
    "bound": {"cohort": Cohort(turns=1, seconds=60)},  # each turn goes through the server's line
    "kept": {"cohort": Cohort(turns=64, seconds=60), "linger": LINGER},
}


def waiting(client):
    """Return how many wait for another thread of their client."""
    return sum(len(line.waiting) for line in client._port.lines.crowded)


class Turns:
    """Threads of one client that take a lock in turn."""

    def __init__(self, client, **options):
        self._client = client
        self._options = options
        self._threads = []
        self._had = []

    def take(self, held_until=lambda: True):
        """Start a thread that takes the lock, and holds it until something is true."""
        self._threads.append(thread(self._take, held_until))

    def _take(self, held_until):
        with self._client.lock("a", **self._options):
            until(held_until)
            self._had.append(None)

    def end(self, where):
        """Wait for all; each had its turn."""
        for each in self._threads:
            ended(each)
        assert len(self._had) == len(self._threads), where


def between(options):
    """Return a story: the one that is struck waits behind one thread, and before another."""

    def story(client, other, strike):
        handle, turns, over = client.lock("a", **options), Turns(client, **options), []
        held = threading.Event()

        def behind():
            until(lambda: over or waiting(client) == 1)
            turns.take()

        turns.take(lambda: held.set() or over or waiting(client) == 2)
        assert held.wait(8)
        later = thread(behind)
        with strike:
            entered(handle)
        over.append(None)
        ended(later)
        turns.end(strike.where)
        until(lambda: not client._port.lines.cohorts or "linger" not in options)
        return handle, other.lock("a")

    return story


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_ctrl_c_at_every_point_of_a_turn(server, prefix, options):
    every_point(server, prefix, between(options), least=200)


def taken_again(client, other, strike):
    """A lease that was kept is taken again."""
    handle = client.lock("a", linger=LINGER)
    until(lambda: client._port.hears or entered(handle) is None)
    entered(handle)
    with strike:
        entered(handle)
    until(lambda: not client._port.lines.cohorts)
    return handle, other.lock("a")


def test_ctrl_c_at_every_point_of_a_kept_lease(server, prefix):
    every_point(server, prefix, taken_again, least=50)


def test_a_lease_that_was_about_to_be_kept_is_given_back(server, prefix, monkeypatch):
    """As found: it stayed until its ttl, as nothing knew of it any more."""
    client, other = (fencelock.Client(server.url, key_prefix=prefix) for _ in range(2))
    handle, end_turn = client.lock("a", linger=LINGER), Tenure._end_turn

    def interrupted(tenure, hold, length):
        end_turn(tenure, hold, length)
        raise KeyboardInterrupt

    until(lambda: client._port.hears or entered(handle) is None)
    handle.acquire()
    monkeypatch.setattr(Tenure, "_end_turn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        handle.release()
    after = other.lock("a")
    assert after.acquire(timeout=HANDOFF_TTL_SECONDS / 2)
    after.release()
    for each in (client, other):
        each.close()


def test_a_turn_that_is_given_to_a_waiter_while_it_gives_up_is_given_back(
    server, prefix, monkeypatch
):
    """As found: a waiter read what it had been given, and was given a turn before it left."""
    client, other = (fencelock.Client(server.url, key_prefix=prefix) for _ in range(2))
    first = client.lock("a", cohort=Cohort(turns=64, seconds=60))
    leave = Tenure.leave

    def interrupted(waiter, until):
        raise KeyboardInterrupt

    def late(line, waiter):
        monkeypatch.setattr(Tenure, "leave", leave)
        first.release()  # as the thread that holds it may do at this moment
        return leave(line, waiter)

    first.acquire()
    monkeypatch.setattr(client._port, "_wait_for_bell", interrupted)
    monkeypatch.setattr(Tenure, "leave", late)
    with pytest.raises(KeyboardInterrupt):
        client.lock("a", cohort=Cohort(turns=64, seconds=60)).acquire()
    after = other.lock("a")
    assert after.acquire(timeout=8)
    after.release()
    for each in (client, other):
        each.close()
