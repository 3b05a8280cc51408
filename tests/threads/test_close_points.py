"""A client that another thread closes, at every point of a call (I9, I10).

The caller is stopped there until the client is closed, or until the closing waits for the caller.
Then its call ends by itself, and nothing is left that others would wait for.
"""

import contextlib
import threading
from functools import partial

import pytest

import fencelock
from fencelock import FencelockError
from fencelock._core.lock.maintain import lose_all
from tests.threads.points import Meanwhile, Strike, Watched, at_every_point
from tests.threads.state import ended, thread, waiting
from tests.threads.test_interrupt_points import MADE, STATES, known
from tests.threads.test_interrupt_points import pytestmark as as_struck
from tests.topologies.quorum import Quorum
from tests.waiting import until

pytestmark = as_struck

WITHIN = 0.005  # for waiters to leave: the one that was stopped cannot
GIVE_BACK = 4.0  # for leases to be given back
KINDS = [kind for kind in MADE if kind not in {"multi", "poll"}]


class Caller:
    """What others know of the thread that is stopped."""

    def __init__(self, strike, closing):
        self.over = False
        self._strike = strike
        self._closing = closing
        self._watched = Watched(threading.get_ident())

    @contextlib.contextmanager
    def closed_asleep(self, other):
        """Close the client once the caller sleeps unstruck; if that does not wake it, fail.

        Then the ``other`` client releases what the caller waits for.
        """
        closer = thread(self._close_once_asleep, other)
        yield
        self.over = True
        ended(closer)

    def _close_once_asleep(self, other):
        try:
            until(lambda: self.over or self._strike.where or self._watched.still())
            if not (self.over or self._strike.where):
                self._closing.end()
            until(lambda: self.over, f"the call ends: {self._strike.where}")
        except AssertionError:
            other.close(release=True)
            raise


def used(handle):
    """Enter and leave; when its client is closed meanwhile, either ends with an error."""
    with contextlib.suppress(FencelockError), handle:
        pass


def closed(server, prefix, story, tried, *, release, strikes=None):
    """Play a story with a close at a point that was not tried; return where that was.

    What ``strikes``, if given, comes before: the close then comes after the story.
    """
    client = fencelock.Client(server.url, key_prefix=prefix)
    with fencelock.Client(server.url, key_prefix=prefix) as other:
        within = GIVE_BACK if release else WITHIN
        close = partial(client._port.shut, within, release=release)
        closing = Meanwhile(close if strikes is None else partial(strikes, client))
        strike = Strike(tried, closing)
        after = story(client, other, strike, closing)
        where = f"nothing is left of a close: {strike.where}"
        closing.end()
        close()
        assert len(client._port.lines) == 0, where
        assert client._port.renewals.holds == 0, where
        until(lambda: waiting(server, prefix) == 0, where)
        assert after.acquire(timeout=8), where
        after.release()
    return strike.where


def every_point(server, prefix, story, least, *, release=True, strikes=None):
    """Play a story until its client was closed, or struck, at each of its points."""

    def play(number, tried):
        return closed(server, f"{prefix}{number}:", story, tried, release=release, strikes=strikes)

    at_every_point(play, least)


def alone(kind):
    """Nobody else is there."""

    def story(client, other, strike, closing):
        handle = MADE[kind](client)
        used(handle)
        with strike:
            used(handle)
        return known(MADE["write" if kind == "read" else kind](other))

    return story


@pytest.mark.parametrize("kind", KINDS)
def test_closed_at_every_point_of_a_turn(server, prefix, kind):
    """What was acquired is given back, also when its answer comes after the closing."""
    every_point(server, prefix, alone(kind), least=100)


def test_closed_at_every_point_of_a_renewal(server, prefix):
    """As found: between two tables of the client, a lease was missed, and stayed for its ttl."""

    def story(client, other, strike, closing):
        handle = client.lock("a")
        handle.acquire()
        with strike, contextlib.suppress(FencelockError):
            handle.lease.renew(15)
        closing.end()  # while the handle is there
        return other.lock("a")

    every_point(server, prefix, story, least=50)


@pytest.fixture(scope="module")
def quorum():
    with Quorum(3) as nodes:
        yield nodes


def test_a_quorum_is_closed_at_every_point_of_a_turn(quorum, prefix):
    """As found: the leases of nodes that ended before they formed one were an OverflowError."""
    every_point(quorum, prefix, alone("lock"), least=300)


def two_are_taken(client):
    """Two of three nodes have no lease of this client any more."""
    for node in client._port.nodes[:2]:
        lose_all(node, "taken")


def test_a_quorum_loses_its_majority_at_every_point_of_a_turn(quorum, prefix, caplog):
    """A majority that was lost before the lease had begun is a loss, and nothing else."""

    def story(client, other, strike, closing):
        handle = client.lock("a")
        used(handle)
        with strike, contextlib.suppress(FencelockError), handle, client._port.mutex:
            client._port.renewals.next_at()  # as the renewal thread does when it looks
        return known(other.lock("a"))

    every_point(quorum, prefix, story, least=300, strikes=two_are_taken)
    assert "failed" not in caplog.text


def behind_another(kind):
    """Another client holds all the time: the call must not wait for it."""

    def story(client, other, strike, closing):
        handle, first = MADE[kind](client), known(MADE[kind](other))
        used(MADE[kind](client))
        first.acquire()
        caller = Caller(strike, closing)
        with caller.closed_asleep(other), strike:
            used(handle)
        first.release()
        return first

    return story


@pytest.mark.parametrize("kind", ["lock", "semaphore"])  # one of each flow
def test_closed_at_every_point_until_the_waiter_sleeps(server, prefix, kind):
    """As found: a waiter whose place came while the client was closed waited for its grant."""
    every_point(server, prefix, behind_another(kind), least=100, release=False)


def granted(kind):
    """Another client hands over once the caller is in line."""

    def story(client, other, strike, closing):
        handle, first = MADE[kind](client), known(MADE[kind](other))
        used(MADE[kind](client))
        held, over = threading.Event(), threading.Event()

        def hand_over():
            first.acquire()
            held.set()
            until(lambda: over.is_set() or len(client._port.lines))
            first.release()

        releases = thread(hand_over)
        held.wait()
        with strike:
            used(handle)
        over.set()
        ended(releases)
        return first

    return story


@pytest.mark.parametrize("kind", ["lock", "write"])  # one of each flow
def test_closed_at_every_point_of_a_wait_that_is_granted(server, prefix, kind):
    every_point(server, prefix, granted(kind), least=100)


def in_a_cohort(client, other, strike, closing):
    """Two threads of the same client wait behind the caller."""
    used(client.lock("a"))
    first = other.lock("a")
    first.acquire()
    lines = client._port.lines
    begun = threading.Event()

    def follow():
        begun.wait()
        until(lambda: strike.where or lines.cohorts or caller.over)
        used(client.lock("a"))

    caller = Caller(strike, closing)
    behind = [thread(follow) for _ in range(2)]
    with caller.closed_asleep(other), strike:
        begun.set()
        used(client.lock("a"))
    closing.end()
    for each in behind:
        ended(each)
    first.release()
    return first


def test_closed_at_every_point_while_others_wait_behind(server, prefix):
    every_point(server, prefix, in_a_cohort, least=100, release=False)


def test_closed_at_every_point_of_a_wait_for_a_state(server, prefix):
    """One flow waits for all states: an event's is one of them."""

    def story(client, other, strike, closing):
        state = STATES["event"](client)
        caller = Caller(strike, closing)
        with caller.closed_asleep(other):
            waited(state, strike)
        return other.lock("b")

    every_point(server, prefix, story, least=50)


def waited(state, strike):
    """Wait until the client is closed."""
    with contextlib.suppress(FencelockError), strike:
        state.wait()
