"""Ask several servers at once, by the thread that waits for them: nodes of a Cluster or a quorum.

Rules of this file:

- Asking all at once needs no thread: requests are sent on a connection per server, then answers are
  read. The answers of near servers come within a moment: they are read in order. Once one does not
  come so soon, no other is waited for: the rest are read as they come.
- Only a missing connection is opened in a thread of its own: a far server needs several round trips
  for it, and must not hold up the others. A connection that comes too late serves the next request,
  as in asyncio.
- Of several requests on one connection, the answers come together: once one is there, the others
  are read.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from fencelock._core.seat import Question
from fencelock._core.types import NoReply
from fencelock._io.connect_blocking import Pushed
from fencelock._io.connection_blocking import Connection
from fencelock._io.pool_blocking import Pool, admit
from fencelock._io.sources.kinds import One
from fencelock._io.wire import INCOMPLETE, ReplyError, server_error, unknown_script, with_source
from fencelock._runtime.clock import now
from fencelock._runtime.mutex import started
from fencelock._topology.io import DIAL_SECONDS
from fencelock.errors import FencelockError

Dial = Future[Connection]

# The rest of an answer that has begun to come is awaited at least so long.
REST_SECONDS = 0.01


class DialPool(Pool):
    """Connections to one of several servers: one may be opened without holding up the others."""

    __slots__ = ("_dials", "_left")

    def __init__(self, source: One, pushed: Pushed) -> None:
        super().__init__(source, pushed)
        self._dials = threading.Lock()
        self._left: list[Dial] = []  # connections that are being opened, whose callers gave up

    def dial(self) -> Dial:
        """Begin to open a connection, or go on with one that was left."""
        admit(closed_already=self.closed)
        with self._dials:
            if self._left:
                return self._left.pop()
        dial = Dial()
        thread = threading.Thread(
            target=self._open_for, args=(dial,), name="fencelock-dial", daemon=True
        )
        if started(thread) is not None:  # here, if no thread can be started
            self._open_for(dial)
        return dial

    def connect(self, until: float) -> Connection:
        """Open a connection, in the thread of its dial."""
        return self._dial(until)

    def _open_for(self, dial: Dial) -> None:
        try:
            dial.set_result(self.connect(now() + DIAL_SECONDS))
        except BaseException as error:  # noqa: BLE001 - it is raised where the connection is awaited
            dial.set_exception(error)
        with self._dials:
            left = dial in self._left
            if left:
                self._left.remove(dial)
        if left and dial.exception() is None:
            self.give(dial.result())

    def leave(self, dial: Dial) -> None:
        """Stop waiting for a connection: it is for the next caller."""
        with self._dials:
            over = dial.done()
            if not over:
                self._left.append(dial)
        if over and dial.exception() is None:
            self.give(dial.result())


Pools = Mapping[Any, DialPool] | Sequence[DialPool]  # by where a question goes


def exchange(asks: Sequence[Question], pools: Pools, limit: Callable[[], float]) -> None:
    """Ask all at once. Return when all answered, or at the instant that ``limit`` returns.

    Sends on idle connections, then on those that were opened; reads the answers. Every question has
    ended then; an interrupt leaves some that have not.
    """
    asked_at, complete = now(), True
    for ask in asks:
        if ask.connection is None:
            ask.connection = pools[ask.node].idle()
            complete = complete and ask.connection is not None
    _send(asks, asked_at)
    if complete and _read(asks, limit):
        return
    under_way = _Exchange()
    try:
        for ask in asks:
            if ask.connection is not None:
                under_way.await_answer(ask)
            else:
                under_way.dial(ask, pools[ask.node])
        under_way.hear(limit)
    finally:
        under_way.end()
    for ask in asks:
        if not ask.ended:
            ask.give_up()
            if ask.connection is not None:
                ask.connection.sound = False  # the answer may still come


def put_back(asks: Iterable[Question], pools: Pools) -> None:
    """Give the connections back to their pools, which close those with an unread answer."""
    for ask in asks:
        connection, ask.connection = ask.connection, None
        if connection is not None:
            connection.waiter = None
            pools[ask.node].give(connection)


def _send(asks: Iterable[Question], asked_at: float) -> None:
    """Send each request that has a connection."""
    for ask in asks:
        connection = ask.connection
        if connection is None:
            continue
        ask.began = True
        ask.asked_at = connection.asked_at = asked_at
        if connection.waiter is None:  # else it is a waiter's, which asks for more than itself
            connection.waiter = ask
        try:
            connection.send(b"".join(ask.requests), len(ask.requests))
        except (NoReply, FencelockError) as error:
            ask.fail(error)


def _read(asks: Iterable[Question], limit: Callable[[], float], *, came: bool = False) -> bool:
    """Read the answers in order; return False at the first that does not come within a moment.

    ``came``: something has come for each, and the rest of its answer is awaited.
    """
    for ask in asks:
        if ask.ended:
            continue
        connection = ask.connection
        try:
            reply = connection.arrived(_rest_until(limit)) if came else connection.prompt()
            if reply is INCOMPLETE:
                return False
            if ask.raw:
                ask.answer(reply, now())
                while not ask.ended:
                    ask.answer(connection.answer(_rest_until(limit)), now())
            elif type(reply) is not ReplyError:
                ask.answer(reply, now())
            elif unknown_script(reply):  # the server does not know it by its digest
                connection.send(with_source(ask.requests[0]))
                return False
            else:
                ask.fail(server_error(reply))
        except NoReply as error:
            ask.fail(error)
    return True


def _rest_until(limit: Callable[[], float]) -> float:
    """Return until when to wait for the rest of what has begun to come."""
    return max(limit(), now() + REST_SECONDS)


class _Exchange:
    """Questions that are under way: those that wait for an answer, and those for a connection."""

    def __init__(self) -> None:
        self._waiting: dict[int, Question] = {}
        self._dials: dict[Question, tuple[DialPool, Dial]] = {}
        self._poll = select.poll()
        self._bell: socket.socket | None = None
        self._heard: socket.socket | None = None

    def await_answer(self, ask: Question) -> None:
        """Wait for the answer to a request that was sent."""
        if not ask.ended:
            number = ask.connection.descriptor
            self._waiting[number] = ask
            self._poll.register(number, select.POLLIN)

    def dial(self, ask: Question, pool: DialPool) -> None:
        """Send a request as soon as a connection is open, without holding up others."""
        if self._bell is None:
            self._bell, self._heard = socket.socketpair()
            self._poll.register(self._heard, select.POLLIN)
        try:
            dial = pool.dial()
        except FencelockError as error:
            ask.fail(error)
            return
        self._dials[ask] = pool, dial
        dial.add_done_callback(self._ring)

    def _ring(self, _dial: Dial) -> None:
        if self._bell is not None:
            with suppress(OSError):  # its caller has stopped waiting
                self._bell.send(b"\0")

    def hear(self, limit: Callable[[], float]) -> None:
        """Take answers as they come, until all have come or the instant is reached."""
        while self._waiting or self._dials:
            left = max(0.0, limit() - now())
            ready = self._poll.poll(left * 1000)
            if not ready and left == 0:
                return
            for number, _ in ready:
                ask = self._waiting.get(number)
                if ask is None:
                    self._connected()
                elif _read((ask,), limit, came=True):
                    del self._waiting[number]
                    self._poll.unregister(number)

    def _connected(self) -> None:
        if self._heard is not None:
            self._heard.recv(100)
        for ask in [ask for ask, (_, dial) in self._dials.items() if dial.done()]:
            try:
                ask.connection = self._dials.pop(ask)[1].result()
            except (NoReply, FencelockError) as error:
                ask.fail(error)
            else:
                _send((ask,), now())
                self.await_answer(ask)

    def end(self) -> None:
        """Stop waiting for answers and connections."""
        for pool, dial in self._dials.values():
            pool.leave(dial)
        if self._bell is not None and self._heard is not None:
            self._bell.close()
            self._heard.close()
