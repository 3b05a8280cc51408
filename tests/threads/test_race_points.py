"""What another thread or client does at every point of a call (I1, I6, I9).

The explorer changes between threads where they talk to a server; Python does so anywhere.
"""

import contextlib
import threading

import pytest

import fencelock
from fencelock import Cohort, FencelockError
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
        release = holder(first)
        strike = Strike(tried, release)
        with strike:
            used(handle, timeout=seconds)
        return strike, release, [handle, other.lock("a")]

    every_point(server, prefix, story)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_another_thread_tries_while_one_takes_and_releases(server, prefix, options):
    def story(client, other, tried):
        handle, second = (client.lock("a", **options) for _ in range(2))
        used(handle)
        tries = Meanwhile(lambda: used(second, timeout=SHORT))
        strike = Strike(tried, tries)
        with strike:
            used(handle)
        return strike, tries, [handle, other.lock("a")]

    every_point(server, prefix, story)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_another_thread_releases_what_it_sees(server, prefix, options):
    """As found: it stayed the front of its cohort, whose waiters waited until its ttl was over."""

    def story(client, other, tried):
        handle = client.lock("a", **options)
        used(handle)
        release = Meanwhile(lambda: handle.lease and released(handle))
        strike = Strike(tried, release)
        with strike:
            used(handle)
        return strike, release, [handle, other.lock("a")]

    every_point(server, prefix, story)


@pytest.mark.parametrize("options", [OPTIONS["turns"], OPTIONS["kept"]], ids=["turns", "kept"])
def test_a_turn_ends_while_its_lease_is_renewed_for_less(server, prefix, options):
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
            lease.renew(0.5)
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
        waits = Meanwhile(lambda: used(second))
        strike = Strike(tried, waits)
        with strike:
            used(handle)
        return strike, waits, [handle, known(MADE["write" if kind == "read" else kind](other))]

    every_point(server, prefix, story)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_another_client_takes_turns(server, prefix, options):
    def story(client, other, tried):
        handle, second = (each.lock("a", **options) for each in (client, other))
        used(handle)
        waits = Meanwhile(lambda: used(second))
        strike = Strike(tried, waits)
        with strike:
            used(handle)
        return strike, waits, [handle, second]

    every_point(server, prefix, story)


@pytest.mark.parametrize("kind", ["lock", "rlock", "semaphore"])
def test_the_lease_is_revoked(server, prefix, kind):
    def story(client, other, tried):
        handle = known(MADE[kind](client))
        used(handle)
        revoke = Meanwhile(lambda: other.revoke("a", reason="a test"))
        strike = Strike(tried, revoke)
        with strike:
            used(handle)
        return strike, revoke, [handle, known(MADE[kind](other))]

    every_point(server, prefix, story)
