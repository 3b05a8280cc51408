"""Which port a client's source needs, for asyncio; as ``choose.py`` for threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fencelock._core.inspect import home_prefix
from fencelock._ports.aio import AioPort
from fencelock._ports.choose import chosen, is_cluster, is_quorum
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
    patience: float,
    node_timeout: float,
    replicas: Acknowledgement | None = None,
) -> PortMaker:
    """Return what makes a loop's port; TypeError or ValueError says what is wrong with a source."""
    found = chosen(source, replicas, asynchronous=True)
    home = home_prefix(prefix)

    def make() -> AioPort:
        if is_quorum(found):
            from fencelock._ports.quorum_aio import AioQuorum  # noqa: PLC0415 - rarely needed

            return AioQuorum(
                found, prefix=prefix, home=home, patience=patience, node_timeout=node_timeout
            )
        if is_cluster(found) and replicas is not None:
            from fencelock._ports.acknowledging_cluster import (  # noqa: PLC0415 - as above
                AcknowledgedClusterPort,
            )

            return AcknowledgedClusterPort(found, home=home, patience=patience, replicas=replicas)
        if is_cluster(found):
            from fencelock._io.cluster_asyncio import AsyncioClusterPort  # noqa: PLC0415 - as above

            return AsyncioClusterPort(found, home=home, patience=patience)
        if replicas is not None:
            from fencelock._ports.acknowledging_aio import AcknowledgedPort  # noqa: PLC0415 - as above

            return AcknowledgedPort(found, home=home, patience=patience, replicas=replicas)
        return AioPort(found, home=home, patience=patience)

    return PortMaker(make, found.label, quorum=is_quorum(found))
