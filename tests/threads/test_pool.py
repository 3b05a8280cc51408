"""Connections that are kept for the next call: only those from which nothing is left to read."""

import pytest

import fencelock
from fencelock._io.wire import pack
from fencelock._runtime.clock import now

WITHIN_SECONDS = 5.0


def test_a_connection_with_an_unread_answer_is_not_kept(client):
    """It would give the next call the answer to the last one."""
    pool = client._port.pool
    idle, connection = (pool.take(now() + WITHIN_SECONDS) for _ in range(2))
    pool.give(idle)
    connection.send(pack((b"ECHO", b"for the last call")) * 2, 2)
    assert connection.sound
    assert connection.answer(now() + WITHIN_SECONDS) == b"for the last call"
    pool.give(connection)
    assert connection._sock.fileno() < 0, "it is closed"
    assert idle._sock.fileno() < 0, "and those that may be as dead, too"
    with client.lock("a") as lease:
        lease.check()


@pytest.mark.prompt
def test_a_dial_that_outlasts_its_caller_says_that_tls_may_be_missing(server):
    """As asyncio does: such a server waits for the rest of a command."""
    url = server.tcp_url.replace("redis://", "rediss://")
    with fencelock.Client(url, server_timeout=0.5) as client:
        lock = client.lock("a")
        with pytest.raises(fencelock.ServerUnreachable, match="does the server use TLS"):
            lock.acquire(timeout=0.1)
