"""_io/renewal_thread.py: when the thread that tends leases is nudged, and when it opens an ear."""

import errno
import select
import socket
import threading
from math import inf
from types import SimpleNamespace

import pytest

from fencelock._core.deadlines import PING_SECONDS, PONG_SECONDS
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
    found._lay_pipe()
    yield found
    found.close_pipe()


def test_the_thread_is_nudged_for_what_is_due_before_it_wakes(renewal_thread):
    renewal_thread.wakes_at = 100.0
    assert renewal_thread.mind(101.0) is None
    assert not nudged(renewal_thread._pipe[0])
    assert renewal_thread.mind(99.0) is None
    assert nudged(renewal_thread._pipe[0])
    assert renewal_thread.wakes_at == 99.0


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


def test_a_nudge_ends_a_rest_that_hears_revocations(renewal_thread, port):
    heard = []

    def readable(wake, _seconds):
        heard.append(nudged(wake))
        return False

    renewal_thread._ear = SimpleNamespace(
        sound=True, mastered=False, readable=readable, pinged_at=0.0
    )
    renewal_thread._nudge()
    rests(renewal_thread, port, now() + SOON)
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


@pytest.fixture
def ear(renewal_thread, port):
    """Lend a quiet ear that notes when it was asked whether it is alive."""

    def ping(at):
        found.asked.append(at)
        found.pinged_at = at

    found = SimpleNamespace(asked=[], pinged_at=0.0, ping=ping, settle=lambda: True)
    port.renewals.lasts = lambda _when: True
    renewal_thread._ask_at = now()
    return found


def test_a_quiet_ear_is_asked_once_and_then_every_few_seconds(renewal_thread, port, ear):
    began = now()
    given_up_at = renewal_thread._silent_at(port, ear)
    assert given_up_at == ear.asked[0] + PONG_SECONDS
    assert renewal_thread._silent_at(port, ear) == given_up_at
    ear.pinged_at = 0.0  # it has answered
    assert renewal_thread._silent_at(port, ear) == inf
    assert len(ear.asked) == 1
    assert renewal_thread._ask_at >= began + PING_SECONDS


def test_an_ear_is_not_asked_while_each_lease_is_soon_renewed(renewal_thread, port, ear):
    """I10, and with I8: the renewal tells as much."""
    port.renewals.lasts = lambda when: when < now() + PING_SECONDS - 1
    assert renewal_thread._silent_at(port, ear) == inf
    assert ear.asked == []


def test_an_ear_that_does_not_answer_is_given_up_unless_its_answer_came(renewal_thread, port, ear):
    ear.pinged_at = now() - PONG_SECONDS
    with pytest.raises(NoReply):
        renewal_thread._silent_at(port, ear)

    def settle():  # as after the process was stopped
        ear.pinged_at = 0.0

    ear.settle = settle
    renewal_thread._ask_at = inf
    assert renewal_thread._silent_at(port, ear) == inf


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


def test_one_that_died_is_not_taken_for_the_one_that_renews(monkeypatch, renewal_thread):
    dead = threading.Thread(target=int)
    dead.start()
    dead.join()
    renewal_thread._thread, renewal_thread.wakes_at, begun = dead, 5.0, []
    monkeypatch.setattr(renewal_thread, "_start", lambda: begun.append(None))
    renewal_thread.mind(1.0)
    assert len(begun) == 1
    assert renewal_thread._registered()
    assert renewal_thread._thread is threading.current_thread()
