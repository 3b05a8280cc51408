"""The blocking port of a quorum: one ordinary port per node, and one thread that asks them all.

Rules of this file:

- To ask all at once takes no thread: requests are sent on a connection per node, then read as they
  come.
- What is sent to "the quorum" without an answer to wait for goes to every node (``post``).
- Each node's port tends that node's leases, so that a silent node holds up no other's.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from typing import Any

from fencelock._core.fan import Ask
from fencelock._core.hold import Hold
from fencelock._core.keys import roster_key
from fencelock._core.port import Args, Broken, Keys, Reply
from fencelock._core.quorum_hold import drop_parts, let_go
from fencelock._core.quorum_keep import attend
from fencelock._core.renew import lose_all
from fencelock._core.roster import Roster, parse_info
from fencelock._core.votes import FIRST_FACTOR, majority
from fencelock._ports.blocking import CLOSE_SECONDS, BlockingPort, run_blocking
from fencelock._ports.pool import Pool
from fencelock._ports.tender import Tender
from fencelock._transport.direct import Connection
from fencelock._transport.quorum import Several
from fencelock._transport.wire import (
    ReplyError,
    pack_call,
    pack_source,
    server_error,
    unknown_script,
)
from fencelock.clock import now
from fencelock.errors import ServerError
from fencelock.mutex import inside, put_off
from fencelock.scripts import Script

# The least that an answer gets once the last request was sent.
ANSWER_SECONDS = 0.01

Saw = Callable[[bytes, float, float], None]


class _NodePool(Pool):
    """Connections to one node, which says who it is on each of them."""

    __slots__ = ("saw",)

    saw: Saw

    def _dial(self, until: float) -> Connection:
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
        pool = _NodePool(self.source, self._ear)
        pool.saw = self._saw
        return pool

    def _saw(self, run_id: bytes, uptime: float, asked_at: float) -> None:
        self.saw(run_id, uptime, asked_at)


class _QuorumTender(Tender):
    """Tells of lost majorities, and heals; the nodes' own tenders renew and hear revocations."""

    flow = staticmethod(attend)

    def _listening(self, port: BlockingPort, until: float) -> Connection | None:  # noqa: ARG002 - as Tender
        return None


class BlockingQuorum(BlockingPort):
    """Implements ``_core.fan.QuorumPort`` for threads."""

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
        self, asks: Sequence[Ask], until: float, latest: float, decided: Callable[[], bool]
    ) -> None:
        """Send to all, then read as answers come; first where a connection stands by."""
        waiting: dict[int, Ask] = {}
        idle = [ask for ask in asks if self.nodes[ask.node].seat(ask, listen=False)]
        for ask in (*idle, *[ask for ask in asks if ask not in idle]):
            self._send(ask, until, waiting)
        poll = select.poll()
        for number in waiting:
            poll.register(number, select.POLLIN)
        # To dial a silent node may have used the time up: the others could not answer meanwhile.
        until = max(until, now() + ANSWER_SECONDS)
        while waiting:
            limit = until if decided() else latest
            left = max(0.0, limit - now())
            ready = poll.poll(left * 1000)
            if not ready and left == 0:
                break
            for number, _ in ready:
                ask = waiting[number]
                self._read(ask, limit)
                if ask.ended:
                    del waiting[number]
                    poll.unregister(number)
        for ask in waiting.values():
            ask.fail(Broken("no answer in time", sent=True, trail=ask.seat))

    def _send(self, ask: Ask, until: float, waiting: dict[int, Ask]) -> None:
        try:
            node = self.nodes[ask.node]
            # Whoever came before may have used the time up: a dial gets its own.
            run_blocking(node.open(ask, max(until, now() + self.node_timeout), listen=False))
            ask.asked_at = ask.seat.asked_at = now()
            ask.begin()
            ask.seat.send(pack_call(*ask.request))
        except (Broken, ServerError) as error:
            ask.fail(error)
        else:
            waiting[ask.seat.fileno()] = ask

    def _read(self, ask: Ask, limit: float) -> None:
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

    def tell(self, hold: Hold) -> None:
        """End what is left of a lost lease, and tell its holder."""
        if not self.closing:
            drop_parts(self, hold)
        super().tell(hold)

    # -- ends -----------------------------------------------------------------------------------

    def shut(self) -> None:
        """Close all nodes' ports; who holds keeps its lease until it ends."""
        if inside():
            put_off(self.shut)
            return
        self.closing = True
        with self._lock:
            let_go(self.book.minded())
        lose_all(self, "closed")
        for node in self.nodes:
            node.shut()
        self.pool.closed = True
        self._tender.stop(now() + CLOSE_SECONDS)
