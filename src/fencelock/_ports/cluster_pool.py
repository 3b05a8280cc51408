"""The blocking port's connections to a Cluster: one pool for each node, and the map of the slots.

Rules of this file:

- One thread at a time reads the map; the others wait for it, or use the one there is.
- A node that breaks makes the map doubtful; whoever asks next reads it from another node.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from fencelock._core.keys import slot
from fencelock._core.types import Broken
from fencelock._ports.pool import Pool, closed
from fencelock._transport.cluster import (
    MAP_SECONDS,
    READ_MAP,
    Clustered,
    SlotMap,
    replaced,
    unsuitable,
)
from fencelock._transport.cluster_proof import Node
from fencelock._transport.direct import Connection
from fencelock.clock import now
from fencelock.errors import ServerDenied, ServerError


class NodePool(Pool):
    """Connections to one node, which is known to exist: that nobody answers there may pass."""

    __slots__ = ("node",)

    def __init__(
        self, cluster: Clustered, node: Node, pushed: Callable[[Connection, list[bytes]], None]
    ) -> None:
        super().__init__(cluster.at(node), pushed)
        self._reached = True
        self.node = node

    def _dial(self, until: float) -> Connection:
        connection = super()._dial(until)
        connection.node = self.node
        return connection


class ClusterPool(Pool):
    """Connections to all nodes, found by what is to be asked there."""

    __slots__ = ("_cluster", "_pools", "_reading", "slots")

    def __init__(
        self, cluster: Clustered, pushed: Callable[[Connection, list[bytes]], None]
    ) -> None:
        super().__init__(cluster.at(cluster.seeds[0]), pushed)
        self._cluster = cluster
        self._pools: dict[Node, NodePool] = {}
        # A finalizer that interrupts the thread inside may read the map as well.
        self._reading = threading.RLock()
        self.slots = SlotMap(cluster.seeds, cluster.remap)

    def take(self, until: float) -> Connection:
        """Return a connection to any master."""
        self._read_map(until)
        trouble: Exception | None = None
        for node in self.slots.masters:
            try:
                return self.take_at(node, until)
            except (Broken, ServerError) as error:
                trouble = error
        raise trouble or _nowhere()

    def take_for(self, key: bytes, until: float) -> Connection:
        """Return a connection to the node that a key is at; ends like ``Pool.take``."""
        return self.take_at(self.owner(key, until), until)

    def take_at(self, node: Node, until: float) -> Connection:
        """Return a connection to a node."""
        if self.closed:
            raise closed()
        try:
            return self._pool(node).take(until)
        except (Broken, ServerError) as error:
            if not isinstance(error, ServerDenied):
                self.slots.doubt(node)
            raise

    def idle_at(self, node: Node) -> Connection | None:
        """Return an idle connection to a node, if there is one."""
        pool = self._pools.get(node)
        return None if pool is None else pool.idle()

    def beside(self, connection: Connection) -> Pool:
        """Return the pool of connections to the same node."""
        return self._pool(connection.node)

    def give(self, connection: Connection) -> None:
        """Keep a connection for the next call to its node."""
        pool = self._pool(connection.node)
        pool.closed = self.closed
        pool.give(connection)

    def drop(self) -> None:
        """Close the idle connections."""
        for pool in list(self._pools.values()):
            pool.closed = self.closed
            pool.drop()

    def owner(self, key: bytes, until: float) -> Node:
        """Return the node that a key is at; Broken when that cannot be found out now."""
        number = slot(key)
        if self.slots.doubtful:
            self._read_map(until)
        node = self.slots.owner(number)
        if node is None:
            self.slots.doubt(None)
            raise Broken("no node of the Cluster serves this slot", sent=False)
        return node

    def _pool(self, node: Node) -> NodePool:
        pool = self._pools.get(node)
        if pool is None:
            pool = self._pools.setdefault(node, NodePool(self._cluster, node, self._pushed))
        return pool

    def _read_map(self, until: float) -> None:
        """Read the map if it is in doubt; the one there is stays when nobody tells another."""
        if not self.slots.wants_reading():
            return
        if not self._reading.acquire(timeout=max(0.0, until - now())):
            raise Broken("the map of the Cluster was not read in time", sent=False)
        try:
            if self.slots.wants_reading():
                self._ask_around(until)
        finally:
            self._reading.release()

    def _ask_around(self, until: float) -> None:
        trouble: Exception | None = None
        for node in list(self.slots.sources()):
            try:
                self._ask(node, min(until, now() + MAP_SECONDS))
            except ServerDenied:
                raise  # it would be so everywhere, and asking on would lock the account
            except (Broken, ServerError) as error:
                trouble = error
                if now() >= until:
                    break
            else:
                return
        if not self.slots.known:
            raise trouble or _nowhere()
        self.slots.read_at = now()

    def _ask(self, node: Node, until: float) -> None:
        if self.closed:
            raise closed()
        pool = self._pools.get(node)
        # Who was never reached may have a wrong address: that error is the user's to see.
        fresh = pool is None and not self.slots.known
        asked = Pool(self._cluster.at(node), self._pushed) if fresh else self._pool(node)
        connection = asked.take(until)
        connection.node = node
        try:
            reply = connection.command(READ_MAP, until)
        except ServerError as error:
            raise unsuitable(error) from error
        finally:
            self.give(connection)
        self.slots.learn(reply, node)

    # -- who is the master ----------------------------------------------------------------------

    def confirm(self, key: bytes, node: Node, asked_at: float, until: float) -> None:
        """See that the answer that came just now is a master's; Broken when others say it is none.

        See cluster_proof.py.
        """
        if not key or self.slots.proofs.counts(node, asked_at):
            return
        inquiry = self.slots.inquire(node)
        try:
            asked = next(inquiry)
            while True:
                asked = inquiry.send(self._named(asked, key, until))
        except StopIteration as end:
            if end.value is False:
                self._see_replaced(key, node, until)

    def _see_replaced(self, key: bytes, node: Node, until: float) -> None:
        """Read the map, from another node if there is one; Broken unless that names this node."""
        self.slots.doubt(node)
        self._ask_around(until)
        if self.slots.owner(slot(key)) != node:
            raise replaced(node)

    def _named(self, node: Node, key: bytes, until: float) -> Node | None:
        """Return whom a node takes for the master of a key; None when it does not tell."""
        until = min(until, now() + MAP_SECONDS)
        try:
            connection = self.take_at(node, until)
        except (Broken, ServerError):
            return None
        try:
            connection.command((b"GET", key), until)  # whoever has locks may
        except Broken:
            self.slots.doubt(node)
            return None
        except ServerError as error:
            return self.slots.named(error, node)
        finally:
            self.give(connection)
        return node


def _nowhere() -> Broken:
    return Broken("no node of the Cluster is known", sent=False)
