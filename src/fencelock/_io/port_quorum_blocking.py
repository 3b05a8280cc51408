"""The blocking port of a quorum: one ordinary port per node; see several_blocking.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from fencelock._core.lock.maintain import lose_all
from fencelock._core.lock.release import give_back_all
from fencelock._core.quorum.broadcast import Ballot
from fencelock._core.types import NoReply
from fencelock._io.connect_blocking import SOCKETS, Pushed
from fencelock._io.connection_blocking import Connection
from fencelock._io.pool_blocking import Pool
from fencelock._io.port_blocking import CLOSE_SECONDS, BlockingPort
from fencelock._io.renewal_thread import RenewalThread, RenewedPort
from fencelock._io.several_blocking import DialPool, exchange, put_back
from fencelock._io.sources.kinds import One
from fencelock._io.sources.quorum import QuorumSource
from fencelock._io.threads import run_blocking
from fencelock._runtime.clock import now
from fencelock._runtime.mutex import inside, put_off
from fencelock._topology.quorum import Identified, QuorumPortRules, identify

POOL = attrgetter("pool")  # of a node; a child process has others


class _IdentifiedPool(DialPool):
    """Connections to one node, which identifies itself on each of them."""

    __slots__ = ("saw",)

    def __init__(self, source: One, pushed: Pushed, saw: Identified) -> None:
        super().__init__(source, pushed)
        self.saw: Identified = saw

    def _dial(self, until: float) -> Connection:
        dial = self.dial()
        try:
            return dial.result(max(0.0, until - now()))
        except BaseException as error:
            over = dial.done()
            self.leave(dial)
            if isinstance(error, TimeoutError) and not over:
                raise NoReply("no connection in time", sent=False) from None
            raise

    def connect(self, until: float) -> Connection:
        """Open a connection, and take the identity of the server there."""
        self._reached = False  # a node that refuses connections is not retried: there are others
        connection = super()._dial(until)
        ask = partial(SOCKETS.command, connection)
        run_blocking(identify(connection, ask, now(), until, self.saw))
        return connection


class _NodePort(BlockingPort):
    """The port of one node."""

    pool: _IdentifiedPool
    is_node = True
    saw: Identified = staticmethod(lambda _run_id, _uptime, _now: None)  # the quorum says it

    def _new_pool(self) -> _IdentifiedPool:
        return _IdentifiedPool(self.source, self._ear, lambda *seen: self.saw(*seen))  # noqa: PLW0108 - it is set later


class _QuorumRenewalThread(RenewalThread):
    """Notifies of lost majorities and asks nodes again; the nodes' own threads renew."""

    def _listening(self, port: RenewedPort, until: float) -> Connection | None:  # noqa: ARG002 - as Tender
        return None


class BlockingQuorum(QuorumPortRules, BlockingPort):
    """Implements ``_core.quorum.broadcast.QuorumPort`` for threads."""

    nodes: Sequence[_NodePort] = ()

    def __init__(
        self,
        several: QuorumSource,
        *,
        prefix: str,
        client_channel: str,
        server_timeout: float,
        node_timeout: float,
    ) -> None:
        self.begin_quorum(several.labels, prefix, node_timeout)
        self.nodes = [
            _NodePort(each, client_channel=client_channel, server_timeout=self.first_seconds)
            for each in several.sources
        ]
        source: Any = several  # nothing is dialled
        super().__init__(source, client_channel=client_channel, server_timeout=server_timeout)

    def _new_pool(self) -> Pool:
        return Pool(self.source.sources[0], self._ear)  # never dialled: the nodes have their own

    def _start(self) -> None:
        super()._start()
        self.know_nothing()
        self._renewal_thread = _QuorumRenewalThread(self)
        for number, node in enumerate(self.nodes):
            node.saw = self.identified(number)

    async def exchange(
        self,
        asks: Sequence[Ballot],
        latest: float,  # noqa: ARG002 - as QuorumPort: ``limit`` says it
        limit: Callable[[], float],
    ) -> None:
        """Send to all, and read the answers; see ``QuorumPort``."""
        exchange(asks, [*map(POOL, self.nodes)], limit)

    def put_back(self, asks: Iterable[Ballot]) -> None:
        """Give the connections back to their pools; see ``QuorumPort``."""
        put_back(asks, [*map(POOL, self.nodes)])

    def shut(self, within: float = CLOSE_SECONDS, *, release: bool = False) -> bool:
        """Close all nodes' ports; see ``BlockingPort.shut``."""
        if inside():
            put_off(partial(self.shut, within, release=release))
            return False
        self.closing = True
        until = now() + within
        for node, last in _shares(self.nodes, until - within / 2):
            node.dismiss_waiters(last)
        returned = not release or run_blocking(give_back_all(self, until - within / 4))
        lose_all(self, "closed")  # first: then the end of their parts is no news
        for node, last in _shares(self.nodes, until):
            node.shut(last - now())
        self.pool.closed = True
        self._renewal_thread.stop(until)
        return returned


def _shares(nodes: Sequence[_NodePort], until: float) -> Iterator[tuple[_NodePort, float]]:
    """Yield each node and until when it may take: a silent one leaves time to the others."""
    for left, node in zip(range(len(nodes), 0, -1), nodes, strict=True):
        yield node, now() + max(0.0, until - now()) / left
