"""A Cluster from the user's source: a URL, or a redis-py or valkey-py RedisCluster client.

The client itself is never used: only its list of nodes and its settings for connections are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from fencelock._io.sources.kinds import Cloned, Direct, check_face, settled
from fencelock._io.sources.url import Address, login, unreadable, used_options
from fencelock._topology.slots import ClusterSource, NodeAddress

_PORTS = 1 << 16


def from_url(url: str, *, asynchronous: bool) -> ClusterSource:
    """Parse ``redis+cluster://[user:password@]host:port,host:port``; ``rediss+cluster`` for TLS.

    ValueError says what is wrong.
    """
    scheme, _, rest = url.partition("://")
    rest, _, query = rest.partition("?")
    credentials, _, where = rest.rpartition("@")
    hosts, _, database = where.partition("/")
    if database not in {"", "0"}:
        raise ValueError(f"a Cluster has database 0 only, not {database!r}")
    username, password = login(credentials)
    try:
        seeds = tuple(map(_seed, hosts.split(",")))
    except ValueError:
        if "@" in query:  # it shows a part of a password
            raise unreadable(url, "a bad node") from None
        raise
    label = f"{scheme}://{','.join(map(str, seeds))}"
    secure = scheme.startswith(("rediss", "valkeys"))
    options = dict(parse_qsl(query, keep_blank_values=True))
    options = {each: options[each] for each in used_options(options, (), tls=secure)}
    if secure:
        import redis.asyncio  # noqa: PLC0415 - redis-py takes 0.1 s to import: only for TLS

        kind = redis.asyncio.ConnectionPool if asynchronous else redis.ConnectionPool
        pool: Any = kind.from_url(f"rediss://node/?{urlencode(options)}")  # it reads them
        settings = {"username": username, "password": password, **pool.connection_kwargs}
        return ClusterSource(seeds, _cloning(pool.connection_class, settings, "TLS node"), label)

    def at(node: NodeAddress) -> Direct:
        address = Address(node.host, node.port, "", username, password)
        return Direct(lambda _: address, str(address))

    return ClusterSource(seeds, at, label)


def _seed(text: str) -> NodeAddress:
    host, separator, port = text.rpartition(":")
    if text.endswith("]") or not separator:
        host, port = text, ""
    bare = host.removeprefix("[").removesuffix("]")
    if not bare or not f"{port}0".isdecimal() or int(port or 0) >= _PORTS:
        raise ValueError(f"a Cluster's URL needs host:port,host:port, not {text!r}")
    return NodeAddress(bare, int(port or 0) or 6379)


def _cloning(
    connection_class: Any, settings: Mapping[str, Any], what: str
) -> Callable[[NodeAddress], Direct | Cloned]:
    def at(node: NodeAddress) -> Direct | Cloned:
        own = {**settings, "host": node.host, "port": node.port}
        return settled(connection_class, own, f"{what} {node}")

    return at


def from_client(client: Any, *, asynchronous: bool) -> ClusterSource:
    """Return the Cluster that a client is for; TypeError when it is of the other face."""
    known = client.nodes_manager
    nodes = [*known.startup_nodes.values(), *getattr(known, "nodes_cache", {}).values()]
    connection_class, settings = _settings(client, nodes)
    check_face(client, connection_class, asynchronous=asynchronous)
    seeds = tuple(dict.fromkeys(NodeAddress(str(node.host), int(node.port)) for node in nodes))
    name = type(client).__name__
    at = _cloning(connection_class, settings, f"{name} node")
    plain = isinstance(at(seeds[0]), Direct)
    label = f"redis+cluster://{','.join(map(str, seeds))}" if plain else f"{name} client"
    return ClusterSource(seeds, at, label, _remap(getattr(known, "address_remap", None)))


def _remap(theirs: Any) -> Callable[[NodeAddress], NodeAddress] | None:
    """Return how a client's ``address_remap`` changes a node's address, behind NAT for example."""
    if theirs is None:
        return None

    def reached(node: NodeAddress) -> NodeAddress:
        host, port = theirs((node.host, node.port))
        return NodeAddress(str(host), int(port))

    return reached


def _settings(client: Any, nodes: list[Any]) -> tuple[Any, dict[str, Any]]:
    """Return the connection class and settings that a client's nodes share."""
    for node in nodes:
        own_client = getattr(node, "redis_connection", None) or getattr(
            node, "valkey_connection", None
        )
        holder = getattr(own_client, "connection_pool", node)
        if hasattr(holder, "connection_class"):
            settings = dict(holder.connection_kwargs)
            break
    else:
        raise TypeError(f"source is a {type(client).__name__} that has not connected to a node yet")
    # Theirs only adds READONLY for replicas, which we do not ask; a user's own function stays.
    own = getattr(client, "on_connect", None)
    for name in ("redis_connect_func", "valkey_connect_func"):
        if settings.get(name) == own:
            settings[name] = getattr(client, "user_on_connect_func", None)
    return holder.connection_class, settings
