"""Threads and a Cluster: a pool of connections for each node, and the waiters that use them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from fencelock._core.lock.attempt import Attempt
from fencelock._core.round_trips import RoundTrips
from fencelock._core.seat import Seat
from fencelock._core.types import NoReply, Reply
from fencelock._io.connection_blocking import Connection, Pushed, dial
from fencelock._io.io_blocking import BlockingIo, BlockingSeveral
from fencelock._io.pool_blocking import Pool
from fencelock._io.port_blocking import BlockingPort
from fencelock._io.threads import run_blocking, run_inline
from fencelock._runtime.clock import now
from fencelock._runtime.typed import Any
from fencelock._topology import cluster
from fencelock._topology.cluster import ClusterPort
from fencelock._topology.slots import ClusterSource, NodeAddress
from fencelock.errors import ServerError


class BlockingNodes(BlockingSeveral, BlockingIo):
    """Implements ``_topology.io.NodeIo`` for threads, and what ``BlockingPort`` needs of a pool."""

    def __init__(
        self, source: ClusterSource, pushed: Pushed, client_channel: bytes, most: float
    ) -> None:
        self._source = source
        self._most = most  # how long a connection may take to open
        self.trips = RoundTrips()
        self._pushed = pushed
        self._client_channel = client_channel
        self._numbers = count(1)
        self.at: dict[NodeAddress | None, Pool] = {}
        self.closed: bool = False

    def close(self) -> None:
        """Close the idle connections, and keep no other from here on."""
        self.closed = True
        self.drop()

    async def lend(self, node: NodeAddress, until: float) -> Connection:
        """Return a connection to a node; ends like ``Pool.take``."""
        return self.pool_of(node).take(until)

    def give(self, connection: Connection) -> None:
        """Take a waiter's connection back, and keep it unless it hears very many channels."""
        if len(connection.channels) > cluster.CHANNELS_MAX and not connection.owed:
            connection.close()
        else:
            self.at[connection.node].give(connection)

    def of_node(self, connection: Connection) -> Pool:
        """Return the pool of connections to the same node."""
        return self.pool_of(connection.node)

    @property
    def asking(self) -> bool:
        """Return True while a request to any node waits for its answer."""
        return any(pool.asking for pool in list(self.at.values()))

    def drop(self) -> None:
        """Close the idle connections; once the client is closed, no more of them are kept."""
        for pool in list(self.at.values()):
            pool.closed = self.closed
            pool.drop()

    def pool_of(self, node: NodeAddress) -> Pool:
        """Return the pool of connections to a node."""
        pool = self.at.get(node)
        if pool is None:
            source, channel, numbers = self._source.at(node), self._client_channel, self._numbers

            def opens(until: float, pushed: Pushed) -> Connection:
                connection = dial(source, until, pushed)
                connection.node, connection.name = node, b"%b.%d" % (channel, next(numbers))
                return connection

            made = Pool(opens, self._pushed, self._most, self.trips.part())
            pool = self.at.setdefault(node, made)
            pool.closed = self.closed  # as ``closed`` was set in between, perhaps
        return pool


class BlockingClusterPort(ClusterPort, BlockingPort):
    """The port of a Cluster for threads."""

    pool: BlockingNodes  # type: ignore[assignment]  # several pools in one

    def _new_pool(self) -> BlockingNodes:  # type: ignore[override]  # as above
        nodes = BlockingNodes(self.source, self._ear, self.client_channel, self.server_timeout)
        self._use(self.source, nodes)
        return nodes

    def _exchange(self, request: bytes, key: bytes, at: float, until: float) -> Reply:
        pool: Any = self._nodes_of(key)
        connection = None if pool is None else pool.idle(at)
        if connection is None:
            return run_inline(self.run(request, key, until))
        try:
            reply = self._answer(connection, request, key, at, until)
        except BaseException:
            pool.give(connection)
            raise
        pool.free.append(connection)
        return reply

    def _answer(
        self,
        connection: Connection,
        request: bytes,
        key: bytes,
        at: float,
        until: float,
        *,
        waiter: Seat | None = None,
    ) -> Reply:
        """Return what the node of a key answers; the flow goes on from what is no answer there.

        A connection that was used before is given up sooner than a call.
        """
        try:
            reply = connection.run(request, until, at)
        except (NoReply, ServerError) as trouble:
            step = self._step_after(trouble, connection.node)
            if step is None:
                raise
            return run_inline(self.run(request, key, until, waiter, step=step))
        if not self._counts(connection.node, at):
            latest = min(until, now() + self.pool.trips.call)
            run_inline(self._map.confirm(key, connection.node, latest))
        return reply

    def _ask(
        self, attempt: Attempt, at: float, until: float, *, listen: bool, opened: bool = False
    ) -> Reply:
        """Send a first question where no channel is needed, or one is heard; see ``open``."""
        del listen, opened  # ``ask_for`` is another here, which does not come back to this
        terms = attempt.terms
        key = terms.keys.lock
        pool: Any = None if self.closing or terms.topic else self._nodes_of(key)
        connection = None if pool is None else pool.idle(at)
        if connection is None:
            return None
        attempt.connection = attempt.origin = connection  # as ``sit``, without its call
        connection.waiter = attempt
        heard = connection.channels and self._hears(attempt, connection)
        if key in self.lines.by_key and not heard:
            return None
        if self.pool.trips.watched:
            attempt.reckon(self.pool.trips)
        request = attempt.question(at)
        reply = self._answer(connection, request, key, at, until, waiter=attempt)
        if type(reply) is bytes:
            if attempt.owed or self._lent or connection is not attempt.connection:
                self.close(attempt)
            else:
                attempt.connection = attempt.origin = connection.waiter = None
                pool.free.append(connection)
        return reply

    def take_any(self, until: float) -> Connection:
        """Return a connection to any master: revocations go to all nodes."""
        connection: Connection = run_blocking(self._map.anywhere(until))
        return connection

    async def _reconnect(self, waiter: Seat, node: NodeAddress, until: float) -> None:
        with self._seating(waiter):
            await super()._reconnect(waiter, node, until)

    def sit(self, waiter: Seat, connection: Connection) -> None:
        """Give a waiter a connection for itself."""
        waiter.connection = waiter.origin = connection
        connection.waiter = waiter

    def tuned(self, waiter: Seat, connection: Connection, word: bytes) -> bool:
        """Note that a waiter hears another program's channel, until ``close``; False if it did."""
        known, connection.topics[waiter.topic] = waiter.topic in connection.topics, word
        return not known

    def seated(self, connection: Connection) -> Iterable[Seat]:
        """Return the waiter that has this connection, if one has."""
        return () if connection.waiter is None else (connection.waiter,)

    def seated_as(self, connection: Connection, who: bytes) -> Seat | None:
        """Return the waiter that has this connection, if that is its id."""
        waiter: Seat | None = connection.waiter
        return waiter if waiter is not None and waiter.id == who else None

    async def wait(self, waiter: Seat, until: float) -> None:
        """Read the waiter's connection; when it is gone, so may be its node."""
        connection = waiter.origin
        await BlockingPort.wait(self, waiter, until)
        if connection is not None and not connection.sound:
            self.slots.invalidate(connection.node)

    def pushed(self, connection: Connection, message: list[bytes]) -> None:
        """Take a push."""
        taken = self.taken(connection, message)
        if taken is not None:
            BlockingPort.pushed(self, connection, taken)
