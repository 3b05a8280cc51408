"""The rules for connecting to a plain address and greeting the server, within one deadline.

The blocking operations come from connection_blocking.py and connection_asyncio.py.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from fencelock._core.types import NoReply, Reply
from fencelock._runtime.clock import now
from fencelock._runtime.descriptors import own
from fencelock.errors import FencelockError, ServerUnreachable, ServerUnsuitable

if TYPE_CHECKING:
    from fencelock._io.sources.url import Address

OLDEST = {"redis": (6, 2), "valkey": (7, 2)}
# One of several addresses gets this long: enough for a near host, and the next one may work.
ADDRESS_SECONDS = 1.0
RESOLVER = "fencelock-resolver"
# One result of ``getaddrinfo``.
Found = tuple[Any, Any, int, str, Any]
# Runs a plain command on the new connection; ends like ``Port.call``.
Ask = Callable[[Sequence[bytes], float], Awaitable[Reply]]


class Sockets(Protocol):
    """The blocking operations of opening a connection."""

    async def look_up(
        self, until: float, key: Hashable, function: Callable[[], list[Found]]
    ) -> list[Found]:
        """Return what the function returns, run in a thread; TimeoutError at the instant."""

    async def connect(self, sock: socket.socket, where: Any, seconds: float) -> None:
        """Connect a socket; OSError when it cannot be, TimeoutError when that takes longer."""


async def greet(ask: Ask, handshake: Sequence[tuple[bytes, ...]], where: str, until: float) -> None:
    """Shake hands; HELLO is the first command. Raises ``NoReply`` or a ``ServerError``.

    A server that speaks TLS closes the connection at the first bytes that do not.
    """
    number = 0
    try:
        for number, command in enumerate(handshake):
            reply = await ask(command, until)
            if number == 0:
                check_version(reply)
    except NoReply as error:
        scheme, hint = where.partition("://")[0], ""
        if number == 0 and error.undo_connection is None and scheme in {"redis", "valkey"}:
            hint = f" (if the server speaks TLS, its URL begins with {scheme}s://)"
        raise NoReply(f"{where}: {error}{hint}", sent=False) from error.__cause__


async def open_socket(
    sockets: Sockets, address: Address, until: float, *, answered: bool = False
) -> socket.socket:
    """Try each address of the name, each for its share of the time that is left.

    Raises ``NoReply`` or ServerUnreachable when none can be connected to; of a server that just
    ``answered`` always ``NoReply``: the address is right, and another server will be there.
    """
    trouble: OSError = OSError(f"{address.host} has no address")
    try:
        found = await _resolved(sockets, address, until)
        for number, (family, kind, protocol, _, where) in enumerate(found):
            seconds, untried = max(0.001, until - now()), len(found) - number
            if untried > 1:
                seconds = min(ADDRESS_SECONDS, seconds / untried)
            sock = own(socket.socket(family, kind, protocol))
            try:
                await sockets.connect(sock, where, seconds)
                if not address.path:
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            except OSError as error:
                sock.close()
                trouble = error
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        raise trouble
    except (TimeoutError, BlockingIOError) as error:  # a full queue of a Unix socket: not now
        raise NoReply(f"{address} does not answer", sent=False) from error
    except OSError as error:
        if answered:
            raise NoReply(str(refused(address, error)), sent=False) from error
        raise refused(address, error) from error
    finally:
        del trouble


async def _resolved(sockets: Sockets, address: Address, until: float) -> list[Found]:
    """Return the addresses of a name; NoReply when the resolver is silent, OSError for none."""
    if address.path:
        if not hasattr(socket, "AF_UNIX"):
            text = f"{address}: Python has no Unix sockets on this system: use redis://HOST:PORT"
            raise ServerUnsuitable(text)
        return [(socket.AF_UNIX, socket.SOCK_STREAM, 0, "", address.path)]
    found = numeric(address)
    if found is not None:
        return found
    host, port = _host(address), address.port

    def ask() -> list[Found]:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)

    try:
        return await sockets.look_up(until, ("name", host, port), ask)
    except TimeoutError as error:
        text = f"{address}: the resolver does not answer for this name"
        raise NoReply(text, sent=False) from error


def numeric(address: Address) -> list[Found] | None:
    """Return what an address in numbers stands for, which needs no resolver; None for a name."""
    try:
        return socket.getaddrinfo(
            _host(address), address.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
    except socket.gaierror:
        return None


def _host(address: Address) -> str | bytes:
    """Return the name as bytes if possible.

    For an ASCII name this saves Python from loading its tables for other alphabets.
    """
    return address.host.encode() if address.host.isascii() else address.host


@contextmanager
def connecting(where: str) -> Iterator[None]:
    """Have a machine that opens no file or socket be no other error than a server that refuses."""
    try:
        yield
    except (FencelockError, TimeoutError):  # each may be an OSError, too
        raise
    except OSError as error:
        raise refused(where, error) from error


def refused(address: object, error: OSError) -> ServerUnreachable:
    """Return the error for an address where no server answers."""
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
