"""_io/renewal_thread.py: the thread that tends leases, where something is refused to it."""

import errno
import select
import socket
import threading
from types import SimpleNamespace

import pytest

from fencelock._core.round_trips import RoundTrips
from fencelock._core.types import NoReply
from fencelock._io.renewal_thread import CONNECT_SECONDS, RenewalThread
from fencelock._runtime.clock import now

SOON = 10.0


class Port(SimpleNamespace):
    """A port with one lease that is due much later."""

    def __init__(self):
        renewals = SimpleNamespace(busy=True, next_at=lambda: None)
        super().__init__(
            renewals=renewals,
            lines=(),
            nodes=(),
            client_channel=b"home",
            mutex=threading.Lock(),
            trips=RoundTrips(),
        )


@pytest.fixture
def port():
    return Port()


@pytest.fixture
def renewal_thread(port):
    """Lend a renewal thread whose thread is this one."""
    found = RenewalThread(port)
    assert found._registered()
    found._lay_pipe()
    yield found
    found.close_pipe()


def rests(thread, port, until):
    """Rest as the thread does: first with a look at its port, and then without it."""
    thread._rests_until = 0.0
    thread._prepare_rest(port, until)
    if thread._rests_until:
        thread._rest()


@pytest.mark.timeout(5)
def test_no_rest_begins_where_the_instant_has_passed(renewal_thread, port):
    """A negative timeout would be one without an end."""
    rests(renewal_thread, port, now() - 0.5)


def test_a_connection_that_could_not_be_opened_is_not_tried_again_at_once(renewal_thread, port):
    """Perhaps the server accepts no more clients, or the user may not listen."""
    tried = []

    def take_any(_until):
        tried.append(None)
        raise NoReply("no more clients", sent=False)

    port.take_any = take_any
    renewal_thread._eager = True
    assert renewal_thread._listening(port, now() + SOON) is None
    assert select.select([renewal_thread._pipe[0]], [], [], SOON)[0], "it was not opened"
    for _ in range(3):
        assert renewal_thread._listening(port, now() + SOON) is None
    assert len(tried) == 1
    assert renewal_thread._deaf_until > now() + CONNECT_SECONDS


def test_without_a_descriptor_for_its_pipe_the_thread_looks_often(
    monkeypatch, renewal_thread, port
):
    """And makes one as soon as it can."""
    renewal_thread.close_pipe()
    with monkeypatch.context() as patched:
        patched.setattr(socket, "socketpair", refuses)
        renewal_thread._lay_pipe()
        assert renewal_thread._pipe is None
        renewal_thread._ear = SimpleNamespace(
            sound=True, mastered=False, pinged_at=0.0, settle=lambda: True
        )
        began = now()
        rests(renewal_thread, port, began + SOON)
        assert now() - began < SOON
    renewal_thread._lay_pipe()
    assert renewal_thread._pipe is not None


def refuses():
    raise OSError(errno.EMFILE, "Too many open files")
