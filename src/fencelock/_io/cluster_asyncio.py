"""Tasks and a Cluster: one multiplexed connection for each node that is asked.

Rules of this file:

- An undo is sent after its request, on the same connection: a waiter's ``origin``.
- A channel is left when no waiter needs it; after one refusal, channels are no longer left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

from fencelock._core.lock.attempt import Attempt
from fencelock._core.pushes import dispatch
from fencelock._core.round_trips import RoundTrips
from fencelock._core.seat import Question, Seat
from fencelock._core.types import NoReply, Reply
from fencelock._io.connection_asyncio import AsyncConnection
from fencelock._io.io_asyncio import AsyncioIo, AsyncioSeveral
from fencelock._io.link_asyncio import Link
from fencelock._io.port_asyncio import AioPort
from fencelock._io.wire import ReplyError
from fencelock._runtime.clock import now
from fencelock._runtime.log import log
from fencelock._topology import cluster
from fencelock._topology.cluster import ANYWHERE, ClusterPort
from fencelock._topology.slots import SLOTS, NodeAddress
from fencelock.errors import ServerError


class NodeLink(Link):
    """A connection to one node that reconnects, and the channels that are heard on it."""

    def __init__(self, port: AsyncioClusterPort, node: NodeAddress) -> None:
        super().__init__(
            port,
            port.source.at(node),
            server_timeout=port.server_timeout,
            trips=port.link.trips.part(),
        )
        self.node = node
        self.room = 0  # how many channels are heard before idle ones are left; 0: as many as usual

    async def _open(self, until: float) -> AsyncConnection:
        mux = await super()._open(until)
        mux.node, mux.name = self.node, self._port.client_channel
        mux.closed.add_done_callback(lambda _: self._port.lost(mux))
        return mux

    def pushed(self, message: list[bytes]) -> None:
        """Take a push on the connection of this node."""
        if self.mux is not None:
            self._port.pushed_on(self.mux, message)

    def give(self, connection: AsyncConnection) -> None:
        """Leave it to the other tasks."""

    def leave_idle(self, busy: Collection[bytes]) -> None:
        """Leave the channels that are not in ``busy``.

        It costs one command each, so it is done rarely, for many at once.
        """
        mux = self.idle()
        if mux is None:
            return
        idle = [at for at, name in mux.channels.items() if at != ANYWHERE and name not in busy]
        self.room = 2 * (len(mux.channels) - len(idle))
        for at in idle:
            name = mux.channels.pop(at)
            mux.leave(name, now() + self._server_timeout).add_done_callback(self._left)

    def _left(self, answer: asyncio.Future[Any]) -> None:
        if answer.exception() is None and isinstance(answer.result(), ReplyError):
            self.room = SLOTS  # the user may not
            log.info("could not unsubscribe from channels: %s", answer.result())


class AsyncioNodes(AsyncioSeveral, AsyncioIo):
    """Implements ``_topology.io.NodeIo`` for tasks, and what ``AioPort`` needs of a link."""

    mux: AsyncConnection | None = None  # there is none for all keys
    closed = False
    look_seconds = 0.05

    def __init__(self, port: AsyncioClusterPort) -> None:
        super().__init__()
        self._port = port
        self.trips = RoundTrips()
        self.at: dict[NodeAddress | None, NodeLink] = {}

    async def lend(self, node: NodeAddress, until: float) -> AsyncConnection:
        """Return the connection to a node; ends like ``Link.connected``."""
        return await self.link_to(node).connected(until)

    def link_to(self, node: NodeAddress) -> NodeLink:
        """Return the link to a node."""
        link = self.at.get(node)
        if link is None:
            link = self.at[node] = NodeLink(self._port, node)
            link.closed = self.closed
        return link

    async def exchange(
        self, asks: Sequence[Question], latest: float, limit: Callable[[], float]
    ) -> None:
        """Write to all nodes, and take answers as they come; see ``NodeIo``."""
        await super().exchange(asks, latest, limit)
        for ask in asks:
            mux = ask.connection
            if isinstance(ask.error, NoReply) and mux and mux.silent_since(ask.asked_at):
                mux.retire()  # the next try must not wait on a connection that went silent

    @property
    def listening(self) -> bool:
        """Return True if the home channel is heard, at any node: revocations go to all."""
        return any(link.listening for link in self.at.values())

    @property
    def ear(self) -> AsyncConnection | None:
        """Return the connection on which the home channel is heard, if it is sound."""
        return next((mux for link in self.at.values() if (mux := link.ear) is not None), None)

    async def close(self) -> None:
        """Close all links for good."""
        self.closed = True
        await self.end()
        for link in list(self.at.values()):
            await link.close()


class AsyncioClusterPort(ClusterPort, AioPort):
    """The port of a Cluster for the tasks of one loop."""

    link: AsyncioNodes  # type: ignore[assignment]  # several links in one

    def _new_link(self) -> AsyncioNodes:  # type: ignore[override]  # as above
        nodes = AsyncioNodes(self)
        self._use(self.source, nodes)
        return nodes

    @property
    def connections(self) -> list[AsyncConnection]:
        """Return those that are sound, to all nodes."""
        links = list(self.link.at.values())
        return [mux for link in links if (mux := link.idle()) is not None]

    def unplugged(self) -> None:
        """Have revocations heard at another node."""
        if self.renewals.busy and not self.link.listening:
            self._listen_soon()

    async def _listen_home(self, until: float) -> None:
        """Hear revocations, which go to all nodes, at any master."""
        mux = await self._map.anywhere(min(until, now() + self._map.node_seconds))
        await self.link.at[mux.node].listen(until)

    def _mux_for(self, key: bytes) -> AsyncConnection | None:
        link = self.link.at.get(self.slots.sure(key))
        return None if link is None else link.idle()

    async def run(
        self, request: bytes, key: bytes, until: float, waiter: Seat | None = None, **unusual: Any
    ) -> Reply:
        """Run a packed script call at the node of its key; see ``ClusterPort.run``."""
        link = None if waiter is not None or unusual else self._nodes_of(key)
        mux = None if link is None else link.idle()
        if mux is None or not key:
            return await super().run(request, key, until, waiter, **unusual)
        return await self._answer(mux, request, key, now(), until)

    async def _answer(
        self,
        mux: AsyncConnection,
        request: bytes,
        key: bytes,
        at: float,
        until: float,
        *,
        waiter: Seat | None = None,
    ) -> Reply:
        """Return what the node of a key answers; the flow goes on from what is no answer there."""
        latest = at + self.link.trips.call
        until = latest if latest < until else until  # noqa: FURB136 - min() takes ten times as long
        try:
            reply = await mux.run(request, until)
            if type(reply) is ReplyError:
                reply = await mux.refused(reply, request, until)
        except (NoReply, ServerError) as trouble:
            step = self._step_after(trouble, mux.node)
            if step is None:
                raise
            return await super().run(request, key, until, waiter, step=step)
        if not self._counts(mux.node, at):
            await self._map.confirm(key, mux.node, until)
        return reply

    async def _ask(
        self,
        attempt: Attempt,
        at: float,
        until: float,
        *,
        listen: bool,
        opened: AsyncConnection | None = None,
    ) -> Reply:
        """Send a first question where no channel is needed, or one is heard; see ``open``."""
        del listen, opened  # ``ask_for`` is another here, which does not come back to this
        terms, key = attempt.terms, attempt.terms.keys.lock
        link = None if self.closing or terms.topic else self._nodes_of(key)
        mux = None if link is None else link.idle()
        if mux is None:
            return None
        self.sit(attempt, mux)
        heard = mux.channels and self._hears(attempt, mux)
        if key in self.lines.by_key and not heard:
            return None
        if self.link.trips.watched:
            attempt.reckon(self.link.trips)
        reply = await self._answer(mux, attempt.question(at), key, at, until, waiter=attempt)
        if type(reply) is bytes:
            self.close(attempt)
        return reply

    # -- waiting --------------------------------------------------------------------------------

    def sit(self, waiter: Seat, connection: AsyncConnection) -> None:
        """Have a waiter ask and listen on a connection."""
        waiter.origin = connection
        self._waiters[waiter.id] = waiter

    def tuned(self, waiter: Seat, connection: AsyncConnection, word: bytes) -> bool:
        """Note that a waiter hears another program's channel, until ``close``; False if it did."""
        return connection.tune(waiter, word)

    def seated(self, connection: AsyncConnection) -> Iterable[Seat]:
        """Return the waiters that ask and listen on a connection."""
        return [each for each in self._waiters.values() if each.origin is connection]

    def seated_as(self, connection: AsyncConnection, who: bytes) -> Seat | None:
        """Return the waiter of this id, if it uses this connection."""
        waiter = self._waiters.get(who)
        return waiter if waiter is not None and waiter.origin is connection else None

    def close(self, waiter: Seat) -> None:
        """Forget a waiter; leave channels when many are idle."""
        mux: AsyncConnection | None = waiter.origin
        self._waiters.pop(waiter.id, None)
        waiter.connection = waiter.origin = None
        if mux is not None and waiter.topic:
            mux.untune(waiter)
        if mux is None or len(mux.channels) <= cluster.CHANNELS_MAX:
            return
        link = self.link.at[mux.node]
        if link.mux is mux and len(mux.channels) > link.room:
            link.leave_idle({each.channel for each in self.seated(mux)})

    def pushed_on(self, mux: AsyncConnection, message: list[bytes]) -> None:
        """Take a push, and wake the waiter that it was for."""
        taken = self.taken(mux, message)
        if taken is not None and (heard := mux.topics.get(taken[1])):
            self.rouse(heard)
            return
        waiter = None if taken is None else dispatch(self, taken, partial(self.seated_as, mux))
        if waiter is not None:
            self.wake(waiter)
