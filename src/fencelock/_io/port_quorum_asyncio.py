"""The asyncio port of a quorum: one ordinary port per node, each with its one connection."""

from __future__ import annotations

from fencelock._io.connection_asyncio import AsyncConnection
from fencelock._io.io_asyncio import AsyncioSeveral
from fencelock._io.link_asyncio import Link
from fencelock._io.port_asyncio import AioPort
from fencelock._io.process_ports import ClientOptions
from fencelock._io.sources.resolve import QuorumSource
from fencelock._runtime.clock import now
from fencelock._topology.io import DIAL_SECONDS
from fencelock._topology.quorum import Identified, QuorumPortRules, identify


class _IdentifiedLink(Link):
    """The connection to one node, which identifies itself each time it is dialled."""

    saw: Identified

    async def _dial(self) -> AsyncConnection:
        self.reached = False  # a node that refuses connections is not retried: there are others
        mux = await super()._dial()
        await identify(mux, mux.command, now() + self._server_timeout, self.saw)
        return mux


class _AsyncNodePort(AioPort):
    """The port of one node."""

    link: _IdentifiedLink
    is_node = True

    def _new_link(self) -> _IdentifiedLink:
        return _IdentifiedLink(self, self.source, server_timeout=DIAL_SECONDS)


class AioQuorum(QuorumPortRules, AsyncioSeveral, AioPort):
    """Implements ``_core.quorum.broadcast.QuorumPort`` for the tasks of one event loop."""

    def __init__(self, source: QuorumSource, given: ClientOptions) -> None:
        super().__init__(source, given)
        self.begin_quorum(source.labels, given.prefix, given.node_timeout)
        # From the answer that decides, the others get no less.
        self.look_seconds = given.node_timeout
        of_nodes = given._replace(server_timeout=self.first_seconds)
        self.nodes = [_AsyncNodePort(each, of_nodes) for each in source.sources]
        links = [node.link for node in self.nodes]
        for number, link in enumerate(links):
            link.saw = self.identified(number)
        self.link_to = links.__getitem__
