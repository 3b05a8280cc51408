"""Open a blocking connection: to a plain address, or by a user's client."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from fencelock._core.types import Reply
from fencelock._io.connect import RESOLVER, Found, greet, open_socket
from fencelock._io.connection_blocking import Connection
from fencelock._io.sources.kinds import Bridged, Direct, One, instead_of
from fencelock._io.sources.url import GREETING
from fencelock._io.threads import run_inline

Pushed = Callable[[Connection, list[bytes]], None]
Make = Callable[[Any, Pushed], Connection]


class BlockingSockets:
    """Implements ``connect.Sockets`` for threads."""

    async def look_up(
        self, until: float, key: Hashable, function: Callable[[], list[Found]]
    ) -> list[Found]:
        """Wait for a thread that resolves the name."""
        from fencelock._io.bounded_call import within  # noqa: PLC0415 - for names only

        return within(until, key, function, name=RESOLVER)

    async def connect(self, sock: socket.socket, where: Any, seconds: float) -> None:
        """Connect within the socket's timeout; then it has none, but to send."""
        sock.settimeout(seconds)
        sock.connect(where)
        sock.settimeout(None)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 1, 0))

    async def command(self, connection: Connection, args: Sequence[bytes], until: float) -> Reply:
        """Run a plain command."""
        return connection.command(args, until)


SOCKETS = BlockingSockets()


def dial(source: One, until: float, pushed: Pushed, make: Make = Connection) -> Connection:
    """Return a greeted connection; raises NoReply or a ServerError when there is none."""
    source = instead_of(source, asynchronous=False)
    where = source.label
    handshake: Sequence[tuple[bytes, ...]] = [GREETING]
    if isinstance(source, Direct):
        address = source.locate(until)
        where, handshake = str(address), address.handshake()
        sock = run_inline(open_socket(SOCKETS, address, until))
    elif isinstance(source, Bridged):
        from fencelock._io.sources import bridge  # noqa: PLC0415 - seldom needed

        sock = bridge.connect(source)
    else:
        from fencelock._io.sources import client  # noqa: PLC0415 - needs redis-py's exceptions

        sock = client.connect(source, until)
    connection = make(sock, pushed)
    try:
        run_inline(greet(partial(SOCKETS.command, connection), handshake, where, until))
    except BaseException:
        connection.close()
        raise
    return connection
