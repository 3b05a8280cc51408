"""Which port a source needs. Only that one is loaded: a command of the shell needs no asyncio."""
# ruff: noqa: PLC0415 - as said above

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencelock._ports.aio import AioPort
    from fencelock._ports.blocking import BlockingPort
    from fencelock.options import Acknowledgement


def for_threads(
    source: Any, *, home: str, patience: float, replicas: Acknowledgement | None = None
) -> BlockingPort:
    """Return a new port for threads, one that replicas acknowledge to where that is asked for."""
    if is_cluster(source):
        from fencelock._ports.cluster import ClusterPort

        check_replicas(source, replicas)
        return ClusterPort(source, home=home, patience=patience)
    from fencelock._ports.blocking import BlockingPort

    port = BlockingPort(source, home=home, patience=patience)
    if replicas is not None:
        from fencelock._ports.acknowledging import SeatReplicas

        port.replicas = SeatReplicas(replicas)
    return port


def for_tasks(
    source: Any, *, home: str, patience: float, replicas: Acknowledgement | None = None
) -> AioPort:
    """Return a new port for the tasks of the running loop; ``replicas`` as for threads."""
    if is_cluster(source):
        from fencelock._ports.cluster_aio import ClusterAioPort

        return ClusterAioPort(source, home=home, patience=patience)
    if replicas is not None:
        from fencelock._ports.acknowledging_aio import AcknowledgedPort

        return AcknowledgedPort(source, home=home, patience=patience, replicas=replicas)
    from fencelock._ports.aio import AioPort

    return AioPort(source, home=home, patience=patience)


def is_cluster(source: Any) -> bool:
    """Tell whether a source is a Cluster."""
    return hasattr(source, "seeds")


def check_replicas(source: Any, replicas: Acknowledgement | None) -> None:
    """Raise ValueError where acknowledgements cannot be asked for."""
    if replicas is not None and is_cluster(source):
        raise ValueError("replicas must be None for a Cluster: it has a master for each slot")
