"""The asyncio port for a Cluster whose replicas must acknowledge; see acknowledging_aio.py.

Each node has replicas of its own, so each has rounds of its own: those who wait for one node share
its WAIT, and a node whose replica is silent holds up nobody at another.
"""

from __future__ import annotations

import asyncio

from fencelock._core.types import Broken
from fencelock._core.waiter import Waiter
from fencelock._io.cluster_asyncio import AsyncioClusterPort
from fencelock._ports.acknowledging_aio import Rounds, link_apart
from fencelock._topology.flows.replicas import CONFIRMED_CLUSTER
from fencelock._topology.master_check import Node
from fencelock._topology.slots import Clustered
from fencelock._transport.mux import Mux
from fencelock.options import Acknowledgement


class NodeRounds:
    """Implements ``_core.port.Replicas``: asks at the node that a waiter was answered by."""

    def __init__(
        self, cluster: Clustered, asked: Acknowledgement, home: bytes, patience: float
    ) -> None:
        self.wanted, self.timeout = self._asked = asked
        self._cluster, self._home, self._patience = cluster, home, patience
        self._rounds: dict[Node, Rounds] = {}

    async def acknowledge(self, waiter: Waiter, until: float) -> int:
        """Share the next round of the node; see ``Replicas``."""
        mux = waiter.origin
        if not isinstance(mux, Mux):
            raise Broken("the connection of the request was lost", sent=False)
        rounds = self._rounds.get(mux.node)
        if rounds is None:
            rounds = self._rounds[mux.node] = self._new(mux.node)
        return await rounds.count(waiter.want, mux, until)

    def _new(self, node: Node) -> Rounds:
        link = link_apart(self._cluster.at(node), self._asked, self._home, self._patience)
        link._reached = True  # it answered just now: that nobody answers there may pass
        return Rounds(link, self._asked)

    async def close(self) -> None:
        """End what is under way, and close the connections."""
        await asyncio.gather(*[rounds.close() for rounds in self._rounds.values()])

    def after_fork(self) -> None:
        """In a child: touch nothing of the parent's."""
        for rounds in self._rounds.values():
            rounds.link.closed = True


class AcknowledgedClusterPort(AsyncioClusterPort):
    """An asyncio port for a Cluster whose grants replicas acknowledge."""

    flows = CONFIRMED_CLUSTER
    replicas: NodeRounds

    def __init__(
        self, source: Clustered, *, home: str, patience: float, replicas: Acknowledgement
    ) -> None:
        super().__init__(source, home=home, patience=patience)
        self.replicas = NodeRounds(source, replicas, self.home, patience)

    async def shut(self) -> None:
        """Close all connections."""
        await super().shut()
        await self.replicas.close()

    def after_fork(self) -> None:
        """In a child: touch nothing of the parent's."""
        super().after_fork()
        self.replicas.after_fork()
