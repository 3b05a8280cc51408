"""Which port a source needs. Only that one is loaded: a command of the shell needs no asyncio."""
# ruff: noqa: PLC0415 - as said above

from __future__ import annotations

from typing import TYPE_CHECKING

from fencelock._transport.source import Cloned, Direct, Source

if TYPE_CHECKING:
    from fencelock._ports.aio import AioPort
    from fencelock._ports.blocking import BlockingPort
    from fencelock._transport.cluster import Clustered


def for_threads(source: Source | Clustered, *, home: str, patience: float) -> BlockingPort:
    """Return a new port for threads."""
    if isinstance(source, (Direct, Cloned)):
        from fencelock._ports.blocking import BlockingPort

        return BlockingPort(source, home=home, patience=patience)
    from fencelock._ports.cluster import ClusterPort

    return ClusterPort(source, home=home, patience=patience)


def for_tasks(source: Source | Clustered, *, home: str, patience: float) -> AioPort:
    """Return a new port for the tasks of the running loop."""
    if isinstance(source, (Direct, Cloned)):
        from fencelock._ports.aio import AioPort

        return AioPort(source, home=home, patience=patience)
    from fencelock._ports.cluster_aio import ClusterAioPort

    return ClusterAioPort(source, home=home, patience=patience)
