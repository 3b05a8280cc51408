"""What a thread needs for a service behind Sentinels: connections to them, and to its master.

A connection to the master has a guard, which says which answers count. Its rules are in
master_monitor.py; here are the places where it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from fencelock._core.round_trips import RoundTrips
from fencelock._core.types import NoReply, Reply
from fencelock._io.connection_blocking import Connection, Pushed, dial
from fencelock._io.io_blocking import BlockingIo
from fencelock._io.threads import run_inline
from fencelock._io.wire import INCOMPLETE, ReplyError, server_error
from fencelock._runtime.clock import now
from fencelock._topology.master_monitor import MasterGuard, MasterMonitor
from fencelock._topology.sentinel import FRESH_SECONDS, SentinelService
from fencelock.errors import ServerError

if TYPE_CHECKING:
    from fencelock._io.sources.kinds import One


class MasterConnection(Connection):
    """A connection to the master of a service."""

    __slots__ = ("_guard", "_reads_until", "_to")

    _run = Connection.run  # each pair calls it, and ``super()`` costs as much as a call

    def __init__(self, sock: Any, pushed: Pushed, *, guard: MasterGuard) -> None:
        super().__init__(sock, MasterConnection.hear)  # bound, a cycle would keep the socket open
        self._to = pushed
        self._guard = guard
        self._reads_until = 0.0

    def run(self, request: bytes, until: float, at: float) -> Reply:
        """Run a packed request, but not at a replaced master; its answer's age counts."""
        guard = self._guard
        # as ``is_replaced``, without a frame for each call
        if guard.generation != guard.state.generation:
            raise self._replaced()
        self._reads_until = until
        # What was sent again with its script was proved as it was answered.
        try:
            reply = self._run(request, until, at)
        except ServerError as error:
            if self.asked_at == at:
                self._ask_guard(guard.refused(error, at, until))
            raise
        if not guard.counts(at) and self.asked_at == at:
            self._ask_guard(guard.prove(at, until))
        return reply

    def refusal(self, reply: ReplyError) -> ServerError:
        """Return the error for a refusal, of which the guard decides what it means."""
        return server_error(reply)

    def answer(self, until: float, *, confirms: tuple[bytes, bytes] | None = None) -> Reply:
        """Read the next answer; NoReply also when there is another master now."""
        self._reads_until = until
        reply = super().answer(until, confirms=confirms)
        if isinstance(reply, ReplyError):
            self._ask_guard(self._guard.refused(server_error(reply), self.asked_at, until))
        # A subscription grants nothing: what comes on the channel must count.
        elif not confirms and not self._guard.counts(self.asked_at):
            self._ask_guard(self._guard.prove(self.asked_at, until))
        return reply

    def listen(self, until: float) -> bool:
        """Read one push; NoReply when it came from a master that was replaced."""
        self._reads_until = until
        return super().listen(until)

    def settle(self) -> bool:
        """Take what came while the connection was idle; False when it is of no use any more."""
        if self._guard.is_replaced:
            self.sound = False
        return self.sound and super().settle()

    def send(self, packed: bytes, requests: int = 1) -> None:
        """Send a request, or several, but not to a replaced master; its answer's age counts."""
        self.asked_at = now()
        if self._guard.is_replaced:
            raise self._replaced()
        super().send(packed, requests)

    def _replaced(self) -> NoReply:
        self.sound = False
        return NoReply("there is another master now", sent=False)

    def hear(self: Any, message: list[bytes]) -> None:
        """Hand a push on if it counts."""
        until = max(self._reads_until, now())
        proving = self._guard.take(message, partial(self._to, self), until)
        if proving is not None:
            self._ask_guard(proving())

    def _ask_guard(self, flow: Coroutine[Any, Any, None]) -> None:
        try:
            run_inline(flow)
        except BaseException:
            self.sound = False
            raise

    def _next(self, until: float, *, broken: bool = True) -> Any:
        """Return the next message; while an answer is late, ask whether this is the master."""
        late = max(FRESH_SECONDS, self.trips.silence)
        while broken and until - now() > late:
            message = super()._next(now() + late, broken=False)
            if message is not INCOMPLETE:
                return message
            self._ask_guard(self._guard.still_master(until))
        return super()._next(until, broken=broken)


class BlockingDialer(BlockingIo):
    """Implements ``_topology.master_monitor.MasterIo`` for threads."""

    async def dial(
        self, source: One, until: float, pushed: Pushed, guard: MasterGuard | None = None
    ) -> Connection:
        """Open a connection, which one thread at a time may use."""
        make = Connection if guard is None else partial(MasterConnection, guard=guard)
        return dial(source, until, pushed, make)


def following(service: SentinelService, trips: RoundTrips) -> Callable[[float, Pushed], Connection]:
    """Return what opens connections to the master of a service, whose round trips are these."""
    monitor = MasterMonitor(service, BlockingDialer(), trips)
    return lambda until, pushed: run_inline(monitor.connect(until, pushed))
