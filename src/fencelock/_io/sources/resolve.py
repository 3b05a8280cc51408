"""What the user brought, turned into something that opens connections.

- nothing: ``FENCELOCK_URL``, or the embedded server (asked for at each dial, so that one that died
  is started again);
- a URL: plain ones are dialled directly, TLS ones through redis-py;
- a Cluster's URL or client: see cluster.py;
- a redis-py or valkey-py client: its address and credentials, or, when there is more to it (TLS,
  credential providers, subclasses), clones of its own connections;
- Sentinels, by URL or by such a client: see sentinel.py.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fencelock._core.types import NoReply
from fencelock._io.sources.kinds import Bridged, Cloned, Direct, Source, one_server, tls
from fencelock._io.sources.url import (
    PLAIN_SCHEMES,
    SENTINEL_SCHEMES,
    TLS_SCHEMES,
    Address,
    parse,
    redacted,
)
from fencelock._runtime.clock import now
from fencelock.errors import ServerUnreachable

if TYPE_CHECKING:
    from fencelock._topology.slots import ClusterSource

CLUSTER_SCHEMES = tuple(f"{each}+cluster" for each in ("redis", "valkey", *TLS_SCHEMES))


def resolve(source: object, *, asynchronous: bool) -> Source | ClusterSource:
    """Return how to connect; TypeError or ValueError says what is wrong with ``source``."""
    if source is None:
        source = os.environ.get("FENCELOCK_URL") or None
    if source is None:
        return Direct(_embedded, "the embedded server")
    if isinstance(source, str):  # a file or a variable may end with a blank
        return _from_url(source.strip(), asynchronous=asynchronous)
    return _from_client(source, asynchronous=asynchronous)


def _from_url(url: str, *, asynchronous: bool) -> Source | ClusterSource:
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise ValueError(f"source URL must look like redis://host:6379/0, not {redacted(url)!r}")
    if scheme in PLAIN_SCHEMES:
        address = parse(url)
        return Direct(lambda _: address, str(address))
    if scheme in TLS_SCHEMES:
        return tls(url, asynchronous=asynchronous)
    if scheme in SENTINEL_SCHEMES:
        from fencelock._io.sources import sentinel  # noqa: PLC0415 - others do not need it

        return sentinel.from_url(url, asynchronous=asynchronous)
    if scheme in CLUSTER_SCHEMES:
        from fencelock._io.sources import cluster as cluster_source  # noqa: PLC0415 - only for a Cluster

        return cluster_source.from_url(url, asynchronous=asynchronous)
    schemes = (*PLAIN_SCHEMES, *TLS_SCHEMES, *SENTINEL_SCHEMES, *CLUSTER_SCHEMES)
    known = ", ".join(f"{each}://" for each in schemes)
    raise ValueError(f"source URL must begin with one of {known}, not {scheme}://")


def _from_client(client: object, *, asynchronous: bool) -> Source | ClusterSource:
    if hasattr(client, "nodes_manager"):
        from fencelock._io.sources import cluster as cluster_source  # noqa: PLC0415 - only for a Cluster

        return cluster_source.from_client(client, asynchronous=asynchronous)
    if hasattr(getattr(client, "connection_pool", None), "sentinel_manager"):
        from fencelock._io.sources import sentinel  # noqa: PLC0415 - others do not need it

        service = sentinel.from_client(client, asynchronous=asynchronous)
        if service is not None:
            return service
    found = one_server(client, asynchronous=asynchronous)
    # What fakeredis calls a connection has no socket that we could take over.
    fake = isinstance(found, Cloned) and found.connection_class.__module__.startswith("fakeredis")
    return Bridged(client, found.label) if fake else found


def _embedded(until: float) -> Address:
    from fencelock import embedded  # noqa: PLC0415 - only where no server is configured

    left = until - now()
    if left <= 0:
        raise NoReply("no time left to reach the embedded server", sent=False)
    try:
        return parse(embedded.ensure(timeout=left))
    except ServerUnreachable as error:
        error.code = error.code or "REFUSED"
        raise
