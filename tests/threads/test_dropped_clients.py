"""Clients that are dropped without ``close``, as by a program that makes one for each request."""

import gc
import itertools
import threading
import weakref

import pytest

import fencelock
from fencelock._io import process_ports, renewal_thread
from tests.waiting import until


def renewing():
    return [each for each in threading.enumerate() if each.name == "fencelock-leases"]


@pytest.fixture
def _lingers(monkeypatch):
    """Let the threads of clients linger for longer than this test; and no collector helps."""
    until(lambda: not renewing(), "the threads of other tests have ended")
    monkeypatch.setattr(renewal_thread, "LINGER_SECONDS", 600.0)
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_lingers")
def test_a_client_that_is_dropped_ends_at_once(server, prefix):
    """As found: each kept a thread, a connection and three descriptors for a second or two."""
    for _ in range(3):
        with fencelock.Client(server.url, key_prefix=prefix).lock("x"):
            assert len(renewing()) >= 1
    until(lambda: not renewing(), "the renewal threads have ended")


def dropped(server, prefix):
    """Drop a client that keeps a lease, and return its port."""
    client = fencelock.Client(server.url, key_prefix=prefix)
    lock = client.lock("x", linger=0.5)

    def keeps():
        with lock:
            pass
        return bool(client._port.lines.holders)

    until(keeps, "its lease is kept")
    return weakref.ref(client._port)


@pytest.mark.usefixtures("_lingers")
def test_a_client_that_keeps_a_lease_ends_at_once(server, prefix):
    """Nothing that is kept refers to its client."""
    port = dropped(server, prefix)
    until(lambda: port() is None, "its thread has let go of it")


@pytest.mark.usefixtures("_lingers")
def test_a_handle_keeps_its_client(server, prefix):
    lock = fencelock.Client(server.url, key_prefix=prefix).lock("x", ttl=1)
    with lock as lease:
        deadline = lease.deadline
        until(lambda: lease.deadline > deadline, "it is renewed")


@pytest.mark.usefixtures("_lingers")
def test_a_client_for_each_request_is_warned_of_once(monkeypatch, server, prefix, caplog):
    monkeypatch.setattr(process_ports, "DROPPED_MANY", 3)
    monkeypatch.setattr(process_ports, "_dropped", itertools.count(1))
    for _ in range(5):
        with fencelock.Client(server.url, key_prefix=prefix).lock("x"):
            pass
    said = [each.getMessage() for each in caplog.records if "for the process" in each.getMessage()]
    assert len(said) == 1
    with fencelock.Client(server.url, key_prefix=prefix) as closed, closed.lock("x"):
        pass
    assert next(process_ports._dropped) == 6, "one that is closed does not count"
