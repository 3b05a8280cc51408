"""An answer that comes late does not make a lease longer: it counts from the question (I2)."""

import contextlib
import socket

import pytest

from fencelock import ServerUnreachable
from fencelock._core.types import NoReply
from fencelock._io.connection_blocking import Connection
from fencelock._io.wire import pack
from fencelock._runtime.clock import now
from tests.faults.world import outcome, spawn

pytestmark = pytest.mark.one_face

LATE_SECONDS = 0.2
TTL = 5.0


@pytest.fixture
def client(connect, proxy):
    return connect(proxy.url)


def ends_before_the_servers(lease, view):
    """Return True if the lease's local deadline lies before the instant the server ends it."""
    deadline = lease.deadline  # before we ask: a renewal may move it meanwhile
    asked = now()
    return deadline < asked + view.remaining()


@pytest.mark.parametrize("action", ["delay_request", "delay_reply"])
def test_acquire(client, proxy, view, action):
    proxy.on("acquire", action, seconds=LATE_SECONDS)
    lock = client.lock(view.name, ttl=TTL)
    lock.acquire()
    assert ends_before_the_servers(lock.lease, view)
    lock.release()


@pytest.mark.parametrize("renew", [True, False])
def test_a_grant_that_is_pushed_late(client, connect, proxy, view, renew):
    """The push carries the server's instant of the grant, so its delay is known."""
    holding = connect(view.server.url).lock(view.name, ttl=60)
    holding.acquire()
    lock = client.lock(view.name, ttl=TTL, renew=renew)
    waiting = spawn(outcome, lock.acquire)
    view.until_waiting(1)
    proxy.on("granted", "delay_reply", seconds=LATE_SECONDS)
    holding.release()
    assert waiting.result(20)[0] is True
    assert ends_before_the_servers(lock.lease, view)
    lock.release()


def test_a_grant_that_arrives_when_it_is_over(client, proxy, view):
    """Answers that outlast the lease are no grants; after a few the caller is told why."""
    proxy.on("acquire", "delay_reply", seconds=LATE_SECONDS, times=10)
    result, _ = outcome(client.lock(view.name, ttl=0.1).acquire)
    assert isinstance(result, ServerUnreachable)
    proxy.forget()
    view.until_free()


def test_who_was_frozen_finds_the_answer_that_came_meanwhile():
    """The time is up when it goes on, and yet the answer is there: it is read, not called lost."""
    ours, theirs = socket.socketpair()
    connection = Connection(ours, lambda *_: None)
    with theirs, contextlib.closing(connection):
        connection.send(pack((b"PING",)))
        theirs.sendall(b"+PONG\r\n")
        assert connection.answer(now() - 1) == b"PONG"
        connection.send(pack((b"PING",)))
        with pytest.raises(NoReply):
            connection.answer(now() - 1)
