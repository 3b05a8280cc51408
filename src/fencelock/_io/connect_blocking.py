"""Open a blocking connection to a plain address."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from fencelock._core.types import Reply
from fencelock._io.connect import RESOLVER, Found, greet, open_tcp, reported
from fencelock._io.connection_blocking import Connection
from fencelock._io.sources.url import Address
from fencelock._io.threads import run_inline
from fencelock._runtime.clock import now
from fencelock._runtime.descriptors import own

Pushed = Callable[[Connection, list[bytes]], None]
Make = Callable[[Any, Pushed], Connection]


class BlockingSockets:
    """Implements ``connect.Sockets`` for threads."""

    async def look_up(
        self, until: float, key: Hashable, function: Callable[[], list[Found]]
    ) -> list[Found]:
        """Wait for a thread that resolves the name."""
        from fencelock._io.bounded_call_blocking import within  # noqa: PLC0415 - for names only

        return within(until, key, function, name=RESOLVER)

    async def connect(self, sock: socket.socket, where: Any, seconds: float) -> None:
        """Connect within the socket's timeout."""
        sock.settimeout(seconds)
        sock.connect(where)

    async def command(self, connection: Connection, args: Sequence[bytes], until: float) -> Reply:
        """Run a plain command."""
        return connection.command(args, until)


SOCKETS = BlockingSockets()


def connect(address: Address, until: float, pushed: Pushed, make: Make = Connection) -> Connection:
    """Open and greet a connection; NoReply when no connection came by ``until``."""
    with reported(address):
        sock = (
            _open_unix(address, until)
            if address.path
            else run_inline(open_tcp(SOCKETS, address, until))
        )
    sock.settimeout(None)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 1, 0))
    return greeted(make(sock, pushed), address.handshake(), str(address), until)


def greeted(
    connection: Connection, handshake: Sequence[tuple[bytes, ...]], where: str, until: float
) -> Connection:
    """Return the connection once the server took the handshake, of which HELLO is the first."""
    try:
        run_inline(greet(SOCKETS, connection, handshake, where, until))
    except BaseException:
        connection.close()
        raise
    return connection


def _open_unix(address: Address, until: float) -> socket.socket:
    sock = own(socket.socket(socket.AF_UNIX))
    try:
        sock.settimeout(max(0.001, until - now()))
        sock.connect(address.path)
    except BaseException:
        sock.close()
        raise
    return sock
