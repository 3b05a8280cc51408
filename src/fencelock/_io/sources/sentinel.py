"""A service behind Sentinels: given by a URL, or by a client's pool that asks them itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

from fencelock._io.sources.kinds import Cloned, Direct, one_server, settled, tls
from fencelock._io.sources.url import Address, db_number, login, redacted, unreadable, used_options
from fencelock._topology.sentinel import SentinelReply, SentinelService

SENTINEL_PORT = 26379
_FORM = "redis+sentinel://host1:26379,host2,host3/service/0"
_PORTS = 65536
_OPTIONS = ("db", "sentinel_username", "sentinel_password")
# The classes that find the master by themselves, and those for a given address.
_FINDING = {
    "SentinelManagedConnection": "Connection",
    "SentinelManagedSSLConnection": "SSLConnection",
}
_LIBRARIES = ("redis", "valkey")

# Host, port, user, password: of a Sentinel or of the master.
_Place = tuple[str, int, str | None, str | None]


def from_url(url: str, *, asynchronous: bool) -> SentinelService:
    """Return the service that a URL names; ValueError says what is wrong with it."""
    scheme, _, rest = url.partition("://")
    rest, _, query = rest.partition("?")
    where, _, path = rest.partition("/")
    service, _, db = path.partition("/")
    credentials, _, hosts = where.rpartition("@")
    if not service:
        raise ValueError(f"source URL names no service: {redacted(url)} ({_FORM})")
    options = dict(parse_qsl(query, keep_blank_values=True))
    number = db_number(options.pop("db", "") or db or "0")
    user, password = login(credentials)
    sentinel_user = options.pop("sentinel_username", None)
    sentinel_password = options.pop("sentinel_password", None)
    secure = scheme.startswith(("rediss", "valkeys"))
    used = used_options(options, _OPTIONS, tls=secure)
    options = {each: options[each] for each in used}

    def reach(place: _Place, number: int = 0) -> Direct | Cloned:
        host, port, name, word = place
        if not secure:
            address = Address(host, port, "", name, word, number)
            return Direct(lambda _: address, str(address))
        own = f"{quote(name or '', safe='')}:{quote(word or '', safe='')}@{_host(host)}:{port}"
        more = f"?{urlencode(options)}" if options else ""
        return tls(f"rediss://{own}/{number}{more}", asynchronous=asynchronous)

    places = list(_places(hosts, url))
    sentinels = [reach((*place, sentinel_user, sentinel_password)) for place in places]
    service = unquote(service)
    named = ",".join(f"{_host(host)}:{port}" for host, port in places)
    label = f"{scheme}://{named}/{quote(service)}/{number}"
    master = reach(("localhost", 0, user, password), number)
    return SentinelService(sentinels, service, reaching(master, label), label)


def reaching(
    master: Direct | Cloned, label: str, host: str = ""
) -> Callable[[SentinelReply], Direct | Cloned]:
    """Return how to reach a master that a Sentinel names, with the credentials of ``master``.

    With ``host``, it is always there.
    """

    def at(reply: SentinelReply) -> Direct | Cloned:
        where = host or reply.host
        if isinstance(master, Direct):
            address = master.locate(0.0)._replace(host=where, port=reply.port)
            return Direct(lambda _: address, str(address))
        settings = {**master.settings, "host": where, "port": reply.port}
        return master._replace(settings=settings, label=f"{label}: {where}:{reply.port}")

    return at


def _places(hosts: str, url: str) -> Iterator[tuple[str, int]]:
    for each in hosts.split(","):
        has_port = ":" in each.rpartition("]")[2]
        host, _, port = each.rpartition(":") if has_port else (each, "", "")
        host = unquote(host.removeprefix("[").removesuffix("]"))
        number = int(port) if port.isdecimal() else SENTINEL_PORT
        if not host or (port and not port.isdecimal()) or not 0 < number < _PORTS:
            if "@" in url:  # this may be a part of a password
                raise unreadable(url, "a bad Sentinel")
            raise ValueError(f"source URL names a bad Sentinel {each!r}: {redacted(url)} ({_FORM})")
        yield host, number


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def from_client(client: Any, *, asynchronous: bool) -> SentinelService | None:
    """Return the service of a client that asks Sentinels; None when its classes are not known.

    Such a client's connections are cloned: they find the master by themselves, as ever.

    Raises:
        TypeError: the client is of the other face, or for replicas.
    """
    pool = client.connection_pool
    if not pool.is_master:
        raise TypeError("source must reach the master: use Sentinel(...).master_for(...)")
    one_server(client, asynchronous=asynchronous)  # is it for this face?
    connection_class = _given(pool.connection_class)
    if connection_class is None:
        return None
    asked = pool.sentinel_manager
    settings = {**pool.connection_kwargs}
    settings.pop("connection_pool", None)
    label = f"{type(client).__name__} client of service {pool.service_name}"
    host = getattr(asked, "_force_master_ip", None) or ""
    return SentinelService(
        [one_server(each, asynchronous=asynchronous) for each in asked.sentinels],
        str(pool.service_name),
        reaching(settled(connection_class, settings, label), label, host),
        label,
    )


def _given(connection_class: Any) -> Any:
    """Return the class for connections to a given address; None for a subclass of the user's."""
    name, module = connection_class.__name__, connection_class.__module__
    library = module.partition(".")[0]
    if library not in _LIBRARIES or name not in _FINDING:
        return None
    wanted = _FINDING[name]
    return next((each for each in connection_class.__mro__ if each.__name__ == wanted), None)
