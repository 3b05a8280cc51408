"""_io/sources/client.py: what is taken from a client's connection."""

import socket
from types import SimpleNamespace

from fencelock._io.connection_blocking import dial
from fencelock._io.sources.kinds import Cloned
from fencelock._runtime.clock import now

SOON = 10.0


def test_a_clients_timeout_is_for_connecting_only():
    """It would keep a caller that reads beyond its own deadline."""
    ours, theirs = socket.socketpair()
    ours.settimeout(SOON)
    theirs.sendall(b"%1\r\n+server\r\n+redis\r\n")
    made = SimpleNamespace(_sock=ours, connect=lambda: None, disconnect=ours.close)
    source = Cloned(lambda **_: made, {}, "a client", set())
    connection = dial(source, now() + SOON, lambda *_: None)
    assert ours.gettimeout() is None
    assert made._sock is None
    connection.close()
    theirs.close()
