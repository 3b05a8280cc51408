"""The asyncio port for a Cluster whose replicas must acknowledge; see replicas_asyncio.py.

Each node has replicas of its own, so each has rounds of its own: requests at one node share its
WAIT, and a node with a silent replica holds up no other node.
"""

from __future__ import annotations

import asyncio

from fencelock._core.seat import Seat
from fencelock._core.types import NoReply
from fencelock._io.cluster_asyncio import AsyncioClusterPort
from fencelock._io.connection_asyncio import AsyncConnection
from fencelock._io.replicas_asyncio import AsyncReplicas, PortWithRounds, replica_link
from fencelock._topology.master_check import NodeAddress
from fencelock._topology.slots import ClusterSource
from fencelock.options import Acknowledgement


class AsyncClusterReplicas:
    """Implements ``_core.port.Replicas``: asks at the node that a waiter was answered by."""

    def __init__(
        self,
        cluster: ClusterSource,
        asked: Acknowledgement,
        client_channel: bytes,
        server_timeout: float,
    ) -> None:
        self.wanted, self.timeout = self._asked = asked
        self._cluster, self._client_channel, self._server_timeout = (
            cluster,
            client_channel,
            server_timeout,
        )
        self._rounds: dict[NodeAddress, AsyncReplicas] = {}

    async def acknowledge(self, waiter: Seat, until: float) -> int:
        """Share the next round of the node; see ``Replicas``."""
        mux = waiter.origin
        if not isinstance(mux, AsyncConnection):
            raise NoReply("the connection of the request was lost", sent=False)
        rounds = self._rounds.get(mux.node)
        if rounds is None:
            rounds = self._rounds[mux.node] = self._new(mux.node)
        return await rounds.count(waiter.keys, mux, until)

    def _new(self, node: NodeAddress) -> AsyncReplicas:
        link = replica_link(
            self._cluster.at(node), self._asked, self._client_channel, self._server_timeout
        )
        link.reached = True  # it answered just now: silence there may be temporary
        return AsyncReplicas(link, self._asked)

    @property
    def asking(self) -> bool:
        """Return True while a round is under way at any node."""
        return any(rounds.asking for rounds in self._rounds.values())

    async def close(self) -> None:
        """End what is under way, and close the connections."""
        await asyncio.gather(*[rounds.close() for rounds in self._rounds.values()])

    def after_fork(self) -> None:
        """In a child: touch nothing of the parent's."""
        for rounds in self._rounds.values():
            rounds.link.closed = True


class AcknowledgedClusterPort(PortWithRounds, AsyncioClusterPort):
    """An asyncio port for a Cluster whose grants replicas acknowledge."""

    replicas: AsyncClusterReplicas

    def __init__(
        self,
        source: ClusterSource,
        *,
        client_channel: str,
        server_timeout: float,
        replicas: Acknowledgement,
    ) -> None:
        super().__init__(source, client_channel=client_channel, server_timeout=server_timeout)
        self.replicas = AsyncClusterReplicas(source, replicas, self.client_channel, server_timeout)

    def after_fork(self) -> None:
        """In a child: touch nothing of the parent's."""
        super().after_fork()
        self.replicas.after_fork()
