"""What the user brought, turned into something that opens connections.

- nothing: ``FENCELOCK_URL``, or the embedded server (asked for at each dial, so that one that died
  is started again);
- a URL: plain ones are dialled directly, TLS ones through redis-py;
- a Cluster's URL or client: see cluster.py;
- a redis-py or valkey-py client: its address and credentials, or, when there is more to it (TLS,
  credential providers, subclasses), clones of its own connections;
- Sentinels, by URL or by such a client: see sentinel.py;
- several of these: a quorum of independent servers.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencelock._core.types import NoReply
from fencelock._io.sources.kinds import Bridged, Cloned, Direct, One, Source, one_server, tls
from fencelock._io.sources.url import (
    PLAIN_SCHEMES,
    SENTINEL_SCHEMES,
    TLS_SCHEMES,
    Address,
    parse,
    redacted,
)
from fencelock._runtime.clock import now
from fencelock._runtime.process import environment_url
from fencelock._runtime.records import NamedTuple
from fencelock._runtime.typed import TYPE_CHECKING
from fencelock.errors import ServerUnreachable

if TYPE_CHECKING:
    from fencelock._topology.slots import ClusterSource

CLUSTER_SCHEMES = tuple(f"{each}+cluster" for each in ("redis", "valkey", *TLS_SCHEMES))


class QuorumSource(NamedTuple):
    """The nodes of a quorum: how to connect to each, and what to call them."""

    sources: Sequence[One]
    labels: Sequence[str]

    @property
    def label(self) -> str:
        """Return what people call them together."""
        return "a quorum of " + ", ".join(self.labels)


def resolve(source: object, *, asynchronous: bool) -> Source | ClusterSource:
    """Return how to connect; TypeError or ValueError says what is wrong with ``source``."""
    if source is None:
        source = environment_url()
    if source is None:
        return Direct(_embedded, "the embedded server", answered=True)
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


# --- a quorum ------------------------------------------------------------------------------------


def quorum_source(source: object, *, asynchronous: bool) -> QuorumSource | None:
    """Return the nodes of a quorum, or None for what is one source.

    Raises:
        TypeError, ValueError: a list that cannot be a quorum, or what ``resolve`` says of a source.
    """
    if source is None:
        source = environment_url()
    if isinstance(source, str):
        urls = split(source)
        if len(urls) == 1:
            return None
        source = urls
    if not isinstance(source, (list, tuple)):
        return None
    if len(source) < 3:  # noqa: PLR2004 - see the message
        raise ValueError(
            "a quorum needs at least 3 sources: with 2, both must answer, and one that fails stops"
            f" all; got {len(source)}"
        )
    if None in source:
        raise TypeError("a quorum's sources must be URLs or clients; None is the embedded server")
    sources = [_single(resolve(each, asynchronous=asynchronous)) for each in source]
    labels = [_label(each) for each in sources]
    twice = sorted({label for label in labels if labels.count(label) > 1 and "://" in label})
    if twice:
        raise ValueError(f"a quorum's sources must be different servers: {', '.join(twice)}")
    labels = [
        label if "://" in label else f"{label} {number}" for number, label in enumerate(labels, 1)
    ]
    return QuorumSource(sources, labels)


def split(urls: str) -> list[str]:
    """Return the URLs of a list in one string.

    A comma or whitespace stands between them, where another URL begins. A comma inside one stays.
    """
    if "," not in urls and len(urls.split()) <= 1:  # the usual case needs no pattern
        return [urls.strip()]
    import re  # noqa: PLC0415 - takes longer to import than all of this folder

    return re.split(r"[\s,]+(?=[A-Za-z][A-Za-z0-9+.-]*://)", urls.strip())


def _single(found: object) -> One:
    """Return the source of one server; a Cluster or a service of Sentinels is several already."""
    if isinstance(found, One):
        return found
    label = getattr(found, "label", found)
    raise ValueError(f"a quorum's sources must be single, independent servers, not {label}")


def _label(source: One) -> str:
    """Return the name that all clients give this node: its address, if that is known."""
    settings = source.settings if isinstance(source, Cloned) else {}
    if "host" in settings:
        return f"redis://{settings['host']}:{settings.get('port', 6379)}/{settings.get('db', 0)}"
    return source.label
