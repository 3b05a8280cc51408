"""Ctrl-C at every point at which Python looks for signals, one after the other (I9)."""

import contextlib
import threading
from functools import partial

import pytest

import fencelock
from fencelock import AcquireTimeout, OutcomeUnknown
from fencelock._core.keys import LockKeys
from fencelock._core.lock.tenure import Tenure
from fencelock._core.quorum.acquire import QuorumAttempt
from fencelock._io.bounded_call import within
from fencelock._io.connection_blocking import Connection
from fencelock._runtime.clock import now
from tests import kinds
from tests.replication import replicated
from tests.threads.points import Strike, at_every_point
from tests.threads.state import ended, lease_threads, thread, waiting
from tests.topologies.quorum import Quorum
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,
    # A strike at the first instruction of a call: the flow was made and never begun.
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    # Handles with a timeout for their blocks are acquired here, too.
    pytest.mark.filterwarnings("ignore:.* limits its with block:UserWarning"),
    # A strike inside a finalizer is reported, and goes no further.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

MADE = kinds.MADE | {
    "poll": lambda client, **options: client.lock("a", wait=fencelock.Poll(interval=1), **options),
    "locked": lambda *args, **options: Decorated(*args, **options),  # noqa: PLW0108 - it is below
}


class Decorated:
    """A decorated function that is called as a body."""

    def __init__(self, client, **options):
        self._semaphore = client.lock("a", **options)
        self._call = client.locked("a", **options)(lambda: None)

    def __enter__(self):
        self._call()

    def __exit__(self, *_):
        """Do nothing: the call has ended."""


def entered(handle):
    """Enter and leave; return True if no Ctrl-C came."""
    try:
        with handle:
            pass
    except (AcquireTimeout, OutcomeUnknown):  # the machine may be too busy to leave in time
        return True
    except KeyboardInterrupt:
        return False
    return True


def known(handle):
    """Return what acquires, of a handle that may only be entered."""
    return getattr(handle, "_semaphore", handle)


def fronts(client):
    """Return what the client's next waiters would wait for."""
    each = client._port.lines.cohorts.values()
    return [one for one in each if not isinstance(one, Tenure) or one.front is not None]


def struck(server, prefix, story, tried, **options):
    """Play a story with a strike at a point that was not tried; return where that was."""
    client, other = (fencelock.Client(server.url, key_prefix=prefix, **options) for _ in range(2))
    strike = Strike(tried)
    handle, after = story(client, other, strike)
    where = f"nothing is left of a strike: {strike.where}"
    assert known(handle).lease is None or known(handle).lease.lost, where
    assert len(client._port.lines) == 0, where
    assert not fronts(client), where
    for each in (known(handle), after):  # the handle's own client has no waiter or turn left over
        assert each.acquire(timeout=8), where
        each.release()
    until(lambda: waiting(server, prefix) == 0, where)
    until(lambda: client._port.renewals.holds == 0, where)
    for each in (client, other):
        each._port.shut(0)  # not close(): an undo that ran may wait for its answer still
    return strike.where


def every_point(server, prefix, story, least, **options):
    """Play a story again and again, until a strike came at each of its points."""

    def play(number, tried):
        return struck(server, f"{prefix}{number}:", story, tried, **options)

    at_every_point(play, least)


def alone(kind, *, warm):
    def story(client, other, strike):
        handle = MADE[kind](client)
        if warm:
            entered(handle)
        with strike:
            entered(handle)
        after = MADE["write" if kind == "read" else "lock" if kind == "multi" else kind](other)
        return handle, known(after)

    return story


def known_free(client, where):
    """Fail if the client has anything left, which the program has no way to give back."""
    until(lambda: client._port.renewals.holds == 0, f"nothing is held or renewed: {where}")
    assert not fronts(client), where


REENTERED = {
    "rlock": lambda client, **options: client.rlock("a", **options),
    "write": lambda client, **options: client.rwlock("a", reentrant=True, **options).write,
    "read": lambda client, **options: client.rwlock("a", **options).read,
}


@pytest.mark.parametrize("how", ["with", "acquire"])
@pytest.mark.parametrize("options", [{}, {"renew": False}], ids=["renewed", "fixed"])
@pytest.mark.parametrize("kind", REENTERED)
def test_ctrl_c_at_every_point_of_an_inner_entry_leaves_the_outer_one(
    server, prefix, kind, options, how
):
    """As found: its count stayed too high, so the outer end released nothing."""

    def play(number, tried):
        strike = Strike(tried)
        client = fencelock.Client(server.url, key_prefix=f"{prefix}{number}:")
        handle = REENTERED[kind](client, **options)
        with handle as lease:
            with contextlib.suppress(KeyboardInterrupt):
                if how == "with":
                    with strike, handle:
                        pass
                else:
                    with strike:
                        handle.acquire()
                    handle.release()
            assert lease.remaining() > 0, strike.where
        known_free(client, strike.where)
        client._port.shut(0)
        return strike.where

    at_every_point(play, least=10)


@pytest.mark.parametrize("how", ["with", "campaign"])
@pytest.mark.parametrize("leads", [False, True], ids=["elected", "joins"])
def test_ctrl_c_at_every_point_of_a_campaign(server, prefix, leads, how):
    """As found: it led for ever, unknown to its program, or could never campaign again."""

    def play(number, tried):
        strike = Strike(tried)
        client = fencelock.Client(server.url, key_prefix=f"{prefix}{number}:")
        election = client.election("a")
        with election if leads else contextlib.nullcontext():
            struck = False
            try:
                if how == "with":
                    with strike, election:
                        pass
                else:
                    with strike:
                        assert election.campaign()
            except KeyboardInterrupt:
                struck = True
            assert not leads or election.is_leader, strike.where
            if how == "campaign" and not struck and not leads:
                election.resign()
        if not struck and leads and how == "campaign" and election.is_leader:
            election.resign()  # it campaigned: the body's end is not its own
        known_free(client, strike.where)
        assert election.campaign(timeout=8), strike.where
        election.resign()
        client._port.shut(0)
        return strike.where

    at_every_point(play, least=10)


def in_line(kind, timeout):
    def story(client, other, strike):
        handle, first = MADE[kind](client, timeout=timeout), MADE[kind](other)
        first.acquire()
        entered(MADE[kind](client, timeout=0.001))  # it is connected
        over = threading.Event()

        def hand_over():
            until(lambda: over.is_set() or (timeout is None and len(client._port.lines)))
            first.release()

        releases = thread(hand_over)
        with strike:
            entered(handle)
        over.set()
        ended(releases)
        return handle, first

    return story


@pytest.mark.parametrize(
    "kind",
    [pytest.param("multi", marks=pytest.mark.daily), *(each for each in MADE if each != "multi")],
)
@pytest.mark.refcounts
def test_ctrl_c_at_every_point_leaves_nothing(server, prefix, kind):
    """No lease that its handle does not know of: each outcome is kept before it is handed on.

    As found: permits were taken out of a semaphore, and the flow to give them back had not got
    them yet.
    """
    every_point(server, prefix, alone(kind, warm=True), least=100)


def test_ctrl_c_at_every_point_of_a_first_acquire(server, prefix):
    """While it connects and starts its thread too."""
    every_point(server, prefix, alone("lock", warm=False), least=300)


@pytest.fixture(scope="module")
def master():
    with replicated() as servers:
        yield servers[0]


@pytest.mark.parametrize("kind", ["lock", "semaphore", "read"])
def test_ctrl_c_at_every_point_while_replicas_acknowledge(master, prefix, kind):
    """A grant that was struck before its acknowledgement is undone as any other."""
    every_point(master, prefix, alone(kind, warm=True), least=100, replicas=1)


@pytest.mark.parametrize("kind", ["lock", "semaphore"])
@pytest.mark.parametrize("timeout", [None, 0.002], ids=["granted", "timed out"])
def test_ctrl_c_at_every_point_of_a_wait_in_line(server, prefix, kind, timeout):
    """Wherever the grant is at that moment: with the server, on its way, or in the waiter."""
    every_point(server, prefix, in_line(kind, timeout), least=150)


@pytest.fixture(scope="module")
def nodes():
    with Quorum(3) as nodes:
        yield nodes


def test_ctrl_c_at_every_point_leaves_nothing_on_any_node_of_a_quorum(nodes, prefix):
    """A majority would be granted all the same, so each node is looked at."""
    at_every_point(partial(on_nodes, nodes, prefix, alone("lock", warm=True)), least=300)


def on_nodes(nodes, prefix, story, number, tried):
    """Play a story as ``struck``; fail if a node of a quorum still has the lock."""
    where = struck(nodes, f"{prefix}{number}:", story, tried)
    lock = LockKeys(f"{prefix}{number}:", "a").lock
    for node in nodes.nodes:
        until(lambda: not node.command("EXISTS", lock), where)  # noqa: B023 - it is called here
    return where


def undone(monkeypatch, owner, name):
    """A story whose first strike comes as a method returns, and whose second meets the undo."""
    method = getattr(owner, name)

    def story(client, other, strike):
        handle = client.lock("a")
        entered(handle)
        first = iter([True])

        def interrupted(*args):
            answer = method(*args)
            if next(first, False):
                strike.__enter__()
                raise KeyboardInterrupt
            return answer

        with monkeypatch.context() as patched:
            patched.setattr(owner, name, interrupted)
            assert not entered(handle)
            strike.__exit__()
        return handle, other.lock("a")

    return story


def test_a_second_ctrl_c_at_every_point_of_the_undo_leaves_nothing_on_any_node_of_a_quorum(
    nodes, prefix, monkeypatch
):
    """The first one comes when all nodes have granted."""
    story = undone(monkeypatch, QuorumAttempt, "count")
    at_every_point(partial(on_nodes, nodes, prefix, story), least=150)


def test_a_second_ctrl_c_at_every_point_of_the_undo_leaves_nothing(server, prefix, monkeypatch):
    """The first one comes when the lock is granted, before a hold has it."""
    every_point(server, prefix, undone(monkeypatch, Connection, "run"), least=20)


STATES = {
    "event": lambda client: client.event("a"),
    "latch": lambda client: client.latch("a", 1),
}


@pytest.mark.parametrize("kind", STATES)
def test_ctrl_c_at_every_point_of_a_wait_for_a_state(server, prefix, kind):
    """I10: a client that waits no more has no thread, and closes at once."""

    def play(number, tried):
        strike = Strike(tried)
        client = fencelock.Client(server.url, key_prefix=f"{prefix}{number}:")
        waited = STATES[kind](client)
        with contextlib.suppress(KeyboardInterrupt), strike:
            waited.wait(0.002)
        assert len(client._port.lines) == 0, strike.where
        client._port.shut(0)
        return strike.where

    at_every_point(play, least=100)
    until(lambda: not lease_threads(), "the threads' end")


def asked(key, dispose=None):
    """Have work done in a thread; return its result, or nothing after Ctrl-C."""
    try:
        return within(now() + 8, key, object, name="asked", dispose=dispose)
    except KeyboardInterrupt:
        return None


@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
def test_ctrl_c_at_every_point_of_work_that_knows_no_deadline(own):
    """As found: a name that no thread looked up was waited for ever after by all callers."""

    def play(number, tried):
        strike = Strike(tried)
        with strike:
            asked(number, id if own else None)
        assert asked(number, id if own else None) is not None
        return strike.where

    at_every_point(play, least=20)
