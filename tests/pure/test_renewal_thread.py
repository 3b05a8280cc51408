"""_io/renewal_thread.py: when the thread that tends leases is nudged, and when it opens an ear."""

import select
import threading
from types import SimpleNamespace

import pytest

from fencelock._io.renewal_thread import LISTEN_AFTER_SECONDS, RenewalThread
from fencelock._runtime.clock import now

SOON = 10.0


class Port(SimpleNamespace):
    """A port with one lease that is due much later."""

    def __init__(self):
        book = SimpleNamespace(busy=True, next_at=lambda: None)
        super().__init__(book=book, lines=(), client_channel=b"home", mutex=threading.Lock)


def nudged(pipe):
    """Return True if the other end was written to; the pipe is given as its reading end."""
    return select.select([pipe], [], [], 0)[0] == [pipe]


@pytest.fixture
def port():
    return Port()


@pytest.fixture
def tender(port):
    """Lend a tender whose thread is this one."""
    found = RenewalThread(port)
    assert found._registered()
    yield found
    found._close_pipe()


def test_the_thread_is_nudged_for_what_is_due_before_it_wakes(tender):
    tender.wakes_at = 100.0
    assert tender.mind(101.0) is None
    assert not nudged(tender._pipe[0])
    assert tender.mind(99.0) is None
    assert nudged(tender._pipe[0])
    assert tender.wakes_at == 99.0


def test_a_nudge_ends_a_rest_that_hears_revocations(tender, port):
    heard = []

    def readable(wake, _seconds):
        heard.append(nudged(wake))
        return False

    tender._ear = SimpleNamespace(sound=True, readable=readable)
    tender._nudge()
    tender._rest(port, now() + SOON)
    assert heard == [True]
    assert not nudged(tender._pipe[0]), "one nudge ends one rest"


def test_after_an_ear_is_gone_the_next_one_is_for_a_lease_that_lasts(tender, port):
    """A short lease costs no connection, also when a longer one had an ear before it."""
    tender._deaf_until = 1.0
    tender._hang_up()
    began = now()
    assert tender._listening(port, began + SOON) is None
    assert tender._deaf_until >= began + LISTEN_AFTER_SECONDS
