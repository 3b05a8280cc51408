"""Which port a client's source needs, for asyncio: one for each event loop that uses it."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fencelock._core.keys import channel_prefix
from fencelock._io.port_asyncio import AioPort
from fencelock._io.select_blocking import chosen, is_cluster, is_quorum
from fencelock._io.sources import kinds
from fencelock._runtime.log import log
from fencelock._runtime.mutex import mutex, outside
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
    if kinds.stand_in is not None:
        replicas = None
    given: dict[str, Any] = {
        "client_channel": channel_prefix(prefix),
        "server_timeout": server_timeout,
    }

    def make() -> AioPort:
        if is_quorum(found):
            from fencelock._io.port_quorum_asyncio import AioQuorum  # noqa: PLC0415 - rarely needed

            return AioQuorum(found, prefix=prefix, node_timeout=node_timeout, **given)
        if is_cluster(found) and replicas is not None:
            from fencelock._io.replicas_cluster import (  # noqa: PLC0415 - as above
                AcknowledgedClusterPort,
            )

            return AcknowledgedClusterPort(found, replicas=replicas, **given)
        if is_cluster(found):
            from fencelock._io.cluster_asyncio import AsyncioClusterPort  # noqa: PLC0415 - as above

            return AsyncioClusterPort(found, **given)
        if replicas is not None:
            from fencelock._io.replicas_asyncio import AcknowledgedPort  # noqa: PLC0415 - as above

            return AcknowledgedPort(found, replicas=replicas, **given)
        return AioPort(found, **given)

    return PortMaker(make, found.label, quorum=is_quorum(found))


class LoopPorts:
    """A client's ports, by loop. They end with the client, which warns if it was not closed."""

    def __init__(self, maker: PortMaker) -> None:
        self._maker = maker
        self._ports: dict[int, AioPort] = {}

    def here(self) -> AioPort:
        """Return the running loop's port, made when the loop first asks."""
        loop = asyncio.get_running_loop()
        port = self._ports.get(id(loop))
        if port is None or port.loop is not loop:
            port = self._maker.make()
            with mutex():  # the loops of other threads make theirs
                for key, each in list(self._ports.items()):
                    if each.loop.is_closed():
                        del self._ports[key]
                self._ports[id(loop)] = port
                for each in self._ports.values():
                    each.elsewhere = len(self._ports) > 1
        return port

    def __del__(self) -> None:
        """Close what ``aclose()`` did not, and warn."""
        left = [port for port in getattr(self, "_ports", {}).values() if port.left_open]
        if left and not sys.is_finalizing():
            label = self._maker.label
            outside(lambda: _dropped(label, left))


def _dropped(label: str, ports: Sequence[AioPort]) -> None:
    """Warn of a client dropped with open connections; close those whose loop still runs."""
    text = f"an AsyncClient of {label} was dropped without aclose(): use `async with`, or close it"
    running = [port for port in ports if port.loop.is_running()]
    for port in running:
        port.loop.call_soon_threadsafe(port.shut_soon)
    if running:
        log.warning(text)
    warnings.warn(text, ResourceWarning, stacklevel=4)
