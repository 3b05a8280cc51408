"""The asyncio port of a quorum: one ordinary port per node, each with its one connection."""

from __future__ import annotations

from collections.abc import Sequence

from fencelock._core.quorum.engine import Identified, QuorumEngine
from fencelock._core.round_trips import DIAL_SECONDS, DIAL_TRIPS, RoundTrips
from fencelock._core.types import NoReply
from fencelock._io.connection_asyncio import AsyncConnection
from fencelock._io.io_asyncio import AsyncioSeveral
from fencelock._io.link_asyncio import Link
from fencelock._io.port_asyncio import AioPort
from fencelock._io.process_ports import ClientOptions
from fencelock._io.sources.resolve import QuorumSource
from fencelock._runtime.clock import now
from fencelock._topology.quorum import NodePortRules, identify


class _IdentifiedLink(Link):
    """The connection to one node, which identifies itself each time it is dialled."""

    saw: Identified

    async def _dial(self) -> AsyncConnection:
        self.reached = False  # a node that refuses connections is not retried: there are others
        seconds = self._open_seconds()
        until = now() + seconds
        try:
            mux = await super()._dial()
            mux.stall = self.trips.within(DIAL_SECONDS, DIAL_TRIPS)
            await identify(mux, mux.command, until, self.saw)
        except NoReply:
            if now() >= until:
                self.trips.missed(seconds)
            raise
        return mux

    def _open_seconds(self) -> float:
        return self.trips.to_open(self._server_timeout)


class _AsyncNodePort(NodePortRules, AioPort):
    """The port of one node."""

    link: _IdentifiedLink

    def _new_link(self) -> _IdentifiedLink:
        trips = RoundTrips(DIAL_SECONDS)
        return _IdentifiedLink(self, self.source, server_timeout=self.most, trips=trips)


class AioQuorum(AsyncioSeveral, QuorumEngine, AioPort):
    """The port of a quorum for the tasks of one event loop."""

    nodes: Sequence[_AsyncNodePort] = ()

    def __init__(self, source: QuorumSource, given: ClientOptions) -> None:
        super().__init__(source, given)
        self.begin_quorum(source.labels, given.prefix, given.node_timeout)
        # From the answer that decides, the others get no less.
        self.look_seconds = given.node_timeout
        self.nodes = [_AsyncNodePort(each, given) for each in source.sources]
        self.name_nodes()
        self.link.trips = self.far()
        self._keep_pace(self.link.trips)
        links = [node.link for node in self.nodes]
        for number, link in enumerate(links):
            link.saw = self.identified(number)
        self.link_to = links.__getitem__
