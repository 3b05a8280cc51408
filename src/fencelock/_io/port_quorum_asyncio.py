"""The asyncio port of a quorum: one ordinary port per node, each with its one connection.

Rules of this file:

- Asking all at once needs no task: requests are written on each node's connection, and answers are
  taken as they come. Only a missing connection needs a task that waits until it is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from fencelock._core.lock.renew import lose_all
from fencelock._core.quorum.broadcast import NodeRequest
from fencelock._core.types import NoReply, closed
from fencelock._io.connection_asyncio import AsyncConnection
from fencelock._io.link_asyncio import Link
from fencelock._io.port_asyncio import CLOSE_SECONDS, AioPort
from fencelock._io.sources.quorum import QuorumSource
from fencelock._io.wire import (
    ReplyError,
    pack_call,
    pack_source,
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
        self._reached = False  # a node that refuses connections is not retried: there are others
        mux = await super()._dial()
        asked_at = now()
        await identify(mux, mux.command, asked_at, asked_at + self._server_timeout, self.saw)
        return mux


class _AsyncNodePort(AioPort):
    """The port of one node."""

    def __init__(
        self,
        several: QuorumSource,
        number: int,
        *,
        client_channel: str,
        server_timeout: float,
        saw: Identified,
    ) -> None:
        source = several.sources[number]
        super().__init__(source, client_channel=client_channel, server_timeout=server_timeout)
        self.link = link = _IdentifiedLink(
            source, self.client_channel, self._pushed, self._unplugged, server_timeout=DIAL_SECONDS
        )
        link.saw = saw


class _Exchange:
    """Requests to several nodes: those that wait for an answer, and those for a connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, latest: float) -> None:
        self._loop = loop
        self._latest = latest
        self._left = 0  # those that have not ended
        self._bell: asyncio.Future[None] | None = None
        self._dials: list[asyncio.Task[None]] = []
        self._over = False

    def start(self, ask: NodeRequest, link: Link) -> None:
        """Write a request, at once where the node is connected."""
        self._left += 1
        mux = link.mux
        if mux is not None and mux.sound:
            self._write(ask, mux)
        else:
            self._dials.append(self._loop.create_task(self._dial(ask, link)))

    def _write(self, ask: NodeRequest, mux: AsyncConnection) -> None:
        request = ask.request
        packed = request if isinstance(request, bytes) else pack_call(*request)
        ask.connection, ask.began, ask.asked_at = mux, True, now()
        mux.request(packed, self._latest).add_done_callback(partial(self._heard, ask, mux))

    async def _dial(self, ask: NodeRequest, link: Link) -> None:
        try:
            mux = await link.connected(self._latest)
        except (NoReply, FencelockError) as error:
            ask.fail(error)
            self._ended()
        else:
            self._write(ask, mux)

    def _heard(self, ask: NodeRequest, mux: AsyncConnection, slot: asyncio.Future[Any]) -> None:
        """Take an answer or its error; after the exchange it is dropped."""
        error = slot.exception()
        if self._over or ask.ended:
            return
        if isinstance(error, NoReply):
            ask.fail(error)
        elif type(reply := slot.result()) is not ReplyError:
            ask.answer(reply, now())
        elif unknown_script(reply):
            request = ask.request
            packed = with_source(request) if isinstance(request, bytes) else pack_source(*request)
            again = mux.request(packed, self._latest)
            again.add_done_callback(partial(self._heard, ask, mux))
            return
        else:
            ask.fail(server_error(reply))
        self._ended()

    def _ended(self) -> None:
        self._left -= 1
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    async def hear(self, limit: Callable[[], float]) -> None:
        """Return when all have ended, or at the instant."""
        while self._left:
            until = limit()
            left = max(0.0, until - now())
            bell = self._bell = self._loop.create_future()
            timer = self._loop.call_later(left, _ring, bell)
            try:
                await bell
            finally:
                timer.cancel()
            if now() >= until:
                return

    def end(self) -> None:
        """Stop waiting for answers and connections."""
        self._over = True
        for task in self._dials:
            task.cancel()


def _ring(bell: asyncio.Future[None]) -> None:
    if not bell.done():
        bell.set_result(None)


class AioQuorum(QuorumPortRules, AioPort):
    """Implements ``_core.quorum.broadcast.QuorumPort`` for the tasks of one event loop."""

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
        self.nodes = [
            _AsyncNodePort(
                several,
                number,
                client_channel=client_channel,
                server_timeout=self.first_seconds,
                saw=self.identified(number),
            )
            for number in range(len(several.sources))
        ]

    async def exchange(
        self, asks: Sequence[NodeRequest], latest: float, limit: Callable[[], float]
    ) -> None:
        """Write to all, and take answers as they come; see ``QuorumPort``."""
        exchange = _Exchange(self.loop, latest)
        try:
            for ask in asks:
                if self.closing:
                    ask.fail(closed())
                else:
                    exchange.start(ask, self.nodes[ask.node].link)
            await exchange.hear(limit)
        finally:
            exchange.end()
        for ask in asks:
            if not ask.ended:
                ask.give_up()

    def put_back(self, asks: Iterable[NodeRequest]) -> None:
        """Forget the connections of the requests: all tasks share those."""
        for ask in asks:
            ask.connection = None

    def _listen_soon(self) -> None:
        """Do nothing: the nodes' ports listen for revocations."""

    def attend_by(self, when: float) -> None:
        """Set the timer."""
        self._set_timer(when)

    async def shut(self) -> None:
        """Close all nodes' ports; a holder keeps its lease until it ends."""
        self.closing = True
        self.let_go()
        lose_all(self, "closed")
        await asyncio.sleep(0)  # holders are notified in a turn of their own
        await asyncio.gather(*[node.shut() for node in self.nodes])
        told = {task for task in self._tasks if task.get_name() == "fencelock-on-lost"}
        if told:
            await asyncio.wait(told, timeout=CLOSE_SECONDS)
        for timer in (self._timer, self._ticking):
            if timer is not None:
                timer.cancel()
        for task in self._tasks:
            task.cancel()
        self.link.closed = True
