"""Private connections and threads, as the rules of the topologies use them.

Rules of this file:

- These coroutines block and never suspend; see ``_topology/io.py``.
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

import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from fencelock._core.round_trips import NOTED_SECONDS, RoundTrips
from fencelock._core.seat import Question
from fencelock._core.types import Args, NoReply, Reply
from fencelock._io.bounded_call import WorkClaim, under_way
from fencelock._io.connection_blocking import Connection
from fencelock._io.poll import POLLIN, poller
from fencelock._io.pool_blocking import DIAL, Pool, admit
from fencelock._io.threads import run_blocking
from fencelock._io.wire import (
    INCOMPLETE,
    ReplyError,
    accepted,
    pack,
    unknown_script,
)
from fencelock._runtime import mutex as mutexes
from fencelock._runtime.clock import REST_SECONDS, now
from fencelock._runtime.log import log
from fencelock._topology.io import Flow
from fencelock.errors import FencelockError
from fencelock.scripts import with_source

ASKING = (b"ASKING",)
# The rest of an answer that has begun to come is awaited at least so long.
ANSWER_REST_SECONDS = 0.01


class BlockingLatch(mutexes.OneShotLatch):
    """Implements ``_topology.io.Latch`` for threads."""

    async def wait_until(self, until: float) -> bool:
        """Wait until it opens, or until the instant; return True if it is open."""
        while not self.is_open and (left := until - now()) > 0:
            self.wait(min(left, REST_SECONDS))
        return self.is_open


class BlockingIo:
    """Implements ``_topology.io.Io`` for threads."""

    now = staticmethod(now)
    mutex = staticmethod(mutexes.mutex)
    latch = BlockingLatch
    caller = staticmethod(threading.get_ident)
    command = staticmethod(Connection.ask)

    async def run(
        self, connection: Connection, packed: bytes, until: float, *, asking: bool = False
    ) -> Reply:
        """Run a packed request: a script with its source after ASKING, which counts once."""
        if asking:
            connection.command(ASKING, until)
            packed = with_source(packed)
        return connection.run(packed, until, now())

    async def subscribe(
        self,
        connection: Connection,
        channel: bytes,
        until: float,
        word: bytes,
        *,
        asking: bool,
    ) -> None:
        """Listen to a channel."""
        if asking:
            connection.command(ASKING, until)
        connection.subscribe(channel, until, word)

    async def commands(
        self, connection: Connection, several: Sequence[Args], until: float
    ) -> Sequence[Reply]:
        """Run plain commands, all sent before an answer is awaited."""
        connection.send(b"".join(map(pack, several)), len(several))
        return accepted([connection.answer(until) for _ in several])

    def spawn(self, flow: Flow, name: str) -> bool:
        """Run a flow in a thread; False when none can be started."""
        thread = threading.Thread(target=_run, args=(flow, name), name=name)
        trouble = mutexes.started(thread)
        if trouble is not None:
            log.warning("%s waits until a thread can be started: %s", name, trouble)
        return trouble is None


def _run(flow: Flow, name: str) -> None:
    try:
        run_blocking(flow())
    except Exception:
        log.exception("%s failed", name)


class BlockingSeveral:
    """Asks several servers at once."""

    pool_of: Callable[[Any], Pool]  # returns that of a server, by where a question goes
    trips: RoundTrips  # to those that decide

    async def exchange(
        self,
        asks: Sequence[Question],
        latest: float,  # noqa: ARG002 - as in a loop: here ``limit`` says it
        limit: Callable[[], float],
    ) -> None:
        """Ask all at once. Return when all answered, or at the instant that ``limit`` returns.

        Sends on idle connections, then on those that were opened; reads the answers. Every question
        has ended then; an interrupt leaves some that have not.
        """
        asked_at = now()
        for ask in asks:
            if ask.connection is None:
                ask.pool = pool = self.pool_of(ask.node)
                ask.connection = pool.idle(asked_at)
        if _send(asks, asked_at) and _read(asks, limit):
            if self.trips.watched:
                _note_trips(asks)
            return
        late = _Exchange()
        try:
            for ask in asks:
                if ask.connection is not None:
                    late.await_answer(ask)
                else:
                    late.dial(ask, ask.pool)
            late.hear(limit)
        finally:
            late.end()
        for ask in asks:
            if not ask.ended:
                ask.give_up()
                if ask.connection is not None:
                    ask.connection.sound = False  # the answer may still come
        _note_trips(asks)

    def put_back(self, asks: Iterable[Question]) -> None:
        """Give the connections back to their pools, which close those with an unread answer."""
        for ask in asks:
            connection, ask.connection = ask.connection, None
            if connection is not None:
                connection.waiter = None
                ask.pool.give(connection)


def _note_trips(asks: Iterable[Question]) -> None:
    """Note how long late answers took, and quick ones after those."""
    for ask in asks:
        if ask.answered_at and ask.connection is not None:
            trips, took = ask.connection.trips, ask.answered_at - ask.asked_at
            if took > NOTED_SECONDS or trips.watched:
                trips.saw(took)


def _send(asks: Iterable[Question], asked_at: float) -> bool:
    """Send each request that has a connection; return True if all have one."""
    complete = True
    for ask in asks:
        connection = ask.connection
        if connection is None:
            complete = False
            continue
        ask.began = True
        ask.asked_at = connection.asked_at = asked_at
        if connection.waiter is None:  # else it is a waiter's, which asks for more than itself
            connection.waiter = ask
        try:
            connection.send(b"".join(ask.requests), len(ask.requests))
        except (NoReply, FencelockError) as error:
            ask.fail(error)
    return complete


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
                ask.fail(connection.error_of(reply))
        except NoReply as error:
            ask.fail(error)
    return True


def _rest_until(limit: Callable[[], float]) -> float:
    """Return until when to wait for the rest of what has begun to come."""
    return max(limit(), now() + ANSWER_REST_SECONDS)


class _Exchange:
    """Questions that are under way: those that wait for an answer, and those for a connection."""

    def __init__(self) -> None:
        self._waiting: dict[int, Question] = {}
        self._dials: dict[Question, tuple[Pool, WorkClaim[Connection]]] = {}
        self._poll = poller()
        self._bell: socket.socket | None = None
        self._heard: socket.socket | None = None

    def await_answer(self, ask: Question) -> None:
        """Wait for the answer to a request that was sent."""
        if not ask.ended:
            number = ask.connection.descriptor
            self._waiting[number] = ask
            self._poll.register(number, POLLIN)

    def dial(self, ask: Question, pool: Pool) -> None:
        """Send a request as soon as a connection is open, without holding up others."""
        if self._bell is None:
            self._bell, self._heard = socket.socketpair()
            self._poll.register(self._heard, POLLIN)
        claim: WorkClaim[Connection] = WorkClaim(self._ring)
        self._dials[ask] = pool, claim
        try:
            admit(closed_already=pool.closed)
            pool.dial_for(claim)
        except FencelockError as error:
            del self._dials[ask]
            ask.fail(error)

    def _ring(self) -> None:
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
        for ask, (_, claim) in list(self._dials.items()):
            if claim.work is None or not claim.work.ended:
                continue
            del self._dials[ask]
            try:
                ask.connection = claim.result()
            except (NoReply, FencelockError) as error:
                ask.fail(error)
            else:
                _send((ask,), now())
                self.await_answer(ask)

    def end(self) -> None:
        """Stop waiting for answers and connections."""
        for pool, claim in self._dials.values():
            under_way.leave(pool, claim, DIAL)
        if self._bell is not None and self._heard is not None:
            self._bell.close()
            self._heard.close()
