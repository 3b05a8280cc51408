"""Which port a client's source needs: that of one server, of a Cluster, or of a quorum.

Only that one is loaded: a command of the shell needs no asyncio.
"""
# ruff: noqa: PLC0415 - as said above

from __future__ import annotations

from fencelock._io.process_ports import ClientOptions
from fencelock._io.sources import kinds
from fencelock._io.sources.resolve import quorum_source, resolve
from fencelock._runtime.process import patched
from fencelock._runtime.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencelock._io.port_blocking import BlockingPort


def port_for(source: object, **options: Any) -> BlockingPort:
    """Return the port for threads; TypeError or ValueError for an invalid source."""
    patched()
    found, given = chosen(source, asynchronous=False, **options)
    if is_quorum(found):
        from fencelock._io.port_quorum_blocking import BlockingQuorum

        return BlockingQuorum(found, given)
    if is_cluster(found):
        from fencelock._io.cluster_blocking import BlockingClusterPort

        port: BlockingPort = BlockingClusterPort(found, given)
    else:
        from fencelock._io.port_blocking import BlockingPort

        port = BlockingPort(found, given)
    if given.replicas is not None:
        from fencelock._io.replicas_blocking import BlockingReplicas

        port.replicas = BlockingReplicas(given.replicas)
    return port


def chosen(source: object, *, asynchronous: bool, **options: Any) -> tuple[Any, ClientOptions]:
    """Return where a source leads, and what is asked; ValueError for replicas that cannot be."""
    given = ClientOptions(**options)
    together = quorum_source(source, asynchronous=asynchronous)
    found: Any = together or resolve(source, asynchronous=asynchronous)
    if kinds.stand_in is not None:
        if not isinstance(found, kinds.One):
            found = kinds.Direct(kinds.nowhere, found.label)
        return found, given._replace(replicas=None)
    if given.replicas is not None and is_quorum(found):
        raise ValueError("replicas must be None for a quorum: its servers have no replicas")
    return found, given


def is_cluster(found: Any) -> bool:
    """Return True if a source is a Cluster."""
    return hasattr(found, "seeds")


def is_quorum(found: Any) -> bool:
    """Return True if a source is a quorum of servers."""
    return hasattr(found, "sources")
