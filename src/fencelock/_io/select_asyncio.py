"""Which port a client's source needs, for asyncio; as ``select_blocking.py`` for threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fencelock._core.lock.inspect import channel_prefix
from fencelock._io.port_asyncio import AioPort
from fencelock._io.select_blocking import chosen, is_cluster, is_quorum
from fencelock._io.sources import stand_in
from fencelock.options import Acknowledgement


class PortMaker(NamedTuple):
    """Makes a loop's port; ``label`` is what people call the source."""

    make: Callable[[], AioPort]
    label: str
    quorum: bool


def port_maker(
    source: object,
    *,
    prefix: str,
    server_timeout: float,
    node_timeout: float,
    replicas: Acknowledgement | None = None,
) -> PortMaker:
    """Return the factory of a loop's port; TypeError or ValueError for an invalid source."""
    found = chosen(source, replicas, asynchronous=True)
    if stand_in.make is not None:
        replicas = None
    client_channel = channel_prefix(prefix)

    def make() -> AioPort:
        if is_quorum(found):
            from fencelock._io.port_quorum_asyncio import AioQuorum  # noqa: PLC0415 - rarely needed

            return AioQuorum(
                found,
                prefix=prefix,
                client_channel=client_channel,
                server_timeout=server_timeout,
                node_timeout=node_timeout,
            )
        if is_cluster(found) and replicas is not None:
            from fencelock._io.replicas_cluster import (  # noqa: PLC0415 - as above
                AcknowledgedClusterPort,
            )

            return AcknowledgedClusterPort(
                found,
                client_channel=client_channel,
                server_timeout=server_timeout,
                replicas=replicas,
            )
        if is_cluster(found):
            from fencelock._io.cluster_asyncio import AsyncioClusterPort  # noqa: PLC0415 - as above

            return AsyncioClusterPort(
                found, client_channel=client_channel, server_timeout=server_timeout
            )
        if replicas is not None:
            from fencelock._io.replicas_asyncio import AcknowledgedPort  # noqa: PLC0415 - as above

            return AcknowledgedPort(
                found,
                client_channel=client_channel,
                server_timeout=server_timeout,
                replicas=replicas,
            )
        return AioPort(found, client_channel=client_channel, server_timeout=server_timeout)

    return PortMaker(make, found.label, quorum=is_quorum(found))
