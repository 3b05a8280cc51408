"""The blocking port's private connections: opened when needed, a few kept for the next call."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from weakref import WeakValueDictionary

from fencelock._core.round_trips import RoundTrips
from fencelock._core.types import NoReply, closed
from fencelock._io.bounded_call import Work, WorkClaim, under_way, within
from fencelock._io.connection_blocking import Connection, Pushed
from fencelock._runtime.clock import now
from fencelock._runtime.log import log
from fencelock.errors import FencelockError, ServerUnreachable
from fencelock.options import SERVER_TIMEOUT

# Idle connections that are kept for the next call; more are opened when more threads ask at once.
FREE_MAX = 16
FRESH_SECONDS = 0.01
# A caller with nearly all the time that a connection may take opens it itself.
PATIENT = 0.9
DIAL = "fencelock-dial"
# True while a clean-up runs. It may open a connection though the client was closed: the answer to a
# request that was under way then may be a grant, and its lock would stay held until its ttl.
cleaning_up: ContextVar[bool] = ContextVar("cleaning_up", default=False)


def admit(*, closed_already: bool) -> None:
    """Raise ClientClosed after the client was closed, unless a clean-up asks."""
    if closed_already and not cleaning_up.get():
        raise closed()


class Pool:
    """Connections of one client; a connection is used by one thread at a time."""

    __slots__ = (
        *("_mastered", "_most", "_open", "_opened", "_pushed", "_reached", "closed", "dials"),
        *("free", "silence", "trips"),
    )

    def __init__(
        self,
        opens: Callable[[float, Pushed], Connection],
        pushed: Pushed,
        most: float = SERVER_TIMEOUT,
        trips: RoundTrips | None = None,
    ) -> None:
        self._open = opens
        self._pushed = pushed
        self._most = most  # how long a connection may take to open
        self.trips: RoundTrips = trips or RoundTrips()
        # What is said of no connection in time.
        self.silence: Callable[[], str] = lambda: "no connection was opened in time"
        # For the next call. One too many pushes out the oldest, which is closed with its last use.
        self.free: deque[Connection] = deque(maxlen=FREE_MAX)
        self._opened: WeakValueDictionary[int, Connection] = WeakValueDictionary()
        self._reached = self._mastered = False
        self.dials: int = 0  # how many connections were opened
        self.closed: bool = False

    def take(self, until: float) -> Connection:
        """Return a sound connection, opened when none is idle.

        Raises NoReply when there was none by ``until``, and a ServerError when the server refuses,
        or when no server was ever reached there: more likely a wrong address than a restart.
        """
        connection = self.idle()
        if connection is None:
            admit(closed_already=self.closed)
            connection = self.dial(until)
        return connection

    def idle(self, at: float = 0.0) -> Connection | None:
        """Return an idle connection that the server has not closed; ``at`` is now, if it is known.

        One that was used just before is not checked: in a loop of calls that would cost more than
        the rare second try.
        """
        while True:
            try:
                connection = self.free.pop()
            except IndexError:
                return None
            connection.fresh = False
            if (at or now()) - connection.asked_at < FRESH_SECONDS or connection.settle():
                return connection
            self.drop()
            connection.close()

    def spare(self, until: float) -> bool:
        """Make sure that a connection is idle; False when the server accepts no more of them.

        Without an answer in time that is unknown, and a waiter continues with what it has.
        """
        if self.free:
            return True
        try:
            self.give(self.take(until))
        except (NoReply, FencelockError) as error:
            if now() >= until:
                return True
            log.info("no connection can be kept for renewing and releasing: %s", error)
            return False
        return True

    def of_node(self, connection: Connection) -> Pool:
        """Return the pool of connections to the same server."""
        del connection
        return self

    def give(self, connection: Connection) -> None:
        """Keep a sound connection for the next call; after a failure drop all idle ones too.

        If one connection failed (a restart, a failover), the idle ones are probably dead too.
        """
        if not connection.sound or connection.owed:
            connection.sound = False
            self.drop()
            if not connection.undoing:
                connection.close()
        elif self.closed:
            connection.close()
        else:
            self.free.append(connection)

    @property
    def asking(self) -> bool:
        """Return True while a request waits for its answer; not while only its undo does."""
        opened = [each() for each in self._opened.valuerefs()]
        return any(each is not None and each.sound and each.owed > 0 for each in opened)

    def drop(self) -> None:
        """Close the idle connections; once the client is closed, no more of them are kept."""
        free, self.free = self.free, deque(maxlen=0 if self.closed else FREE_MAX)
        while free:
            free.pop().close()

    def close(self) -> None:
        """Close the idle connections, and keep no other from here on."""
        self.closed = True
        self.drop()

    def dial(self, until: float) -> Connection:
        """Open a connection; one that takes longer than the caller has is kept for the next."""
        if until - now() > self._most * PATIENT:
            return self.connect(until)
        try:
            return within(until, self, self.opened, name=DIAL, dispose=self.give)
        except TimeoutError:
            raise NoReply(self.silence(), sent=False) from None

    def dial_for(self, claim: WorkClaim[Connection]) -> None:
        """Have a connection opened for a claim, unless one is that no caller awaits."""
        under_way.claim(self, lambda: Work(self.opened, self.give), DIAL, claim)

    def opened(self) -> Connection:
        """Open a connection in a thread of its own: its caller may have less time, and leave it."""
        seconds = self.trips.to_open(self._most)
        until = now() + seconds
        try:
            return self.connect(until)
        except NoReply:
            if now() >= until:
                self.trips.missed(seconds)
            raise

    def connect(self, until: float) -> Connection:
        """Open a connection; ends like ``take``."""
        try:
            connection = self._open(until, self._pushed)
        except ServerUnreachable as error:
            if not self._reached or error.code not in {"", "REFUSED"}:
                raise
            raise NoReply(str(error), sent=False) from error
        self._reached = True
        self._mastered = connection.mastered = self._mastered or connection.mastered
        self.dials += 1
        self.trips.adopt(connection)
        self._opened[connection.descriptor] = connection
        return connection
