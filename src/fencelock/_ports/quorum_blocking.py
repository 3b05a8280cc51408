"""The blocking port of a quorum: one ordinary port per node, and one thread that asks them all.

Rules of this file:

- To ask all at once takes no thread: requests are sent on a connection per node, then read as they
  come. Only a connection that is missing is opened in a thread of its own: a far node needs several
  round trips for it, and none may hold up the others. One that comes too late serves the next
  request, as an asyncio connection does.
- What is sent to "the quorum" without an answer to wait for goes to every node (``post``).
- Each node's port tends that node's leases, so that a silent node holds up no other's.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

from fencelock._core.fan import Ask
from fencelock._core.hold import Hold
from fencelock._core.keys import roster_key
from fencelock._core.quorum_hold import let_go
from fencelock._core.renew import lose_all
from fencelock._core.roster import Roster, parse_info
from fencelock._core.types import Args, Broken, Keys, Reply, closed
from fencelock._core.votes import FIRST_FACTOR, majority
from fencelock._ports.blocking import CLOSE_SECONDS, BlockingPort
from fencelock._ports.pool import Pool
from fencelock._ports.tender import Tender
from fencelock._topology.flows.quorum import QUORUM
from fencelock._transport.direct import Connection
from fencelock._transport.quorum import Several
from fencelock._transport.source import One
from fencelock._transport.wire import (
    ReplyError,
    pack_call,
    pack_source,
    server_error,
    unknown_script,
)
from fencelock.clock import now
from fencelock.errors import FencelockError
from fencelock.mutex import inside, put_off, started
from fencelock.scripts import Script

# How long a connection may take to open, however soon its caller gives up; as in quorum_aio.py.
DIAL_SECONDS = 1.0

Saw = Callable[[bytes, float, float], None]


class _Dial:
    """A connection on its way. Without a caller that waits for it, it goes to the pool."""

    __slots__ = ("_bell", "_done", "_pool", "connection", "error")

    def __init__(self, pool: _NodePool, bell: socket.socket | None) -> None:
        self._pool = pool
        self._bell = bell  # rung at its end
        self._done = threading.Event()
        self.connection: Connection | None = None
        self.error: BaseException | None = None

    def start(self) -> None:
        """Begin in a thread of its own, or here where no thread can be started."""
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
                with suppress(OSError):  # its caller saw the end for itself, and went on
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
        """Return the connection; raises as it failed, and Broken when ``until`` comes first."""
        try:
            self._done.wait(max(0.0, until - now()))
        except BaseException:
            self.leave()
            raise
        if not self.over:
            self.leave()
            raise Broken("no connection in time", sent=False)
        if self.connection is None:
            raise self.error or closed()
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


class _NodePool(Pool):
    """Connections to one node, which says who it is on each of them."""

    __slots__ = ("dials", "left", "saw")

    saw: Saw

    def __init__(
        self, source: One, pushed: Callable[[Connection, list[bytes]], None], saw: Saw
    ) -> None:
        super().__init__(source, pushed)
        self.saw = saw
        self.dials = threading.Lock()
        self.left: list[_Dial] = []  # those whose callers gave up

    def dial(self, bell: socket.socket | None = None) -> _Dial:
        """Begin to open a connection, or go on with one that a caller has left."""
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
        """Open a connection, and hear who answers there."""
        self._reached = False  # who refuses connections is not asked again: there are others
        connection = super()._dial(until)
        try:
            asked_at = now()
            run_id, uptime = parse_info(connection.command((b"INFO", b"server"), until))
        except BaseException as error:
            connection.close()
            if isinstance(error, Broken):
                raise Broken(str(error), sent=False) from error.__cause__
            raise
        self.saw(run_id, uptime, asked_at)
        return connection


class _NodePort(BlockingPort):
    """The port of one node."""

    def __init__(self, several: Several, number: int, *, home: str, patience: float) -> None:
        self._number = number
        self.saw: Saw = lambda _run_id, _uptime, _now: None
        super().__init__(several.sources[number], home=home, patience=patience)

    def _new_pool(self) -> Pool:
        return _NodePool(self.source, self._ear, self._saw)

    def _saw(self, run_id: bytes, uptime: float, asked_at: float) -> None:
        self.saw(run_id, uptime, asked_at)


class _QuorumTender(Tender):
    """Tells of lost majorities, and heals; the nodes' own tenders renew and hear revocations."""

    def _listening(self, port: BlockingPort, until: float) -> Connection | None:  # noqa: ARG002 - as Tender
        return None


class _UnderWay:
    """Requests to several nodes: those that wait for an answer, and those for a connection."""

    def __init__(self, port: BlockingQuorum, seatless: Sequence[Ask]) -> None:
        self._waiting: dict[int, Ask] = {}
        self._dials: dict[Ask, _Dial] = {}
        self._poll = select.poll()
        self._bell: socket.socket | None = None
        self._heard: socket.socket | None = None
        if seatless:
            self._bell, self._heard = socket.socketpair()
            self._poll.register(self._heard, select.POLLIN)
        for ask in seatless:
            pool = cast("_NodePool", port.nodes[ask.node].pool)
            self._dials[ask] = pool.dial(self._bell)

    def __bool__(self) -> bool:
        return bool(self._waiting or self._dials)

    def send(self, ask: Ask) -> None:
        """Send a request on the connection that its ask was given."""
        try:
            ask.asked_at = ask.seat.asked_at = now()
            ask.begin()
            ask.seat.send(pack_call(*ask.request))
        except (Broken, FencelockError) as error:
            ask.fail(error)
        else:
            number = ask.seat.fileno()
            self._waiting[number] = ask
            self._poll.register(number, select.POLLIN)

    def hear(self, seconds: float, limit: float) -> bool:
        """Wait for so long for answers and connections; False when none came."""
        ready = self._poll.poll(seconds * 1000)
        for number, _ in ready:
            if self._heard is not None and number == self._heard.fileno():
                self._heard.recv(100)
                self._connected()
                continue
            ask = self._waiting[number]
            _read(ask, limit)
            if ask.ended:
                del self._waiting[number]
                self._poll.unregister(number)
        return bool(ready)

    def _connected(self) -> None:
        for ask in [ask for ask, dial in self._dials.items() if dial.over]:
            try:
                seat = self._dials.pop(ask).result(now())
            except (Broken, FencelockError) as error:
                ask.fail(error)
            else:
                ask.seat, seat.waiter = seat, ask
                self.send(ask)

    def end(self) -> None:
        """Wait for nothing any more; what is left failed."""
        for ask, dial in self._dials.items():
            dial.leave()
            ask.fail(Broken("no connection in time", sent=False))
        for ask in self._waiting.values():
            ask.fail(Broken("no answer in time", sent=True, trail=ask.seat))
        if self._bell is not None and self._heard is not None:
            self._bell.close()
            self._heard.close()


def _read(ask: Ask, limit: float) -> None:
    seat: Connection = ask.seat
    try:
        ask.answer(seat.answer(max(limit, now() + 0.01)), now())
    except ReplyError as error:
        if not unknown_script(error):
            ask.fail(server_error(error))
            return
        try:
            seat.send(pack_source(*ask.request))
        except Broken as broken:
            ask.fail(broken)
    except Broken as error:
        ask.fail(error)


class BlockingQuorum(BlockingPort):
    """Implements ``_core.fan.QuorumPort`` for threads."""

    flows = QUORUM
    nodes: Sequence[BlockingPort] = ()

    def __init__(
        self, several: Several, *, prefix: str, home: str, patience: float, node_timeout: float
    ) -> None:
        self.labels = several.labels
        self.needed = majority(len(several.sources))
        self.node_timeout = node_timeout
        self.roster_key = roster_key(prefix)
        self.nodes = [
            _NodePort(several, number, home=home, patience=node_timeout * FIRST_FACTOR)
            for number in range(len(several.sources))
        ]
        super().__init__(several, home=home, patience=patience)  # type: ignore[arg-type]  # nothing is dialled

    def _new_pool(self) -> Pool:
        return Pool(self.source.sources[0], self._ear)  # never dialled: the nodes have their own

    def _start(self) -> None:
        super()._start()
        self.ill: dict[int, float] = {}
        self.roster = Roster(len(self.nodes))
        self._tender = _QuorumTender(self)
        for number, node in enumerate(self.nodes):
            node.saw = self._seen(number)  # type: ignore[attr-defined]  # made above

    def _seen(self, number: int) -> Saw:
        roster, lock = self.roster, self._lock

        def saw(run_id: bytes, uptime: float, asked_at: float) -> None:
            with lock:
                roster.saw(number, run_id, uptime, asked_at)

        return saw

    # -- all at once ----------------------------------------------------------------------------

    async def fan(
        self,
        asks: Sequence[Ask],
        latest: float,  # noqa: ARG002 - as QuorumPort: ``limit`` says it
        limit: Callable[[], float],
    ) -> None:
        """Send where a connection stands by, then where one was opened; read as answers come."""
        if self.closing:
            for ask in asks:
                ask.fail(closed())
            return
        idle = [ask for ask in asks if self.nodes[ask.node].seat(ask, listen=False)]
        under_way = _UnderWay(self, [ask for ask in asks if ask not in idle])
        try:
            for ask in idle:
                under_way.send(ask)
            while under_way:
                until = limit()
                left = max(0.0, until - now())
                if not under_way.hear(left, until) and left == 0:
                    break
        finally:
            under_way.end()

    # -- what is not asked of one server ----------------------------------------------------------

    async def call(self, script: Script, *_: Any, **__: Any) -> Reply:
        """Refuse: a flow that asks one server has no business here."""
        raise RuntimeError(f"{script.name}: a quorum is not one server")

    def post(self, script: Script, keys: Keys, args: Args, trail: object = None) -> None:
        """Send to every node."""
        del trail  # the nodes' own requests have them
        for node in self.nodes:
            node.post(script, keys, args)

    # -- leases ---------------------------------------------------------------------------------

    def move(self, hold: Hold, when: float) -> None:
        """Have a hold get attention at another instant."""
        with self._lock:
            if not hold.open or hold.told:
                return
            self.book.discard(hold)
            self.book.add(hold, when)
        self._tender.mind(when)

    # -- ends -----------------------------------------------------------------------------------

    def shut(self, within: float = CLOSE_SECONDS) -> None:
        """Close all nodes' ports; who holds keeps its lease until it ends."""
        if inside():
            put_off(self.shut)
            return
        self.closing = True
        with self._lock:
            let_go(self.book.minded())
        lose_all(self, "closed")
        for node in self.nodes:
            node.shut(within)
        self.pool.closed = True
        self._tender.stop(now() + within)
