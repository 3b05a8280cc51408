"""A renewal thread that something ends does not end the renewal of its client's leases."""

import ctypes
import sys
import threading

import pytest

from fencelock.instrumentation import set_hooks
from tests.threads.state import lease_threads
from tests.waiting import until


@pytest.fixture
def hooks():
    yield set_hooks
    set_hooks([])


def renewal_thread():
    return next(each for each in threading.enumerate() if each.name == "fencelock-leases")


def is_renewed(lock):
    deadline = lock.lease.deadline
    until(lambda: lock.lease.deadline > deadline, "it is renewed")
    lock.lease.check()


@pytest.mark.slow
def test_a_hook_that_exits_ends_no_renewal(client, hooks):
    exits = []

    def hook(event):
        if event.kind == "renewed" and not exits:
            exits.append(event)
            sys.exit("a hook that exits")

    hooks([hook])
    lock = client.lock("a", ttl=3)
    with lock:
        until(lambda: exits, "the hook is called")
        is_renewed(lock)
    with lock:
        is_renewed(lock)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_is_raised_in_the_thread_ends_no_renewal(client):
    """As a debugger or a library that bounds the time of threads does."""
    lock = client.lock("a", ttl=3)
    with lock:
        until(lease_threads, "it runs")
        ident = ctypes.c_ulong(renewal_thread().ident)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(SystemExit))
        is_renewed(lock)
        is_renewed(lock)
    other = client.lock("b", ttl=3)
    with other:
        is_renewed(other)
