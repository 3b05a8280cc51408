"""The asyncio port of a quorum: one ordinary port per node, each with its one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from fencelock._core.lock.maintain import lose_all
from fencelock._core.lock.release import give_back_all
from fencelock._core.quorum.broadcast import Ballot
from fencelock._io.connection_asyncio import AsyncConnection
from fencelock._io.link_asyncio import Link
from fencelock._io.port_asyncio import CLOSE_SECONDS, AioPort
from fencelock._io.several_asyncio import exchange, put_back
from fencelock._io.sources.quorum import QuorumSource
from fencelock._runtime.clock import now
from fencelock._topology.io import DIAL_SECONDS
from fencelock._topology.quorum import Identified, QuorumPortRules, identify


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
        links = [node.link for node in self.nodes]
        # From the answer that decides, ``limit`` is no nearer than ``node_timeout``.
        await exchange(asks, links, latest, limit, self.node_timeout)

    put_back = staticmethod(put_back)

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
