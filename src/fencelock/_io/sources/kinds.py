"""The ways to connect to one server, or to the master of a service; a client's own settings.

While ``fencelock.testing.inactive()`` lasts, something else takes the place of every server. A
connection is made to it instead, also by clients that were made before. A client of several servers
that is made meanwhile has one such server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fencelock._io.sources.url import (
    OPTIONS,
    Address,
    divided,
    from_settings,
    redacted,
    used_options,
)
from fencelock._runtime.records import NamedTuple
from fencelock._runtime.typed import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from fencelock._topology.sentinel import SentinelService

_PLAIN_CLASSES = ("Connection", "UnixDomainSocketConnection")
_PLAIN_MODULES = (
    "redis.connection",
    "redis.asyncio.connection",
    "valkey.connection",
    "valkey.asyncio.connection",
)


class Direct(NamedTuple):
    """A plain address, dialled by ourselves; ``locate`` may start the embedded server.

    ``answered``: a server answered at what ``locate`` returns. If it refuses, it has just died.
    """

    locate: Callable[[float], Address]
    label: str
    answered: bool = False


class Cloned(NamedTuple):
    """A client's way to connect: its connection class and its settings."""

    connection_class: Any
    settings: dict[str, Any]
    label: str
    spoken: set[str]  # its own label, once a server there has spoken as these settings want it


class Bridged(NamedTuple):
    """A client whose connections cannot be cloned: see bridge.py."""

    client: Any
    label: str


One = Direct | Cloned | Bridged  # one server

# Inside ``inactive()``: makes a client of redis-py for a server by its name, for threads (False) or
# asyncio (True).
stand_in: Callable[[str, bool], Any] | None = None


def instead_of(source: One, *, asynchronous: bool) -> One:
    """Return what is connected to instead of one server."""
    if stand_in is None:
        return source
    return Bridged(stand_in(source.label, asynchronous), source.label)


def nowhere(_until: float) -> Address:
    """Refuse to connect, outside of ``inactive()``, to what took the place of servers there."""
    raise RuntimeError("a client that was made inside inactive() has no server outside of it")


def silence(source: Source) -> str:
    """Return what is said of a server that is silent while it is connected to."""
    if hasattr(source, "sentinels"):
        return f"{source.label}: its Sentinels, or the master that they name, do not answer"
    tls = (
        isinstance(source, Cloned)
        and not source.spoken
        and "SSL" in source.connection_class.__name__
    )
    also = ": does the server use TLS on that port? redis:// is without TLS" if tls else ""
    return f"{source.label} does not answer{also}"


Source: TypeAlias = "One | SentinelService"


def tls(url: str, *, asynchronous: bool) -> Direct | Cloned:
    """Return how to connect to the one server of a ``rediss://`` URL: as redis-py does."""
    from urllib.parse import parse_qs  # noqa: PLC0415 - only where it is needed

    import redis.asyncio  # noqa: PLC0415 - redis-py takes 0.1 s to import

    parts, _ = divided(url)  # else an error of theirs may show a part of a password
    used_options(parse_qs(parts.query, keep_blank_values=True), OPTIONS, tls=True)
    kind: Any = redis.asyncio.Redis if asynchronous else redis.Redis
    client = kind.from_url(url.replace("valkeys://", "rediss://", 1))
    return one_server(client, asynchronous=asynchronous)._replace(label=redacted(url))


def one_server(client: object, *, asynchronous: bool) -> Direct | Cloned:
    """Return how a client of one server connects; TypeError when it is no such client."""
    pool = getattr(client, "connection_pool", None)
    connection_class = getattr(pool, "connection_class", None)
    settings = getattr(pool, "connection_kwargs", None)
    if not isinstance(connection_class, type) or settings is None:
        raise TypeError(
            "source must be None, a URL, or a redis-py or valkey-py client with a connection pool,"
            f" not {type(client).__name__}"
        )
    check_face(client, connection_class, asynchronous=asynchronous)
    return settled(connection_class, settings, f"{type(client).__name__} client")


def settled(connection_class: Any, settings: Mapping[str, Any], label: str) -> Direct | Cloned:
    """Return how connections of this class with these settings are made: by ourselves if plain."""
    address = from_settings(settings) if is_plain(connection_class) else None
    if address is not None:
        return Direct(lambda _: address, str(address))
    return Cloned(connection_class, dict(settings), label, set())


def is_plain(connection_class: Any) -> bool:
    """Return True if a client's connections do nothing that we do not do ourselves."""
    return (
        connection_class.__name__ in _PLAIN_CLASSES
        and connection_class.__module__ in _PLAIN_MODULES
    )


def check_face(client: object, connection_class: Any, *, asynchronous: bool) -> None:
    """Raise TypeError for a client of the other face."""
    from inspect import iscoroutinefunction  # noqa: PLC0415 - a URL does not need it

    if iscoroutinefunction(connection_class.connect) == asynchronous:
        return
    module = type(client).__module__.partition(".")[0]
    if asynchronous:
        raise TypeError(
            f"AsyncClient needs an asyncio client: {module}.asyncio.{type(client).__name__}"
        )
    raise TypeError(
        f"Client needs a blocking client: {module}.{type(client).__name__}, not its asyncio twin"
    )
