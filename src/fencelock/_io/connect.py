"""The rules for connecting to a plain address and greeting the server, within one deadline.

The blocking operations come from connection_blocking.py and connection_asyncio.py.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from fencelock._core.types import DEMOTED, Demoted, NoReply, Reply
from fencelock._runtime.clock import now
from fencelock._runtime.descriptors import own
from fencelock._runtime.typed import TYPE_CHECKING, Any, Protocol
from fencelock.errors import FencelockError, ServerError, ServerUnreachable, ServerUnsuitable

if TYPE_CHECKING:
    from fencelock._io.sources.url import Address

OLDEST = {"redis": (6, 2), "valkey": (7, 2)}
# While an address of a name is silent, the next one is tried as well after so long (RFC 8305), or
# after its share of a shorter time.
NEXT_SECONDS = 0.25
# Once the others have refused, those that are silent get this much longer: a host may be dead.
ADDRESS_SECONDS = 1.0
# By host and port: which of several addresses was connected to last. It is tried first.
worked: dict[tuple[str, int], Any] = {}
RESOLVER = "fencelock-resolver"
# One result of ``getaddrinfo``.
Found = tuple[Any, Any, int, str, Any]
# Runs a plain command on the new connection; ends like ``Wire.call``.
Ask = Callable[[Sequence[bytes], float], Awaitable[Reply]]


class Sockets(Protocol):
    """The blocking operations of opening a connection."""

    async def look_up(
        self, until: float, key: Hashable, function: Callable[[], list[Found]]
    ) -> list[Found]:
        """Return what the function returns, run in a thread; TimeoutError at the instant."""

    def begin(self, sock: socket.socket, where: Any) -> Any:
        """Begin to connect a socket; return what the other methods need."""

    async def ended(
        self, dials: Mapping[socket.socket, Any], seconds: float
    ) -> Sequence[tuple[socket.socket, BaseException | None]]:
        """Return those that have ended within some seconds, if any, and the error of each."""

    def stop(self, sock: socket.socket, dial: Any) -> None:
        """Close a socket that was begun to be connected."""


async def greet(ask: Ask, handshake: Sequence[tuple[bytes, ...]], where: str, until: float) -> bool:
    """Shake hands; HELLO is the first command. Raises ``NoReply`` or a ``ServerError``.

    Returns False for a server that says that it is a replica. A server that speaks TLS closes the
    connection at the first bytes that do not.
    """
    number, mastered = 0, True
    try:
        for number, command in enumerate(handshake):
            reply = await ask(command, until)
            if number == 0:
                check_version(reply)
                mastered = is_master(reply)
    except NoReply as error:
        scheme, hint = where.partition("://")[0], ""
        if number == 0 and error.undo_connection is None and scheme in {"redis", "valkey"}:
            hint = f" (if the server speaks TLS, its URL begins with {scheme}s://)"
        raise NoReply(f"{where}: {error}{hint}", sent=False) from error.__cause__
    return mastered


async def open_socket(
    sockets: Sockets, address: Address, until: float, *, answered: bool = False
) -> socket.socket:
    """Connect to the first address of the name that answers.

    Raises ``NoReply`` or ServerUnreachable when none can be connected to; of a server that just
    ``answered`` always ``NoReply``: the address is right, and another server will be there.
    """
    try:
        found = await _resolved(sockets, address, until)
        name = address.host, address.port
        found = sorted(found, key=lambda each: each[4] != worked.get(name))
        sock = await _first(sockets, found, until)
        if len(found) > 1:
            worked[name] = sock.getpeername()
        if not address.path:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except (TimeoutError, BlockingIOError) as error:  # a full queue of a Unix socket: not now
        raise NoReply(f"{address} does not answer", sent=False) from error
    except OSError as error:
        if answered:
            raise NoReply(str(refused(address, error)), sent=False) from error
        raise refused(address, error) from error
    else:
        return sock


async def _first(sockets: Sockets, found: Iterable[Found], until: float) -> socket.socket:
    """Return the first socket that is connected; begin with the next one while all are silent."""
    untried, dials = deque(found), dict[socket.socket, Any]()
    trouble: BaseException = TimeoutError() if untried else OSError("the name has no address")
    try:
        while (untried or dials) and (left := until - now()) > 0:
            if untried:
                left = min(left / len(untried), NEXT_SECONDS) if len(untried) > 1 else left
                _begin(sockets, dials, untried.popleft())
            for sock, error in await sockets.ended(dials, left):
                dial = dials.pop(sock)
                if error is None:
                    return sock
                sockets.stop(sock, dial)
                trouble = error
                if not untried:
                    until = min(until, now() + ADDRESS_SECONDS)
        raise trouble
    finally:
        for sock, dial in dials.items():
            sockets.stop(sock, dial)
        del trouble


def _begin(sockets: Sockets, dials: dict[socket.socket, Any], place: Found) -> None:
    """Begin to connect to one address."""
    family, kind, protocol, _, where = place
    sock = own(socket.socket(family, kind, protocol))
    try:
        dials[sock] = sockets.begin(sock, where)
    except BaseException:
        sock.close()
        raise


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


def is_master(hello: Any) -> bool:
    """Return False if the server that sent this HELLO reply says that it is a replica."""
    return not isinstance(hello, dict) or hello.get(b"role", b"master") == b"master"


def check_version(hello: Any) -> None:
    """Raise ServerUnsuitable when the server that sent this HELLO reply is too old."""
    if not isinstance(hello, dict):
        return
    kind = hello.get(b"server", b"redis").decode()
    version = hello.get(b"version", b"").decode()
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers and numbers < OLDEST.get(kind, (6, 2)):
        raise ServerUnsuitable(f"{kind} {version} is too old: Redis 6.2 or Valkey 7.2 is needed")


def refusal(error: ServerError, *, mastered: bool) -> NoReply | ServerError:
    """Return what a refusal is to its caller: of a replica, a request that goes elsewhere.

    ``mastered``: a master answered this client there before.
    """
    if error.code in DEMOTED:
        return Demoted(error, mastered=mastered, sent=error.code == "UNBLOCKED")
    return error
