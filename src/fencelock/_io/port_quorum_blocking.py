"""The blocking port of a quorum: one ordinary port per node; see io_blocking.py."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fencelock._core.types import NoReply
from fencelock._io.bounded_call import within
from fencelock._io.connection_blocking import Connection, Pushed, dial
from fencelock._io.io_blocking import DIAL, BlockingSeveral, opened
from fencelock._io.pool_blocking import Pool
from fencelock._io.port_blocking import BlockingPort
from fencelock._io.process_ports import ClientOptions
from fencelock._io.sources.kinds import One
from fencelock._io.sources.resolve import QuorumSource
from fencelock._io.threads import run_blocking
from fencelock._topology.quorum import Identified, QuorumPortRules, identify


class _IdentifiedPool(Pool):
    """Connections to one node, which identifies itself on each of them."""

    __slots__ = ("saw",)

    def __init__(self, source: One, pushed: Pushed, saw: Identified) -> None:
        super().__init__(partial(dial, source), pushed)
        self.saw: Identified = saw

    def dial(self, until: float) -> Connection:
        try:
            return within(until, self, partial(opened, self), name=DIAL, dispose=self.give)
        except TimeoutError:
            raise NoReply("no connection in time", sent=False) from None

    def connect(self, until: float) -> Connection:
        """Open a connection, and take the identity of the server there."""
        self._reached = False  # a node that refuses connections is not retried: there are others
        connection = super().connect(until)
        run_blocking(identify(connection, connection.ask, until, self.saw))
        return connection


class _NodePort(BlockingPort):
    """The port of one node."""

    pool: _IdentifiedPool
    is_node = True
    saw: Identified = staticmethod(lambda _run_id, _now: None)  # the quorum says it

    def _new_pool(self) -> _IdentifiedPool:
        return _IdentifiedPool(self.source, self._ear, lambda *seen: self.saw(*seen))  # noqa: PLW0108 - it is set later


class BlockingQuorum(QuorumPortRules, BlockingSeveral, BlockingPort):
    """Implements ``_core.quorum.broadcast.QuorumPort`` for threads."""

    nodes: Sequence[_NodePort] = ()

    def __init__(self, source: QuorumSource, given: ClientOptions) -> None:
        self.begin_quorum(source.labels, given.prefix, given.node_timeout)
        of_nodes = given._replace(server_timeout=self.first_seconds)
        self.nodes = [_NodePort(each, of_nodes) for each in source.sources]
        super().__init__(source, given)

    def _new_pool(self) -> Pool:
        # never dialled: the nodes have their own
        return Pool(partial(dial, self.source.sources[0]), self._ear)

    def _start(self) -> None:
        super()._start()
        self.know_nothing()
        for number, node in enumerate(self.nodes):
            node.saw = self.identified(number)

    def pool_of(self, node: int) -> Pool:
        """Return the pool of a node; in a child process it has another."""
        return self.nodes[node].pool
