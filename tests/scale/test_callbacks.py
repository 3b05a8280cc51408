"""Callbacks of lost leases, in threads: none waits for another, and very many need few threads."""

import threading

import pytest

import fencelock
from tests.faults.world import wait_until
from tests.servers import Server

COUNT = 50


@pytest.fixture
def server():
    with Server() as server:
        yield server


def lose_many(server, on_lost):
    """Return a client whose leases are all lost soon, by their fixed ends."""
    client = fencelock.Client(server.url)
    locks = [
        client.lock(f"lost {number}", ttl=0.1, renew=False, on_lost=on_lost)
        for number in range(COUNT)
    ]
    for lock in locks:
        lock.acquire()
    return client, locks


def test_no_callback_waits_for_another(server):
    together, met = threading.Barrier(COUNT), []

    def meet(lease):
        together.wait(20)
        met.append(lease)

    client, locks = lose_many(server, meet)
    wait_until(lambda: len(met) == COUNT, 20)
    assert len({lease.name for lease in met}) == len(locks)
    client.close()


def test_a_loss_waits_where_no_thread_can_be_started(server, monkeypatch):
    """The system's limit of threads: what could not be told at once is told by who can."""
    told, last, started = [], threading.Event(), []
    start = threading.Thread.start

    def limited(thread):
        if thread.name == "fencelock-on-lost":
            if started:
                raise RuntimeError("can't start new thread")
            started.append(thread)
        start(thread)

    def tell(lease):
        last.wait(20)
        told.append(lease.name)

    monkeypatch.setattr(threading.Thread, "start", limited)
    client, locks = lose_many(server, tell)
    wait_until(lambda: not client._port.renewals.busy, what="all losses seen")
    last.set()
    wait_until(lambda: len(told) == COUNT)
    assert len(set(told)) == len(locks)
    client.close()
