"""What another thread or client does at every point of a call (I1, I6, I9).

The explorer changes between threads where they talk to a server; Python does so anywhere.
"""

import contextlib
import threading

import pytest

import fencelock
from fencelock import Cohort, FencelockError, LeaseLost
from fencelock._core import pushes
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.tenure import Tenure
from fencelock._runtime.clock import now
from tests.threads.points import Meanwhile, Strike, at_every_point
from tests.threads.state import ended, thread, waiting
from tests.threads.test_interrupt_points import MADE, fronts, known
from tests.threads.test_interrupt_points import pytestmark as as_struck
from tests.waiting import until

pytestmark = as_struck

LINGER = 0.02  # each play waits for the end of what is kept
OPTIONS = {
    "turns": {"cohort": Cohort(turns=64, seconds=60)},
    "bound": {"cohort": Cohort(turns=1, seconds=60)},  # each turn goes through the server's line
    "kept": {"cohort": Cohort(turns=64, seconds=60), "linger": LINGER},
    "strict": {"cohort": None},
}
KINDS = [kind for kind in MADE if kind not in {"multi", "poll"}]
SHORT = 0.01  # a wait that is over while the other thread is stopped


def every_point(server, prefix, story, least=80):
    """Play a story until something came between at each of its points."""
    at_every_point(lambda number, tried: met(server, f"{prefix}{number}:", story, tried), least)


def met(server, prefix, story, tried):
    """Play a story once; return where something came between."""
    with contextlib.ExitStack() as stack:
        clients = [fencelock.Client(server.url, key_prefix=prefix) for _ in range(2)]
        for each in clients:
            stack.callback(each._port.shut, 0)
        strike, meanwhile, handles = story(*clients, tried)
        meanwhile.end()
        where = f"nothing is left of what came at {strike.where}"
        for handle in handles:
            assert handle.acquire(timeout=8), where
            handle.release()
        until(lambda: not any(fronts(each) for each in clients), where)
        until(lambda: waiting(server, prefix) == 0, where)
        until(lambda: not any(each._port.renewals.holds for each in clients), where)
        assert not any(len(each._port.lines) for each in clients), where
    return strike.where


def used(handle, **options):
    """Acquire and release, or not."""
    with contextlib.suppress(FencelockError):
        if handle.acquire(**options):
            handle.release()


def beside(tried, act, handle, *others, **options):
    """Use a handle while something else comes; return what ``met`` looks at then."""
    meanwhile = act if isinstance(act, Meanwhile) else Meanwhile(act)
    strike = Strike(tried, meanwhile)
    with strike:
        used(handle, **options)
    return strike, meanwhile, [handle, *others]


def released(handle):
    """Release, unless somebody else did."""
    with contextlib.suppress(FencelockError):
        handle.release()


def holder(handle):
    """Acquire in a thread, which releases when the one that is returned is called."""
    go, held = threading.Event(), threading.Event()

    def hold():
        handle.acquire()
        held.set()
        go.wait()
        handle.release()

    holding = thread(hold)
    assert held.wait(8)

    def release():
        go.set()
        ended(holding)

    return Meanwhile(release)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("seconds", [0.002, 0.03], ids=["soon", "later"])
def test_the_lock_is_released_while_another_thread_waits_and_gives_up(
    server, prefix, options, seconds
):
    def story(client, other, tried):
        first, handle = (client.lock("a", **options) for _ in range(2))
        used(handle)
        return beside(tried, holder(first), handle, other.lock("a"), timeout=seconds)

    every_point(server, prefix, story)


# What comes while one takes and releases: by another thread, with or without a handle of its own,
# or by another client. As found: a thread that released what it saw left the other one the front of
# its cohort, whose waiters waited until its ttl was over.
MEANWHILE = {
    "a thread tries": lambda _handle, ours, _theirs: used(ours, timeout=SHORT),
    "a thread releases": lambda handle, _ours, _theirs: handle.lease and released(handle),
    "a client takes turns": lambda _handle, _ours, theirs: used(theirs),
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("act", MEANWHILE.values(), ids=MEANWHILE)
def test_others_come_while_one_takes_and_releases(server, prefix, options, act):
    def story(client, other, tried):
        handle, ours, theirs = (each.lock("a", **options) for each in (client, client, other))
        used(handle)
        return beside(tried, lambda: act(handle, ours, theirs), handle, theirs)

    every_point(server, prefix, story)


@pytest.mark.parametrize("ttl", [0.5, 60])
@pytest.mark.parametrize("options", [OPTIONS["turns"], OPTIONS["kept"]], ids=["turns", "kept"])
def test_a_turn_ends_while_its_lease_is_renewed(server, prefix, options, ttl):
    """As found: the renewal was sent for the next turn, whose holder id is the same (I1)."""

    def story(client, other, tried):
        first, second = (client.lock("a", ttl=9, **options) for _ in range(2))
        first.acquire()
        lease = first.lease

        def next_turn():
            released(first)
            second.acquire()

        turn = Meanwhile(next_turn)
        strike = Strike(tried, turn)
        with strike, contextlib.suppress(FencelockError):
            lease.renew(ttl)
        turn.end()
        deadline = second.lease.deadline  # first: a renewal may come in between
        left = other.status("a").remaining
        assert deadline <= now() + left, strike.where
        second.release()
        return strike, turn, [second, other.lock("a")]

    every_point(server, prefix, story)


# With handles of their own, threads meet in the flow only: there is one of locks and one of shares.
@pytest.mark.parametrize(
    ("kind", "shared"),
    [*((kind, True) for kind in KINDS), ("lock", False), ("semaphore", False)],
    ids=lambda value: value if isinstance(value, str) else "same handle" if value else "own handle",
)
def test_another_thread_takes_turns(server, prefix, kind, shared):
    """It waits until it has had its turn."""

    def story(client, other, tried):
        handle = known(MADE[kind](client))
        second = handle if shared else known(MADE[kind](client))
        used(handle)
        after = known(MADE["write" if kind == "read" else kind](other))
        return beside(tried, lambda: used(second), handle, after)

    every_point(server, prefix, story)


@pytest.mark.parametrize("kind", ["lock", "rlock", "semaphore"])
def test_the_lease_is_revoked(server, prefix, kind):
    def story(client, other, tried):
        handle = known(MADE[kind](client))
        used(handle)
        after = known(MADE[kind](other))
        return beside(tried, lambda: other.revoke("a", reason="a test"), handle, after)

    every_point(server, prefix, story)


def stopped_as_it_is_lost(monkeypatch, *, begins):
    """Stop the thread that renews between what it knows and what it records.

    Returns what is set as the turn begins, as the loss is known, and by the test for it to go on.
    The turn ``begins`` only then, or else the operator's message is lost.
    """
    lose, begin = Hold.lose, Tenure.begin
    holds, known, record = (threading.Event() for _ in range(3))

    def recorded_late(hold, *args, **more):
        if threading.current_thread().name == "fencelock-leases":
            known.set()
            assert record.wait(8)
        return lose(hold, *args, **more)

    def begun_late(tenure, *args, **more):
        if not holds.is_set():
            holds.set()
            assert not begins or known.wait(8)
        begin(tenure, *args, **more)

    monkeypatch.setattr(Hold, "lose", recorded_late)
    monkeypatch.setattr(Tenure, "begin", begun_late)
    if not begins:
        monkeypatch.setitem(pushes.FOR_CLIENTS, b"revoked", lambda *_: None)
    return holds, known, record


@pytest.mark.parametrize(
    ("finds", "terms"),
    [("a message, as the turn begins", "turns"), ("a renewal", "turns"), ("a renewal", "kept")],
)
def test_a_lost_lease_is_no_other_turns_before_that_is_recorded(
    server, prefix, monkeypatch, finds, terms
):
    """As found: the thread that renews knew of it, and had not recorded it; two held (I1)."""
    client, other = (fencelock.Client(server.url, key_prefix=prefix) for _ in range(2))
    options = {**OPTIONS["turns"], "ttl": 1.2, "linger": 0.2 if terms == "kept" else None}
    first, following = (client.lock("a", **options) for _ in range(2))
    theirs, leave = other.lock("a"), threading.Event()
    holds, known, record = stopped_as_it_is_lost(monkeypatch, begins=finds != "a renewal")

    def take():
        first.acquire()
        assert leave.wait(8)
        with pytest.raises(LeaseLost):
            first.release()
        leave.clear()

    listens = client.lock("b")
    listens.acquire()
    until(lambda: client._port.hears)
    theirs.acquire()
    threads = [thread(take)]
    until(lambda: waiting(server, prefix) == 1)
    if terms == "turns":
        threads.append(thread(following.acquire))
        until(lambda: waiting(server, prefix) == 2)
    theirs.release()
    assert holds.wait(8)
    assert other.revoke("a", reason="a test") is not None
    assert known.wait(8)
    assert theirs.acquire(timeout=8)
    leave.set()
    until(lambda: not leave.is_set() and waiting(server, prefix) == len(threads) - 1)
    assert following.lease is None
    record.set()
    theirs.release()
    for each in threads:
        ended(each)
    for each in (client, other):
        each.close(release=True)
