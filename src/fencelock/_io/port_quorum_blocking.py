"""The blocking port of a quorum: one ordinary port per node; see io_blocking.py."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fencelock._core.quorum.engine import Identified, QuorumEngine
from fencelock._core.round_trips import DIAL_SECONDS, RoundTrips
from fencelock._io.connection_blocking import Connection, Pushed, dial
from fencelock._io.io_blocking import BlockingSeveral
from fencelock._io.pool_blocking import Pool
from fencelock._io.port_blocking import BlockingPort
from fencelock._io.process_ports import ClientOptions
from fencelock._io.sources.kinds import One
from fencelock._io.sources.resolve import QuorumSource
from fencelock._io.threads import run_blocking
from fencelock._topology.quorum import NodePortRules, identify


class _IdentifiedPool(Pool):
    """Connections to one node, which identifies itself on each of them."""

    __slots__ = ("saw",)

    def __init__(self, source: One, pushed: Pushed, most: float, saw: Identified) -> None:
        super().__init__(partial(dial, source), pushed, most, RoundTrips(DIAL_SECONDS))
        self.saw: Identified = saw

    def connect(self, until: float) -> Connection:
        """Open a connection, and take the identity of the server there."""
        self._reached = False  # a node that refuses connections is not retried: there are others
        connection = super().connect(until)
        run_blocking(identify(connection, connection.ask, until, self.saw))
        return connection


class _NodePort(NodePortRules, BlockingPort):
    """The port of one node."""

    pool: _IdentifiedPool
    saw: Identified = staticmethod(lambda _run_id, _now: None)  # the quorum says it

    def _new_pool(self) -> _IdentifiedPool:
        saw: Identified = lambda *seen: self.saw(*seen)  # noqa: E731, PLW0108 - it is set later
        return _IdentifiedPool(self.source, self._ear, self.most, saw)


class BlockingQuorum(BlockingSeveral, QuorumEngine, BlockingPort):
    """The port of a quorum for threads."""

    nodes: Sequence[_NodePort] = ()

    def __init__(self, source: QuorumSource, given: ClientOptions) -> None:
        self.begin_quorum(source.labels, given.prefix, given.node_timeout)
        self.nodes = [_NodePort(each, given) for each in source.sources]
        super().__init__(source, given)

    def _new_pool(self) -> Pool:
        # never dialled: the nodes have their own
        return Pool(partial(dial, self.source.sources[0]), self._ear, trips=self.far())

    def _start(self) -> None:
        super()._start()
        self.know_nothing()
        self.name_nodes()
        self.pool_of = [node.pool for node in self.nodes].__getitem__
        for number, node in enumerate(self.nodes):
            node.saw = self.identified(number)
