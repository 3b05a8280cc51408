"""The bare wire: a command packed by hand, a blocking socket.

Nothing of the package is used here: the floors that fencelock is measured against must not get
faster or slower with it.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import hiredis


class Address(NamedTuple):
    """Where the server listens. Everybody uses TCP, so that all have the same connection.

    ``more``: the other servers of a quorum. What is asked of "the server" is asked of the first.
    ``source``: a URL by which fencelock finds it, if not by its address: that of its Sentinel, or
    of its Cluster.
    """

    host: str
    port: int
    more: tuple[Address, ...] = ()
    source: str = ""

    @property
    def nodes(self) -> tuple[Address, ...]:
        """Return the address of each server."""
        return (self._replace(more=()), *self.more)

    @property
    def url(self) -> str:
        return self.source or ",".join(
            f"redis://{node.host}:{node.port}/0" for node in (self, *self.more)
        )


def pack(*words: object) -> bytes:
    encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    parts = [b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded]
    return b"*%d\r\n" % len(encoded) + b"".join(parts)


def dial(address: Address) -> socket.socket:
    line = socket.create_connection((address.host, address.port))
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return line


class Line:
    """A connection for questions of the benchmark itself; nothing that is measured uses it."""

    def __init__(self, address: Address) -> None:
        self._socket = dial(address)
        self._reader = hiredis.Reader()

    def command(self, *words: object) -> Any:
        return self.answers([pack(*words)])[0]

    def answers(self, commands: Sequence[bytes]) -> list[Any]:
        """Send packed commands at once, and return their answers."""
        self._socket.sendall(b"".join(commands))
        return [self._answer() for _ in commands]

    def _answer(self) -> Any:
        while (reply := self._reader.gets()) is False:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._reader.feed(data)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def info(self, section: str) -> dict[str, str]:
        lines = self.command("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
