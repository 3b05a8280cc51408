"""Reach a server at a plain address and greet it, all within one deadline."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from fencelock._core.types import NoReply
from fencelock._io.bounded_call_blocking import within
from fencelock._io.connection_blocking import Connection
from fencelock._io.sources.url import Address
from fencelock._runtime.clock import now
from fencelock._runtime.descriptors import own
from fencelock.errors import ServerUnreachable, ServerUnsuitable

OLDEST = {"redis": (6, 2), "valkey": (7, 2)}


# One of several addresses gets this long: enough for a near host, and the next one may be well.
ADDRESS_SECONDS = 1.0
RESOLVER = "fencelock-resolver"
# What ``getaddrinfo`` says of one address.
Found = tuple[Any, Any, int, str, Any]

Pushed = Callable[[Connection, list[bytes]], None]
Make = Callable[[Any, Pushed], Connection]


def connect(address: Address, until: float, pushed: Pushed, make: Make = Connection) -> Connection:
    """Open and greet a connection; Broken when no connection came by ``until``."""
    connection = make(_dial(address, until), pushed)
    return greeted(connection, address.handshake(), str(address), until)


def greeted(
    connection: Connection, handshake: Sequence[tuple[bytes, ...]], where: str, until: float
) -> Connection:
    """Return the connection once the server took the handshake, of which HELLO is the first."""
    try:
        for number, command in enumerate(handshake):
            reply = connection.command(command, until)
            if number == 0:
                check_version(reply)
    except NoReply as broken:
        connection.close()
        raise NoReply(f"{where}: {broken}", sent=False) from broken.__cause__
    except BaseException:
        connection.close()
        raise
    return connection


def _dial(address: Address, until: float) -> socket.socket:
    try:
        sock = _open(address, max(0.001, until - now()))
    except (TimeoutError, BlockingIOError) as error:  # a full queue of a Unix socket: not now
        raise NoReply(f"{address} does not answer", sent=False) from error
    except OSError as error:
        raise refused(address, error) from error
    sock.settimeout(None)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 1, 0))
    return sock


def _open(address: Address, seconds: float) -> socket.socket:
    if not address.path:
        return _open_tcp(address, now() + seconds)
    sock = own(socket.socket(socket.AF_UNIX))
    try:
        sock.settimeout(seconds)
        sock.connect(address.path)
    except BaseException:
        sock.close()
        raise
    return sock


def _open_tcp(address: Address, until: float) -> socket.socket:
    """Try each address of the name, each for its share of the time that is left."""
    found = resolved(address, until)
    trouble: OSError = OSError(f"{address.host} has no address")
    for number, (family, kind, protocol, _, where) in enumerate(found):
        try:
            sock = own(socket.socket(family, kind, protocol))
            return _open_at(sock, where, share(until, len(found) - number))
        except OSError as error:
            trouble = error
    raise trouble


def _open_at(sock: socket.socket, where: Any, seconds: float) -> socket.socket:
    try:
        sock.settimeout(seconds)
        sock.connect(where)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        sock.close()
        raise
    return sock


def share(until: float, addresses: int) -> float:
    """Return how many seconds an address gets while so many are left to be tried, it included."""
    left = max(0.001, until - now())
    return left if addresses == 1 else min(ADDRESS_SECONDS, left / addresses)


def resolved(address: Address, until: float) -> list[Found]:
    """Return the addresses of a name; Broken when the resolver is silent, OSError for none."""
    found = numeric(address)
    if found is not None:
        return found
    try:
        return within(until, *look_up(address), name=RESOLVER)
    except TimeoutError as error:
        raise unresolved(address) from error


def numeric(address: Address) -> list[Found] | None:
    """Return what an address in numbers stands for, which needs no resolver; None for a name."""
    try:
        return socket.getaddrinfo(
            _host(address), address.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
    except socket.gaierror:
        return None


def look_up(address: Address) -> tuple[Hashable, Callable[[], list[Found]]]:
    """Return a key for a name's look-up, and how it is done."""
    host, port = _host(address), address.port

    def ask() -> list[Found]:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)

    return ("name", host, port), ask


def unresolved(address: Address) -> NoReply:
    """Return the error for a resolver that is silent."""
    return NoReply(f"{address}: the resolver does not answer for this name", sent=False)


def _host(address: Address) -> str | bytes:
    """Return the name as bytes if it can be.

    Of ASCII letters, it does not make Python load its tables for all others.
    """
    return address.host.encode() if address.host.isascii() else address.host


def refused(address: object, error: OSError) -> ServerUnreachable:
    """Return the error for an address where nobody answers."""
    number = error.errno or 0  # the resolver's are below 0
    why = os.strerror(number) if number > 0 else error.strerror or error
    return ServerUnreachable(f"cannot connect to {address}: {why}", code="REFUSED")


def check_version(hello: Any) -> None:
    """Raise ServerUnsuitable when the server that sent this HELLO reply is too old."""
    if not isinstance(hello, dict):
        return
    kind = hello.get(b"server", b"redis").decode()
    version = hello.get(b"version", b"").decode()
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers and numbers < OLDEST.get(kind, (6, 2)):
        raise ServerUnsuitable(f"{kind} {version} is too old: Redis 6.2 or Valkey 7.2 is needed")
