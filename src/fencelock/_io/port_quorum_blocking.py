"""The blocking port of a quorum: one ordinary port per node, and one thread that asks them all.

Rules of this file:

- Asking all at once needs no thread: requests are sent on a connection per node, then answers are
  read. The answers of near servers come within a moment: they are read in order. Once one does not
  come so soon, no other is waited for: the rest are read as they come.
- Only a missing connection is opened in a thread of its own: a far node needs several round trips
  for it, and must not hold up the others. A connection that comes too late serves the next request,
  as in asyncio.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from fencelock._core.lock.hand_back import give_back_all
from fencelock._core.lock.renew import lose_all
from fencelock._core.quorum.broadcast import Ballot
from fencelock._core.types import NoReply, Reply, closed
from fencelock._io.connection_blocking import Connection
from fencelock._io.pool_blocking import Pool
from fencelock._io.port_blocking import CLOSE_SECONDS, BlockingPort
from fencelock._io.renewal_thread import RenewalThread, RenewedPort
from fencelock._io.sources.kinds import One
from fencelock._io.sources.quorum import QuorumSource
from fencelock._io.threads import run_blocking
from fencelock._io.wire import (
    INCOMPLETE,
    ReplyError,
    server_error,
    unknown_script,
    with_source,
)
from fencelock._runtime.clock import now
from fencelock._runtime.mutex import inside, put_off, started
from fencelock._topology.quorum import DIAL_SECONDS, Identified, QuorumPortRules, identify
from fencelock.errors import FencelockError


class _Dial:
    """A connection that is being opened. If no caller waits for it, it goes to the pool."""

    __slots__ = ("_bell", "_done", "_pool", "connection", "error")

    def __init__(self, pool: _IdentifiedPool, bell: socket.socket | None) -> None:
        self._pool = pool
        self._bell = bell  # rung at its end
        self._done = threading.Event()
        self.connection: Connection | None = None
        self.error: BaseException | None = None

    def start(self) -> None:
        """Begin in a thread of its own, or here if no thread can be started."""
        thread = threading.Thread(target=self._run, name="fencelock-dial", daemon=True)
        if started(thread) is not None:
            self._run()

    def _run(self) -> None:
        try:
            self.connection = self._pool.connect(now() + DIAL_SECONDS)
        except BaseException as error:  # noqa: BLE001 - it is raised where the connection is awaited
            self.error = error
        with self._pool.dials:
            self._done.set()
            left = self in self._pool.left
            if left:
                self._pool.left.remove(self)
            elif self._bell is not None:
                with suppress(OSError):  # its caller noticed the end, and went on
                    self._bell.send(b"\0")
        if left and self.connection is not None:
            self._pool.give(self.connection)

    @property
    def over(self) -> bool:
        """Return True once it has opened or failed."""
        return self._done.is_set()

    def wait_for(self, bell: socket.socket | None) -> None:
        """Take over a dial that its caller has left. Under the pool's mutex of dials."""
        self._bell = bell

    def result(self, until: float) -> Connection:
        """Return the connection; raises as it failed, and NoReply when ``until`` comes first."""
        try:
            self._done.wait(max(0.0, until - now()))
        except BaseException:
            self.leave()
            raise
        if not self.over:
            self.leave()
            raise NoReply("no connection in time", sent=False)
        if self.connection is None:
            error, self.error = self.error or closed(), None
            try:
                raise error
            finally:
                del error
        return self.connection

    def leave(self) -> None:
        """Stop waiting: the connection is for the next caller."""
        with self._pool.dials:
            over = self.over
            if not over:
                self._bell = None
                self._pool.left.append(self)
        if over and self.connection is not None:
            self._pool.give(self.connection)
            self.connection = None


class _IdentifiedPool(Pool):
    """Connections to one node, which identifies itself on each of them."""

    __slots__ = ("dials", "left", "saw")

    saw: Identified

    def __init__(
        self, source: One, pushed: Callable[[Connection, list[bytes]], None], saw: Identified
    ) -> None:
        super().__init__(source, pushed)
        self.saw = saw
        self.dials = threading.Lock()
        self.left: list[_Dial] = []  # those whose callers gave up

    def dial(self, bell: socket.socket | None = None) -> _Dial:
        """Begin to open a connection, or go on with one that was left; its end rings the bell."""
        with self.dials:
            if self.left:
                dial = self.left.pop()
                dial.wait_for(bell)
                return dial
        dial = _Dial(self, bell)
        dial.start()
        return dial

    def _dial(self, until: float) -> Connection:
        return self.dial().result(until)

    def connect(self, until: float) -> Connection:
        """Open a connection, and take the identity of the server there."""
        self._reached = False  # a node that refuses connections is not retried: there are others
        connection = super()._dial(until)

        async def command(words: Sequence[bytes], until: float) -> Reply:
            return connection.command(words, until)

        run_blocking(identify(connection, command, now(), until, self.saw))
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


def _send(asks: Iterable[Ballot], asked_at: float) -> None:
    """Send each request that has a connection."""
    for ask in asks:
        connection = ask.connection
        if connection is None:
            continue
        connection.waiter, ask.began = ask, True
        ask.asked_at = connection.asked_at = asked_at
        try:
            connection.send(ask.packed)
        except (NoReply, FencelockError) as error:
            ask.fail(error)


def _read(asks: Iterable[Ballot], until: float | None = None) -> bool:
    """Read the answers in order; return False at the first that does not come within a moment.

    With ``until`` something has come for each: the rest of its answer is awaited so long.
    """
    for ask in asks:
        if ask.ended:
            continue
        connection = ask.connection
        try:
            reply = connection.prompt() if until is None else connection.arrived(until)
            if reply is INCOMPLETE:
                return False
            if type(reply) is not ReplyError:
                ask.answer(reply, now())
            elif unknown_script(reply):  # the server does not know it by its digest
                connection.send(with_source(ask.packed))
                return False
            else:
                ask.fail(server_error(reply))
        except NoReply as error:
            ask.fail(error)
    return True


class _Exchange:
    """Requests to several nodes: those that wait for an answer, and those for a connection."""

    def __init__(self) -> None:
        self._waiting: dict[int, Ballot] = {}
        self._dials: dict[Ballot, _Dial] = {}
        self._poll = select.poll()
        self._bell: socket.socket | None = None
        self._heard: socket.socket | None = None

    def await_answer(self, ask: Ballot) -> None:
        """Wait for the answer to a request that was sent."""
        if not ask.ended:
            number = ask.connection.descriptor
            self._waiting[number] = ask
            self._poll.register(number, select.POLLIN)

    def dial(self, ask: Ballot, pool: _IdentifiedPool) -> None:
        """Send a request as soon as a connection is open, without holding up others."""
        if self._bell is None:
            self._bell, self._heard = socket.socketpair()
            self._poll.register(self._heard, select.POLLIN)
        self._dials[ask] = pool.dial(self._bell)

    def hear(self, limit: Callable[[], float]) -> None:
        """Take answers as they come, until all have come or the instant is reached."""
        while self._waiting or self._dials:
            until = limit()
            left = max(0.0, until - now())
            ready = self._poll.poll(left * 1000)
            if not ready and left == 0:
                return
            for number, _ in ready:
                ask = self._waiting.get(number)
                if ask is None:
                    self._connected()
                elif _read((ask,), max(until, now() + 0.01)):
                    del self._waiting[number]
                    self._poll.unregister(number)

    def _connected(self) -> None:
        if self._heard is not None:
            self._heard.recv(100)
        for ask in [ask for ask, dial in self._dials.items() if dial.over]:
            try:
                ask.connection = self._dials.pop(ask).result(now())
            except (NoReply, FencelockError) as error:
                ask.fail(error)
            else:
                _send((ask,), now())
                self.await_answer(ask)

    def end(self) -> None:
        """Stop waiting for answers and connections."""
        for dial in self._dials.values():
            dial.leave()
        if self._bell is not None and self._heard is not None:
            self._bell.close()
            self._heard.close()


class BlockingQuorum(QuorumPortRules, BlockingPort):
    """Implements ``_core.quorum.broadcast.QuorumPort`` for threads."""

    nodes: Sequence[_NodePort] = ()
    attend_by = BlockingPort.attend_by

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
        """Send on idle connections, then on those that were opened; read the answers."""
        asked_at, nodes, complete = now(), self.nodes, True
        for ask in asks:
            if self.closing:
                ask.fail(closed())
                continue
            ask.connection = nodes[ask.node].pool.idle()
            complete = complete and ask.connection is not None
        _send(asks, asked_at)
        if not (complete and _read(asks)):
            self._await(asks, limit)

    def _await(self, asks: Sequence[Ballot], limit: Callable[[], float]) -> None:
        """Open the connections that are missing; read answers as they come."""
        exchange = _Exchange()
        try:
            for ask in asks:
                if ask.connection is not None:
                    exchange.await_answer(ask)
                elif not ask.ended:
                    exchange.dial(ask, self.nodes[ask.node].pool)
            exchange.hear(limit)
        finally:
            exchange.end()
        for ask in asks:
            if not ask.ended:
                ask.give_up()

    def put_back(self, asks: Iterable[Ballot]) -> None:
        """Give the connections back to their pools; see ``QuorumPort``."""
        for ask in asks:
            connection, ask.connection = ask.connection, None
            if connection is not None:
                connection.waiter = None
                self.nodes[ask.node].pool.give(connection)

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
