"""_io/renewal_thread.py: when the thread that tends leases is nudged, and when it opens an ear."""

import select
import threading
from types import SimpleNamespace

import pytest

from fencelock._core.round_trips import RoundTrips
from fencelock._core.types import NoReply
from fencelock._io.renewal_thread import CONNECT_SECONDS, LISTEN_AFTER_SECONDS, RenewalThread
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


def nudged(pipe):
    """Return True if the other end was written to; the pipe is given as its reading end."""
    return select.select([pipe], [], [], 0)[0] == [pipe]


@pytest.fixture
def port():
    return Port()


@pytest.fixture
def renewal_thread(port):
    """Lend a renewal thread whose thread is this one."""
    found = RenewalThread(port)
    assert found._registered()
    yield found
    found.close_pipe()


def test_the_thread_is_nudged_for_what_is_due_before_it_wakes(renewal_thread):
    renewal_thread.wakes_at = 100.0
    assert renewal_thread.mind(101.0) is None
    assert not nudged(renewal_thread._pipe[0])
    assert renewal_thread.mind(99.0) is None
    assert nudged(renewal_thread._pipe[0])
    assert renewal_thread.wakes_at == 99.0


@pytest.mark.timeout(5)
def test_no_rest_begins_where_the_instant_has_passed(renewal_thread, port):
    """A negative timeout would be one without an end."""
    renewal_thread._rest(port, now() - 0.5)


def test_a_nudge_ends_a_rest_that_hears_revocations(renewal_thread, port):
    heard = []

    def readable(wake, _seconds):
        heard.append(nudged(wake))
        return False

    renewal_thread._ear = SimpleNamespace(sound=True, readable=readable)
    renewal_thread._nudge()
    renewal_thread._rest(port, now() + SOON)
    assert heard == [True]
    assert not nudged(renewal_thread._pipe[0]), "one nudge ends one rest"


def test_after_an_ear_is_gone_the_next_one_is_for_a_lease_that_lasts(renewal_thread, port):
    """A short lease costs no connection, also when a longer one had an ear before it."""
    renewal_thread._deaf_until = 1.0
    renewal_thread._hang_up()
    began = now()
    assert renewal_thread._listening(port, began + SOON) is None
    assert renewal_thread._deaf_until >= began + LISTEN_AFTER_SECONDS


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


def test_a_client_that_closes_waits_for_its_thread_until_the_instant(renewal_thread):
    waited = []
    renewal_thread._thread = SimpleNamespace(is_alive=lambda: True, join=waited.append)
    renewal_thread.stop(now() + 0.05)
    renewal_thread.stop(now() - 5)
    assert 0 <= waited[0] <= 0.05
    assert waited[1] == 0
