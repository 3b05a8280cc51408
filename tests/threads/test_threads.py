"""What threads bring: one handle in many hands, and who may release what."""

import gc
import inspect
import sys
import threading
import warnings

import pytest

import fencelock
from fencelock import LeaseLost, NotHeld
from fencelock._core.lock import turns
from fencelock._core.lock.hold import Hold
from fencelock._io import port_blocking, renewal_thread
from fencelock._io.connection_blocking import Connection
from fencelock._runtime import process
from fencelock.compat import redisson
from tests.threads.state import (
    connections,
    ended,
    lease_threads,
    thread,
    until_others_ended,
    waiting,
)
from tests.waiting import SOON, until


def test_a_lease_outlives_the_thread_that_acquired_it(client):
    """It is renewed until another thread releases it, or its handle is dropped."""
    lock = client.lock("a", ttl=0.9)
    ended(thread(lock.acquire))
    lease = lock.lease
    end = lease.deadline
    until(lambda: lease.deadline > end + 0.9, "renewed for longer than its ttl")
    lock.release()
    assert not lock.locked()


def test_a_call_with_little_room_on_the_stack_leaves_nothing(client):
    """Its undo needs more room than it had: another thread does it."""

    def down(frames, call):
        return call() if frames <= 0 else down(frames - 1, call)

    lock, other = client.lock("a", ttl=30), client.lock("a", ttl=30)
    with lock:
        depth = sys.getrecursionlimit() - len(inspect.stack(0))
    cut_off = 0
    for room in range(1, 60):
        try:
            down(depth - room, lambda: (lock.acquire(), lock.release()))
        except RecursionError:
            cut_off += 1
        if lock.lease is not None:
            lock.release()
        assert other.acquire(timeout=SOON)
        other.release()
    assert 0 < cut_off < 59


def test_an_undo_without_memory_is_done_later(client, monkeypatch):
    """Neither the call nor its face could undo: the next acquire waited for ever."""
    lock, other = client.lock("a", ttl=30), client.lock("a", ttl=30)
    with lock:
        run, undo, fail = Connection.run, Hold.undo, [MemoryError] * 4

    def asked(*of):
        run(*of)
        raise fail.pop()

    def undone(*of):
        if fail:
            raise fail.pop()
        undo(*of)

    monkeypatch.setattr(Hold, "undo", undone)
    with monkeypatch.context() as once:
        once.setattr(Connection, "run", asked)
        with pytest.raises(MemoryError):
            lock.acquire()
    assert other.acquire(timeout=SOON)
    other.release()
    assert not fail


def test_an_idle_client_has_no_thread_and_a_closed_one_no_connection(server):
    """I10: the lease thread ends soon after the last lease; close() ends every connection."""
    client = fencelock.Client(server.url, key_prefix="idle:")
    until_others_ended()
    until(lambda: not connections(server), "connections of other tests")
    client.lock("a")
    assert connections(server) == [], "nothing is opened before it is needed"
    lock = client.lock("a")
    with lock:
        assert len(lease_threads()) == 1
    until(lambda: not lease_threads(), "the lease thread's end")
    assert connections(server)
    client.close()
    until(lambda: not connections(server), "the connections' end")
    client.close()


@pytest.mark.parametrize("began", [False, True], ids=["before it runs", "when it runs"])
def test_an_interrupt_while_the_tending_thread_starts_is_made_good(client, monkeypatch, began):
    """Else no lease of this client would ever be renewed again."""
    start = threading.Thread.start

    def interrupted(self):
        if self.name == "fencelock-leases":
            monkeypatch.undo()
            if began:
                start(self)
            raise KeyboardInterrupt
        start(self)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    lock = client.lock("a", ttl=20)
    with pytest.raises(KeyboardInterrupt):
        lock.acquire()
    with lock as lease:
        first = lease.deadline
        until(lambda: lease.deadline > first)
        until_others_ended(1)


def test_close_ends_the_thread_at_once(server, monkeypatch):
    """I10: without lingering."""
    until_others_ended()
    monkeypatch.setattr(renewal_thread, "LINGER_SECONDS", 60.0)
    client = fencelock.Client(server.url, key_prefix="idle:")
    with client.lock("a"):
        pass
    client.close()
    until(lambda: not lease_threads(), "the lease thread's end")


def test_close_while_holding_ends_the_thread_too(server, prefix):
    """What is still held is not renewed any more, and nothing goes on trying."""
    client = fencelock.Client(server.url, key_prefix=prefix)
    lock = client.lock("a", ttl=60)
    lock.acquire()
    client.close()
    until(lambda: not lease_threads(), "the lease thread's end")
    until(lambda: not connections(server), "the connections' end")
    assert server.command("PTTL", f"{prefix}a") > 0
    with pytest.raises((LeaseLost, fencelock.ClientClosed)):
        lock.release()


@pytest.mark.filterwarnings("ignore:a handle of 'a' was dropped:ResourceWarning")
@pytest.mark.parametrize("early", [True, False], ids=["waits already", "comes later"])
def test_a_waiter_is_granted_what_a_dropped_handle_had_once_it_is_revoked(
    client, server, prefix, early
):
    """As found: the client's own waiters waited for the dropped lease, revoked or not, to end."""
    lock = client.lock("a", ttl=60)
    lock.acquire()
    got, waiter = threading.Event(), client.lock("a", ttl=60)
    waiting_one = threading.Thread(target=lambda: (waiter.acquire(), got.set()), daemon=True)
    if early:
        waiting_one.start()
        until(lambda: waiting(server, prefix) == 1)
    del lock
    gc.collect()
    client.revoke("a", reason="a test")
    if not early:
        waiting_one.start()
    assert got.wait(SOON)


@pytest.mark.refcounts
def test_a_handle_dropped_while_held_warns_and_is_not_renewed(client, server, prefix):
    """Nobody could release it any more: it ends by its ttl, and says so."""
    lock = client.lock("a", ttl=1)
    lock.acquire()
    with pytest.warns(ResourceWarning, match="dropped while it held"):
        del lock
    until(lambda: not lease_threads(), "the lease thread's end: nothing is left to tend")
    assert server.command("EXISTS", f"{prefix}a") == 0


@pytest.mark.filterwarnings("ignore:a handle of 'a' was dropped:ResourceWarning")
@pytest.mark.refcounts
def test_a_lease_whose_handle_is_gone_is_not_renewed_by_hand(client, server, prefix):
    """As found: ``renew`` returned, the lease was no longer, and the lock stayed taken so long."""
    lock = client.lock("a", ttl=5)
    lock.acquire()
    lease = lock.lease
    del lock
    with pytest.raises(NotHeld, match="the handle of 'a' is gone"):
        lease.renew(600)
    assert lease.remaining() <= 5
    assert 0 < server.command("PTTL", f"{prefix}a") <= 5_000


def test_a_handle_may_be_dropped_inside_another_call(client):
    """``__del__`` takes no lock: a collection at any instant cannot deadlock."""

    class Knot:
        pass

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for number in range(30):
            knot = Knot()
            knot.lock, knot.self = client.lock(f"dropped {number}", ttl=0.2), knot
            knot.lock.acquire()
            del knot
            with client.lock("a"):
                gc.collect(0)


def test_on_lost_may_use_the_lock(client, server, prefix):
    """A callback runs on a thread of the library, and may acquire, release and close over it."""
    done = threading.Event()

    def again(_lease):
        with pytest.raises(LeaseLost):
            lock.release()
        with client.lock("b", timeout=8):
            done.set()

    lock = client.lock("a", ttl=0.2, renew=False, on_lost=again)
    lock.acquire()
    assert done.wait(8)


def test_a_slow_on_lost_holds_up_no_renewal(client):
    """I8: the thread that tells losses must not let other leases expire meanwhile."""
    entered, leave = threading.Event(), threading.Event()

    def slow(_lease):
        entered.set()
        leave.wait(10)

    lost, kept = client.lock("a", ttl=0.2, renew=False, on_lost=slow), client.lock("b", ttl=6)
    lost.acquire()
    kept.acquire()
    lease = kept.lease
    assert entered.wait(8)
    try:
        end = lease.deadline
        until(lambda: lease.deadline > end + 0.5 or lease.lost, "renewals")
        assert not lease.lost
    finally:
        leave.set()
    kept.release()
    with pytest.raises(LeaseLost):
        lost.release()


def test_a_later_thread_with_the_same_ident_owns_nothing(client):
    """Systems give the ident of a thread that ended to a later one: to the next, most often."""
    lock, idents, outcomes, over = client.rlock("a"), [], [], threading.Event()

    def first():
        idents.append(threading.get_ident())
        lock.acquire()

    def later():
        idents.append(threading.get_ident())
        if idents[-1] != idents[0]:
            over.wait(SOON)  # it keeps its own ident, so that another one is left for the next
            return
        with pytest.raises(NotHeld):
            lock.release()
        outcomes.append(lock.acquire(blocking=False))

    ended(thread(first))
    started = []
    while len(started) < 100 and not outcomes:
        started.append(thread(later))
        until(lambda: len(idents) > len(started))
        if idents[-1] == idents[0]:
            ended(started[-1])
    over.set()
    for each in started:
        ended(each)
    assert idents[-1] == idents[0], "this system gives each thread another ident"
    assert outcomes == [False]
    lock._holds.newest().unit = process.here.unit  # take it over, to give it back
    lock.release()


def test_a_lease_that_comes_within_a_moment_is_begun_without_a_flow(
    client, server, prefix, monkeypatch
):
    begun, flow = [], port_blocking.acquire
    monkeypatch.setattr(port_blocking, "acquire", lambda *of: begun.append(of) or flow(*of))
    lock = client.lock("a")

    def handed_over():
        begun.clear()
        with other.lock("a"):
            waiter = thread(lambda: (lock.acquire(), lock.release()))
            until(lambda: waiting(server, prefix) == 1, "the waiter in line")
        ended(waiter)
        return not begun

    with fencelock.Client(server.url, key_prefix=prefix) as other:
        until(handed_over, "a grant within the moment")


def test_who_is_forced_out_while_its_acquire_is_answered_is_told_at_once(client, monkeypatch):
    """I8: the lock is in Redisson's layout, where only this client can say so."""
    lock, other = (redisson.Lock(client, "a") for _ in range(2))
    plain = turns.begin

    def begin(*args):
        assert other.force_unlock()
        return plain(*args)

    with monkeypatch.context() as patch:
        patch.setattr(turns, "begin", begin)
        assert lock.acquire()
    assert lock.lease.lost
    with pytest.raises(LeaseLost, match="by force_unlock"):
        lock.release()
    with lock as lease:
        assert not lease.lost
