"""Finalizers and signal handlers that run inside the mutex: the work waits for the unlock.

Python's collector closes a generator that was dropped inside ``with lock`` wherever its thread is,
also where that thread changes a table. Each section of the mutex is interrupted here in turn.
"""

import contextlib
import sys
import threading

import pytest

import fencelock
from fencelock._runtime import mutex
from tests.kinds import MADE
from tests.strikes.sections import Interrupted
from tests.threads.state import ended, program, thread, waiting
from tests.waiting import until


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(caplog):
    """A release that is put off, or comes later in a collection, is no drop of its handle."""
    yield
    said = [record.getMessage() for record in caplog.get_records("call")]
    assert [text for text in said if "was dropped while it held" in text] == []


def entering(kind):
    """Return a story in which one handle is entered."""

    def entered(client, server, prefix):
        with MADE[kind](client):
            pass

    return entered


one_lock = entering("lock")


def permits(client, server, prefix):
    semaphore = client.semaphore("a", 3)
    assert semaphore.acquire(permits=2)
    semaphore.release(2)


def in_line(client, server, prefix):
    with fencelock.Client(server.url, key_prefix=prefix) as other:
        held = other.lock("a")
        held.acquire()
        waiter = thread(one_lock, client, server, prefix)
        until(lambda: waiting(server, prefix) == 1)
        held.release()
        ended(waiter)


def given_up(client, server, prefix):
    with fencelock.Client(server.url, key_prefix=prefix) as other, other.lock("a"):
        assert not client.lock("a").acquire(timeout=0.02)


def renewed(client, server, prefix):
    with client.lock("a", ttl=20) as lease:  # renewed as soon as revocations are heard
        end = lease.deadline
        until(lambda: lease.deadline > end)


def lost(client, server, prefix):
    told = threading.Event()
    lock = client.lock("a", ttl=0.3, renew=False, on_lost=lambda _: told.set())
    lock.acquire()
    assert told.wait(8)


def an_event(client, server, prefix):
    event = client.event("a")
    waiter = thread(event.wait)
    until(lambda: len(client._port.lines) == 1)
    event.set()
    ended(waiter)


STORIES = [permits, in_line, given_up, renewed, lost, an_event]
STORIES = {each.__name__: each for each in STORIES} | {
    each: entering(each) for each in ("lock", "multi", "read")
}
HELD = ("lock", "semaphore", "multi")
ALSO = ("permits", "read")


def holding(block):
    """Hold what it is given, until it is closed."""
    with block:
        yield


def play(monkeypatch, server, prefix, story, at, *, held="lock"):
    """Play a story and close a generator inside section ``at``; return the number of sections."""
    closing = []
    meddled = Interrupted(lambda: closing.pop().close())
    meddled.put_in(monkeypatch)
    with fencelock.Client(server.url, key_prefix=prefix) as client:
        closing.append(holding(MADE[held](client, "mine")))
        next(closing[0])
        before = meddled.arm(at)
        story(client, server, prefix)
        until(
            lambda: client._port.renewals.holds == len(closing), "nothing but the generator holds"
        )
        sections = meddled.disarm() - before
        if closing:
            closing.pop().close()
        until(
            lambda: server.command("EXISTS", f"{prefix}mine") == 0, "the generator's lock is free"
        )
        with client.lock("mine", timeout=8):
            assert client._port.renewals.holds == 1
        assert len(client._port.lines) == 0
    return sections


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_generator_is_closed_inside_any_section(monkeypatch, server, prefix, story):
    """No deadlock, and the release is carried out."""
    at, sections = 1, 1
    while at <= min(sections, 40):
        sections = play(monkeypatch, server, f"{prefix}{at}:", story, at)
        at += 1
    assert at > 2, "the story has no section"


@pytest.mark.parametrize("held", HELD)
def test_whatever_the_generator_holds(monkeypatch, server, prefix, held):
    """Semaphores and multis are given back in the same way."""
    for at in (1, 2):
        play(monkeypatch, server, f"{prefix}{at}:", one_lock, at, held=held)


@pytest.mark.parametrize("held", HELD + ALSO)
def test_a_finalizer_of_the_handle_comes_before_that_of_the_generator(client, held):
    """A collector that frees both may call them in any order: the release comes all the same."""
    block = MADE[held](client, "mine")
    generator = holding(block)
    next(generator)
    getattr(block, "_semaphore", block).__del__()
    generator.close()
    del block, generator
    until(lambda: client._port.renewals.holds == 0, "the generator's lock is free")


@pytest.mark.parametrize("idle", HELD + ALSO)
def test_the_end_of_a_handle_that_holds_nothing_calls_nothing(client, idle):
    """Python drops what a signal handler raises in a finalizer, and looks for one at each call."""
    block, called = MADE[idle](client, "mine"), []
    ends = getattr(block, "_semaphore", block).__del__
    sys.setprofile(lambda frame, event, _: called.append((event, frame.f_code.co_name)))
    ends()
    sys.setprofile(None)
    assert [name for event, name in called if event == "call"] == ["__del__"]
    assert ("c_call", "__del__") not in called


CALLS = {
    "acquire": lambda client, lock: client.lock("other").acquire(blocking=False),
    "with": lambda client, lock: client.semaphore("other", 1).__enter__(),
    "locked": lambda client, lock: lock.locked(),
    "renew": lambda client, lock: lock.lease.renew(),
    "event": lambda client, lock: client.event("e").set(),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_needs_an_answer_is_refused(monkeypatch, server, prefix, call):
    """In a signal handler that interrupts its own thread inside: an error that says why."""
    raised = []

    def strike():
        with pytest.raises(RuntimeError, match="signal handler or finalizer") as error:
            CALLS[call](client, lock)
        raised.append(error)

    meddled = Interrupted(strike)
    meddled.put_in(monkeypatch)
    with fencelock.Client(server.url, key_prefix=prefix) as client:
        lock = client.lock("mine")
        lock.acquire()
        meddled.arm(1)
        with client.lock("a"):
            pass
        lock.release()
    assert len(raised) == 1
    assert server.command("EXISTS", f"{prefix}other") == 0


@pytest.mark.parametrize("section", [1, 2, 3], ids=["as it joins", "in the book", "as it begins"])
def test_a_client_is_closed_inside(monkeypatch, server, prefix, section):
    """A handler that closes the client: the call that was interrupted ends first."""
    meddled = Interrupted(lambda: client.close())  # noqa: PLW0108  # it is made below
    meddled.put_in(monkeypatch)
    with fencelock.Client(server.url, key_prefix=prefix) as client:
        with client.lock("a"):
            pass  # it is connected
        lock = client.lock("a")
        meddled.arm(section)
        with contextlib.suppress(fencelock.errors.ClientClosed):  # it was closed first
            lock.acquire()
        until(lambda: client._port.pool.closed, "the client is closed")
        until(lambda: lock.lease is None or lock.lease.lost, "its holder is notified")


def test_without_another_thread_the_next_call_does_the_work(monkeypatch, server, prefix):
    """At a limit of threads the release waits for the next call of the library."""

    def never(*_):
        raise RuntimeError("can't start new thread")

    closing = []
    meddled = Interrupted(lambda: closing.pop().close())
    meddled.put_in(monkeypatch)
    with fencelock.Client(server.url, key_prefix=prefix) as client:
        closing.append(holding(client.lock("mine")))
        next(closing[0])
        monkeypatch.setattr(mutex._thread, "start_new_thread", never)
        meddled.arm(1)
        with client.lock("a"):
            pass
        client.lock("a").locked()
        until(lambda: server.command("EXISTS", f"{prefix}mine") == 0)
        monkeypatch.undo()


# Dropped generators, by the collector itself: four threads, each collection a chance.
COLLECTED = """
import gc, sys, threading, fencelock
url, prefix, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = fencelock.Client(url, key_prefix=prefix)

def holding(name):
    with client.lock(name):
        yield

class Cycle:
    def __init__(self, held):
        self.me, self.held = self, held

def work(number):
    for turn in range(turns):
        held = holding(f"{number}.{turn}")
        next(held)
        Cycle(held)
        del held
        with client.lock(f"own{number}"):
            pass

gc.set_threshold(150, 5, 5)
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for each in threads:
    each.start()
for each in threads:
    each.join()
gc.collect()
while client._port.renewals.holds:  # what was dropped inside the mutex is closed by another thread
    threading.Event().wait(0.01)
client.close()
print("done", flush=True)
"""


@pytest.mark.slow
def test_dropped_generators_release(server, prefix):
    """As found: all threads stood still after some seconds, and the renewal too."""
    with program(COLLECTED, server.url, prefix, 800) as running:
        out, err = running.communicate()
    assert (running.returncode, out, err) == (0, "done\n", "")
    until(lambda: server.command("KEYS", f"{prefix}[0-9]*") == [], "every generator's lock is free")
