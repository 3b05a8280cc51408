"""Which port a client's source needs: that of one server, of a Cluster, or of a quorum.

Only that one is loaded: a command of the shell needs no asyncio.
"""
# ruff: noqa: PLC0415 - as said above

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fencelock._core.keys import channel_prefix
from fencelock._io.sources import kinds
from fencelock._io.sources.resolve import resolve

if TYPE_CHECKING:
    from fencelock._io.port_blocking import BlockingPort
    from fencelock.options import Acknowledgement


def port_for(
    source: object,
    *,
    prefix: str,
    server_timeout: float,
    node_timeout: float,
    replicas: Acknowledgement | None = None,
) -> BlockingPort:
    """Return the port for threads; TypeError or ValueError for an invalid source."""
    found = chosen(source, replicas, asynchronous=False)
    if kinds.stand_in is not None:
        replicas = None
    given: dict[str, Any] = {
        "client_channel": channel_prefix(prefix),
        "server_timeout": server_timeout,
    }
    if is_quorum(found):
        from fencelock._io.port_quorum_blocking import BlockingQuorum

        return BlockingQuorum(found, prefix=prefix, node_timeout=node_timeout, **given)
    if is_cluster(found):
        from fencelock._io.cluster_blocking import BlockingClusterPort

        port: BlockingPort = BlockingClusterPort(found, **given)
    else:
        from fencelock._io.port_blocking import BlockingPort

        port = BlockingPort(found, **given)
    if replicas is not None:
        from fencelock._io.replicas_blocking import BlockingReplicas

        port.replicas = BlockingReplicas(replicas)
    return port


def chosen(source: object, replicas: Acknowledgement | None, *, asynchronous: bool) -> Any:
    """Return where a source leads; ValueError where replicas cannot be asked there."""
    found: Any = None
    given = os.environ.get("FENCELOCK_URL") if source is None else source
    several = isinstance(given, str) and ("," in given or len(given.split()) > 1)
    if several or isinstance(given, (list, tuple)):
        from fencelock._io.sources.quorum import quorum_source

        found = quorum_source(given, asynchronous=asynchronous)
    if found is None:
        found = resolve(source, asynchronous=asynchronous)
    found = kinds.instead_of_many(found)
    if replicas is not None and is_quorum(found):
        raise ValueError("replicas must be None for a quorum: its servers have no replicas")
    return found


def is_cluster(found: Any) -> bool:
    """Return True if a source is a Cluster."""
    return hasattr(found, "seeds")


def is_quorum(found: Any) -> bool:
    """Return True if a source is a quorum of servers."""
    return hasattr(found, "sources")
