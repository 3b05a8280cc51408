"""One acquisition of one lock, once it was granted: the lease, and all that the flows know of it.

Rules of this file (I2, I8):

- A lease is judged by this process's monotonic clock alone, never by asking a server.
- A child process holds none of its parent's leases.
- Once a lease is lost it stays lost, whatever arrives later.
- A loss may be found at the deadline, or by a renewal, a release or ``check``. It is recorded in
  one place, ``lose``, which notifies the holder, once. That sends nothing. What an error leaves
  undone of it, the next call does: the lease stays in the schedule until then (I16).
- A lease that is being released proves nothing from that instant on.
- The deadline moves in one place, ``move_deadline``, which tells those that watch the lease; that
  of leases that none watches, in ``renew_together``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fencelock._core import events
from fencelock._core.deadlines import (
    GROW_SECONDS,
    renewal_delay,
    validity,
)
from fencelock._core.description import HeldBy
from fencelock._core.lock.attempt import Attempt
from fencelock._core.types import Carrier, UnitId
from fencelock._runtime import process
from fencelock._runtime.records import NamedTuple
from fencelock._runtime.typed import TYPE_CHECKING, Any, Protocol
from fencelock.errors import LeaseLost, NotHeld
from fencelock.lease import BaseLease, fence_of

if TYPE_CHECKING:
    from types import CodeType

    from fencelock._core.engine import Engine
    from fencelock._core.lock.renewal_schedule import Bucket
    from fencelock._core.quorum.lease import Majority
    from fencelock._core.seat import Stray

# A renewal that ``max_hold`` cuts short must gain this part of a ttl to be worth a command.
LEAST_GAIN = 0.05


def lose(port: Engine, hold: Hold, reason: str, since: float, detail: str = "") -> bool:
    """End the renewal of a lost hold; return True if nothing else reports its loss."""
    with port.mutex:
        hold.last = True  # no turn is passed on, and nothing is kept, from here on
    first = hold.lose(reason, since, detail)
    with port.mutex:  # not before: after an error the schedule finds it again
        port.renewals.discard(hold)
    return first


def lose_revoked(port: Engine, hold: Hold, reason: str | None) -> None:
    """Notify the holder that an operator revoked its lease; without a reason, ask whether."""
    if reason is None:
        now = port.now()
        with port.mutex:  # also one whose handle is gone, or that is being renewed
            if not (hold.released or hold.notified):
                port.renewals.reschedule(hold, now)
        port.attend_by(now)
    else:
        lose(port, hold, "revoked", port.now(), reason)


class Loss(NamedTuple):
    """Why a lease was lost, and since which instant."""

    reason: str
    since: float
    detail: str = ""


class Registry(Protocol):
    """Where the holds of one handle are kept."""

    hold_type: type[Hold]  # of the face: threads or asyncio

    def add(self, hold: Hold) -> None:
        """Keep a hold, before any other thread can see it."""

    def remove(self, hold: Hold) -> bool:
        """Remove a hold; False when it was not kept."""

    def describe(self, caller: UnitId, /) -> bytes:
        """Return the description of a thread or task that uses the handle."""

    def keeps(self, hold: Hold) -> bool:
        """Return False if a hold was removed: another thread or task releases it."""


class Hold(Attempt):
    """An acquisition by a thread or task, from its question to its end.

    Once it is ``held`` users know it as their lease: they see what ``BaseLease`` names.
    """

    __slots__ = (
        *("bucket", "clock", "deadline", "granted_at", "kind", "open", "parts", "port"),
        *("released", "renewals", "reported", "steady"),
    )

    # Of its attempt, which type checkers want to see again where they are set.
    id: bytes
    holder_id: bytes
    info: bytes
    fence: int
    held: bool
    asks: Attempt | None
    owed: tuple[Stray, ...]

    loss: Loss | None = None
    noticed: bool = False  # all was done about its loss
    joint: Any = None  # of a multi, once all are granted: the lease of them all
    majority: Majority | None = None  # that it is a part of: the leases of a quorum's nodes
    # Called at once with each new deadline, in the thread that moves it; never of a quorum's part.
    on_deadline: Callable[[float], None] | None = None
    end: str = "expired"  # the reason, when the deadline comes
    body: Any = None  # that a loss cancels
    bound: bool = False  # only the thread or task that acquired it can release it
    frame: tuple[int, CodeType | None] | None = None  # of the ``with`` that holds it; see body.py
    passes: bool = False  # the turn is passed on to the next of its cohort
    count: int = 1  # re-entries of an implicit owner
    short: bool = False  # it was handed over, and has not grown to its full length yet
    # Its turn is the last of its lease, which is neither passed on nor kept: the server has ended
    # it, as is known here before the loss is recorded, or may have it for longer than usual.
    last: bool = False
    may_grow: bool = False  # a renewal that was sent may run at any time: the lease is not kept
    failures: int = 0
    trouble: Exception | None = None  # why the last renewal failed
    notified: bool = False  # the holder is notified of a loss (I8: once)

    def start_lease(
        self, port: Engine, fence: int, deadline: float, parts: Majority | tuple[()] = ()
    ) -> None:
        """Begin the lease that it was granted; see ``acquire.begin``."""
        terms, self.fence = self.terms, fence
        if terms.ends < deadline:  # noqa: PLR1730 - min() takes ten times as long
            deadline = terms.ends
        self.deadline: float = deadline
        self.port: Engine | None = port  # that renews it; None once it was given back
        self.clock: Callable[[], float] = (now := port.now)
        self.granted_at: float = now()
        self.released: bool = False  # it is given back, or is being given back
        self.parts: Majority | tuple[()] = parts  # of a quorum's: the holds of its nodes
        self.open: bool = True  # False once released or given up: never renewed again (I11)
        self.renewals: int = 0
        # The acquisitions whose grant was reported to hooks, until the end is; see events.py.
        self.reported: list[events.Acquisition] | None = None
        self.bucket: Bucket | None = None  # where the renewal schedule keeps it
        # Those of its form: with very many leases each object that a renewal looks at costs.
        self.kind: int = terms.batch
        self.steady: float = terms.steady
        self.asks = None
        self.held = True  # last: it is a lease from here on

    def continues(self, source: Attempt) -> None:
        """Go on under the ids of another of its client, by which the server knows its lease."""
        if self._own_info is None:
            self._own_info = self.info
        self.id, self.holder_id, self.info = source.id, source.holder_id, source.info
        self.owed = source.owed

    # -- what users see; ``BaseLease`` documents it -------------------------------------------

    @property
    def name(self) -> str:
        """Return the lock's name, without the prefix."""
        return self.terms.keys.name

    @property
    def server(self) -> str:
        """Return the server, as a person calls it."""
        return self.terms.options.server

    @property
    def holder(self) -> str:
        """Return the id of the tenure as text."""
        return self.holder_id.decode()

    @property
    def lost(self) -> bool:
        """Return True if the lease can no longer be proved, and note the loss."""
        if self.loss is not None:
            return True
        if self.terms.generation != process.mark[0]:
            process.number()  # the copy may not be noticed yet
            self.lose("forked", self.clock())
            return True
        if self.released or self.clock() < self.deadline:
            return False
        self.lose(self.end, self.deadline)
        return True

    def remaining(self) -> float:
        """Return how many seconds can still be proved."""
        if self.released or self.lost:
            return 0.0
        return max(0.0, self.deadline - self.clock())

    def check(self) -> None:
        """Raise when it cannot be proved now."""
        if self.lost:
            raise self.lost_error()
        if self.released:
            raise self._not_held()

    def _not_held(self) -> NotHeld:
        text = f"the lease of {self.name!r} was released"
        return NotHeld(text, name=self.name, server=self.server)

    def has_it(self, now: float) -> HeldBy | None:
        """Return who has the lock: this one once it is held, else who the server said last."""
        if not self.held:
            return Attempt.has_it(self, now)
        return HeldBy(self.own_info, fence_of(self), max(0.0, now - self.granted_at))

    def __repr__(self) -> str:
        """Show the state, the name and the fence."""
        if not self.held:
            return f"<asked {type(self).__name__} of {self.name!r}>"
        state = "lost" if self.lost else "released" if self.released else "held"
        return f"<{state} {type(self).__name__} of {self.name!r} fence={fence_of(self)}>"

    def __dir__(self) -> list[str]:
        """Name what users may rely on, and not what the flows know of it."""
        ours = {*dir(Hold)} - {*dir(BaseLease)}
        return [name for name in super().__dir__() if name not in ours]

    # -- its deadline, its loss, its end ------------------------------------------------------

    @property
    def user_lease(self) -> Hold:
        """Return the user's lease: itself, or what this one is a part of."""
        return self if self.majority is None else self.majority.hold

    @property
    def partial(self) -> bool:
        """Return True if it is that of one node of a quorum, whose loss is no news."""
        return self.user_lease is not self

    @property
    def dropped(self) -> bool:
        """Return True if its handle is gone: nothing renews or releases it, it only ends."""
        return not (self.open or self.released)

    @property
    def forked(self) -> bool:
        """Return True if this is a parent's lease, seen in its child: not ours to touch."""
        return self.terms.generation != process.mark[0]

    @property
    def closed(self) -> bool:
        """Return True if it was lost because its client was closed, which did all that it could."""
        return self.loss is not None and self.loss.reason == "closed"

    def renewing_port(self) -> Engine:
        """Return the port that renews it; raise as ``check``."""
        port = self.port  # read first: a release drops it
        self.check()
        if port is None:
            raise self._not_held()
        return port

    def move_deadline(self, deadline: float) -> None:
        """Set until when the lease is proved, and notify whom it concerns."""
        self.deadline = deadline
        if self.majority is not None:
            self.majority.deadline_moved()
        elif self.on_deadline is not None:
            self.on_deadline(deadline)

    @staticmethod
    def renew_together(holds: Iterable[Hold], deadline: float) -> None:
        """Set until when leases that none watches are proved, after a renewal of all."""
        for hold in holds:
            hold.deadline = deadline
            hold.renewals += 1

    def observe(self, on_deadline: Callable[[float], None]) -> None:
        """Call a function with each deadline from now on, beginning with this one."""
        self.on_deadline = on_deadline
        self.stand_out()
        on_deadline(self.deadline)

    def stand_out(self) -> None:
        """Have each renewal judge it by itself from now on: no batch with it is whole."""
        self.steady, bucket = 0.0, self.bucket
        if bucket is not None:
            bucket.batch = None

    def lost_error(self) -> LeaseLost:
        """Return the error that says how it was lost, or how it will be."""
        loss = self.loss or Loss(self.end, self.deadline)
        return LeaseLost(self.name, fence=fence_of(self), server=self.server, **loss._asdict())

    def lose(
        self, reason: str, since: float, detail: str = "", *, releasing: Engine | None = None
    ) -> bool:
        """Record the loss and notify the holder; False when it was recorded before.

        For a lease that is being released, only its release can find a loss: it names its port.
        """
        if self.noticed or (self.released and releasing is None):
            return False
        port = releasing or self.port
        if reason == "forked":
            port = None  # this process has no part in it: it tells no one
        if port is not None:
            detail = detail or self.cause(reason, since)
        loss = Loss(reason, since, detail)
        self.stand_out()
        try:
            first = self.__dict__.setdefault("loss", loss) is loss  # one step, of several threads
            self._tell(port)
        finally:
            if self.loss is not None and not self.noticed:
                self._tell(port)  # an error came in between
        return first

    def _tell(self, port: Engine | None) -> None:
        """Do all that a loss needs; harmless when it was done, or done in part."""
        if port is not None:
            self.step_down(port)
            port.notify_loss(self)
            self.notified = True
        if self.majority is not None:
            self.majority.lost(self)
        self.noticed = True
        events.end_hold(self)

    def is_first_to(self, what: str) -> bool:
        """Return True for one caller only: two threads may find a loss at the same moment."""
        mine = object()
        return self.__dict__.setdefault(what, mine) is mine  # one step

    # -- its undo; see attempt.py -------------------------------------------------------------

    def undo(self, port: Engine) -> None:
        """Undo whatever it has: its lease, and all that ``Attempt.undo`` undoes."""
        if self.held and not self.forked:
            if self.registry is not None:
                self.registry.remove(self)
            self.release_in_background(port)
            self.held = False  # not before: a second call releases it again, which does no harm
        Attempt.undo(self, port)  # a test may run another body here, which has no ``super``

    def release_in_background(
        self,
        port: Engine,
        undo_connection: Carrier | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Release it after what that connection carries, if any; ``error`` is that of a release.

        It proves nothing from here on. Nothing is done to a parent's in its child.
        """
        if not self.forked:
            self.retire(port)
            port.release_later(self, undo_connection)
            port.clean_up(self)
        events.end_hold(self, error)

    def retire(self, port: Engine) -> None:
        """End renewal, in the schedule of the port (maybe another loop's) that began it (I11).

        From now on the lease proves nothing: it is being released. Its turn is over.
        """
        renewing = self.port or port
        with renewing.mutex:
            tenure = self.tenure  # read here: another thread may begin its turn
            self.open = False
            self.released = True
            if self.bucket is None:  # most leases end before it is asked what is due
                renewing.renewals.unplaced.pop(self, None)
            else:
                renewing.renewals.discard(self)
            if tenure is None:
                cohorts, key = renewing.lines.cohorts, self.terms.cohort
                if cohorts.get(key) is self:  # it is alone
                    del cohorts[key]
            elif tenure.front is self and not tenure.waiting:
                tenure.end()
        self.port = None
        if self.parts:
            self.parts.retire()

    def drop(self) -> None:
        """Note that its handle is gone. A finalizer may do it anywhere: it takes no mutex."""
        self.stand_out()
        self.open = False
        for part in self.parts:
            if part is not None:
                part.open = False

    def resume(self, port: Engine) -> None:
        """Continue the lease after a release that the server refused."""
        self.port, self.open, self.released = port, True, False

    # -- its limits ---------------------------------------------------------------------------

    @property
    def ids(self) -> Sequence[bytes]:
        """Return the ids by which servers know it: several where it has parts."""
        return self.holder_id, *[part.holder_id for part in self.parts if part is not None]

    def renewable(self, now: float) -> bool:
        """Return True if a renewal from ``now`` on makes sense: wanted, and within its limits."""
        options = self.terms.options
        if not self.open:
            return False
        if self.short:  # to grow to what was asked for is no renewal
            return True
        if not options.renew:
            return False
        if options.max_renewals is not None and self.renewals >= options.max_renewals:
            return False
        if options.max_hold is None:
            return True
        # Near ``max_hold`` a renewal must gain something: a lease of a few ms is none.
        gained = now + validity(self.granted_at + options.max_hold - now) - self.deadline
        return gained > self.ttl * LEAST_GAIN

    @property
    def usual(self) -> float:
        """Return the length of a lease where no limit is near."""
        options = self.terms.options
        return options.ttl if options.renew else self.ttl

    def next_ttl(self, now: float) -> float:
        """Return the length of the next lease: ``max_hold`` cuts the last one short."""
        return self.within_limits(self.usual, now)

    def within_limits(self, ttl: float, now: float) -> float:
        """Return the length that a lease from now on may have, of the ``ttl`` that is wanted."""
        most = self.terms.options.max_hold
        ttl = min(ttl, self.terms.ends - now)
        return ttl if most is None else min(ttl, self.granted_at + most - now)

    def renewed(self) -> None:
        """Note that it was renewed: it has its full length now, and nothing is wrong with it."""
        self.renewals += not self.short  # to grow to that is no renewal
        if self.short:
            self.short = False
        if self.failures:
            self.failures, self.trouble = 0, None

    def cause(self, reason: str, since: float) -> str:
        """Return in words why a lease was lost, as far as ``reason`` does not say it."""
        if reason == "taken":
            return "the server has another holder"
        if reason != "expired":
            return ""
        options = self.terms.options
        if since < self.deadline:
            return "it was no longer on the server"
        if self.dropped:
            return "it was not renewed, because its handle was dropped"
        if not options.renew:
            return "it was not renewed, as requested"
        if trouble := self.last_trouble():
            return f"its last renewal failed: {trouble}"
        return "no renewal was answered in time; was the process stopped or suspended?"

    def last_trouble(self) -> Exception | None:
        """Return why the last renewal failed, of the lease or of one of its parts."""
        each = (self, *self.parts)
        return next((one.trouble for one in each if one is not None and one.trouble), None)

    def final(self) -> None:
        """Note that nothing renews the lease any more, and why it will end."""
        options = self.terms.options
        if options.renew and (options.max_hold is not None or options.max_renewals is not None):
            self.end = "max_hold"


def joined(hold: Hold) -> Sequence[Hold]:
    """Return the holds that form one lease with this one: of a multi all of its locks."""
    lease = getattr(hold, "joint", None)
    return (hold,) if lease is None else lease.__holds__


def first_due(port: Engine, hold: Hold, lease: float, jitter: float, now: float) -> float:
    """Return when a hold with a new lease is due: at its renewal, or at its end.

    A lease that was renewed for longer than usual is left alone until it is as long as usual.
    """
    deadline, options = hold.deadline, hold.terms.options
    usual = min(lease, options.ttl)
    left = deadline - now
    delay = renewal_delay(left, jitter)
    if left > usual:
        delay = left - usual + renewal_delay(usual, jitter)
    if hold.short and delay > GROW_SECONDS:
        delay = GROW_SECONDS  # it was handed over: a process that stalls now would lose it soon
    if not (hold.steady or hold.renewable(now + delay)):
        hold.final()
        return deadline
    return min(deadline, port.align(hold, now + delay, usual))
