"""The asyncio port of a quorum: one ordinary port per node, each with its one connection.

Rules of this file:

- Asking all at once needs no task: requests are written on each node's connection, and answers are
  taken as they come. Only a missing connection needs a task that waits until it is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fencelock._core.lock.hand_back import give_back_all
from fencelock._core.lock.renew import lose_all
from fencelock._core.quorum.broadcast import Ballot
from fencelock._core.types import NoReply, closed
from fencelock._io.connection_asyncio import AsyncConnection
from fencelock._io.link_asyncio import Link
from fencelock._io.port_asyncio import CLOSE_SECONDS, AioPort
from fencelock._io.sources.quorum import QuorumSource
from fencelock._io.wire import (
    ReplyError,
    server_error,
    unknown_script,
    with_source,
)
from fencelock._runtime.clock import now
from fencelock._topology.quorum import DIAL_SECONDS, Identified, QuorumPortRules, identify
from fencelock.errors import FencelockError


class _IdentifiedLink(Link):
    """The connection to one node, which identifies itself each time it is dialled."""

    saw: Identified

    async def _dial(self) -> AsyncConnection:
        self.reached = False  # a node that refuses connections is not retried: there are others
        mux = await super()._dial()
        asked_at = now()
        await identify(mux, mux.command, asked_at, asked_at + self._server_timeout, self.saw)
        return mux


class _AsyncNodePort(AioPort):
    """The port of one node."""

    link: _IdentifiedLink
    is_node = True

    def _new_link(self) -> _IdentifiedLink:
        told = (self._pushed, self.unplugged)
        return _IdentifiedLink(self.source, self.client_channel, *told, server_timeout=DIAL_SECONDS)


class _AnswerSlot:
    """Takes the answer to one request where it is read: no task and no future waits for it alone.

    It is to a connection what a future of ``AsyncConnection.request`` is.
    """

    __slots__ = ("_ask", "_exchange")

    def __init__(self, exchange: _Exchange, ask: Ballot) -> None:
        self._exchange = exchange
        self._ask = ask

    def done(self) -> bool:
        """Return True if no request waits for the answer any more."""
        return self._exchange.over or self._ask.ended

    def set_result(self, reply: Any) -> None:
        """Take the answer."""
        ask = self._ask
        if type(reply) is not ReplyError:
            ask.answer(reply, now())
        elif unknown_script(reply):  # the server does not know it by its digest
            ask.connection.request(with_source(ask.packed), self._exchange.latest, self)
            return
        else:
            ask.fail(server_error(reply))
        self._exchange.ended()

    def set_exception(self, error: Any) -> None:
        """Take the error instead of an answer."""
        self._ask.fail(error)
        self._exchange.ended()


class _Exchange:
    """Requests to several nodes: those that wait for an answer, and those for a connection."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        latest: float,
        limit: Callable[[], float],
        look_seconds: float,
    ) -> None:
        self._loop = loop
        self.latest = latest
        self._limit = limit
        self._look_seconds = look_seconds
        self._left = 0  # those that have not ended
        self._bell: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._dials: list[asyncio.Task[None]] = []
        self.over = False

    def start(self, asks: Sequence[Ballot], nodes: Sequence[AioPort]) -> None:
        """Write the requests, at once where the node is connected."""
        self._left = len(asks)
        for ask in asks:
            link = nodes[ask.node].link
            if link.mux is not None and link.mux.sound:
                ask.connection = link.mux
            else:
                self._dials.append(self._loop.create_task(self._dial(ask, link)))
        self._write(asks)

    def _write(self, asks: Iterable[Ballot]) -> None:
        """Write each request that has a connection."""
        for ask in asks:
            mux = ask.connection
            if mux is not None:
                ask.began, ask.asked_at = True, now()
                mux.request(ask.packed, self.latest, _AnswerSlot(self, ask))

    async def _dial(self, ask: Ballot, link: Link) -> None:
        try:
            ask.connection = await link.connected(self.latest)
        except (NoReply, FencelockError) as error:
            ask.fail(error)
            self.ended()
        else:
            self._write((ask,))

    def ended(self) -> None:
        """Note that a request has ended: its answer came, or an error."""
        self._left -= 1
        if self._left:
            self._limit()  # if this answer decides, others are awaited from now on only so long
        else:
            self._ring()

    async def hear(self) -> None:
        """Return when all have ended, or at the instant that ``limit`` returns."""
        if self._left:
            self._bell = self._loop.create_future()
            self._look()
            await self._bell

    def _look(self) -> None:
        """Ring at the instant. It may have come nearer since the last look, so look often."""
        left = self._limit() - now()
        if left > 0:
            self._timer = self._loop.call_later(min(left, self._look_seconds), self._look)
        else:
            self._ring()

    def _ring(self) -> None:
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    def end(self) -> None:
        """Stop waiting for answers and connections."""
        self.over = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._dials:
            task.cancel()


class AioQuorum(QuorumPortRules, AioPort):
    """Implements ``_core.quorum.broadcast.QuorumPort`` for the tasks of one event loop."""

    attend_by = AioPort.attend_by

    def __init__(
        self,
        several: QuorumSource,
        *,
        prefix: str,
        client_channel: str,
        server_timeout: float,
        node_timeout: float,
    ) -> None:
        source: Any = several  # nothing is dialled
        super().__init__(source, client_channel=client_channel, server_timeout=server_timeout)
        self.begin_quorum(several.labels, prefix, node_timeout)
        nodes = [
            _AsyncNodePort(each, client_channel=client_channel, server_timeout=self.first_seconds)
            for each in several.sources
        ]
        for number, node in enumerate(nodes):
            node.link.saw = self.identified(number)
        self.nodes = nodes

    async def exchange(
        self, asks: Sequence[Ballot], latest: float, limit: Callable[[], float]
    ) -> None:
        """Write to all, and take answers as they come; see ``QuorumPort``."""
        # From the answer that decides, ``limit`` is no nearer than ``node_timeout``.
        if self.closing:
            for ask in asks:
                ask.fail(closed())
            return
        exchange = _Exchange(self.loop, latest, limit, self.node_timeout)
        try:
            exchange.start(asks, self.nodes)
            await exchange.hear()
        finally:
            exchange.end()
        for ask in asks:
            if not ask.ended:
                ask.give_up()

    def put_back(self, asks: Iterable[Ballot]) -> None:
        """Forget the connections of the requests: all tasks share those."""
        for ask in asks:
            ask.connection = None

    def _listen_soon(self, after: float = 0.0) -> None:
        """Do nothing: the nodes' ports listen for revocations."""

    async def shut(self, within: float = CLOSE_SECONDS, *, release: bool = False) -> bool:
        """Close all nodes' ports; see ``AioPort.shut``."""
        self.closing = True
        until = now() + within
        half = until - within / 2
        await asyncio.gather(*[node.dismiss_waiters(half) for node in self.nodes])
        returned = not release or await give_back_all(self, until - within / 4)
        await asyncio.gather(*[node.end_requests() for node in self.nodes])
        lose_all(self, "closed")  # first: then the end of their parts is no news
        await asyncio.sleep(0)  # holders are notified in a turn of their own
        await asyncio.gather(*[node.shut(max(0.0, until - now())) for node in self.nodes])
        await self._finish_notifying(until if release else now() + CLOSE_SECONDS)
        for timer in (self._timer, self._ticking):
            if timer is not None:
                timer.cancel()
        self._cancel_tasks()
        self.link.closed = True
        return returned
