"""A client's tenure of one lock: who of its waiters has the lease, who is next, who asks for all.

Rules of this file (I1, I3, I5, I8, I9):

- A tenure owns what is neither a waiter's nor a hold's: the question that asks the server for all
  of this client (``asks``), and a granted lease that no hold has (``spare``). One of the client's
  is its ``front``, and the front alone may use them:

  ======== ============ ======= ======= ==========================================================
  state    front        asks    spare   what goes on
  ======== ============ ======= ======= ==========================================================
  free     None         None    None    it is in no table
  asked    asks         any     None    the front asks the server for all
  passed   asks         any     a lease a turn was given to the front, which has not begun it
  held     is held      None    None    the turn lasts
  kept     None         None    a lease the lease is not in use
  ======== ============ ======= ======= ==========================================================

- Most are alone, and need none of this: they stand in the client's table themselves. The first
  other that comes makes the tenure, in ``join``. Those whose lease may be kept have it at once.
- The front changes under the port's mutex, in one assignment, after ``asks`` and ``spare``. So
  whatever interrupts a thread, the front is still its own, and it must give it up, or the next's.
- A turn is passed on only if at the pace of those before it ends within the cohort's bound, only
  while the lease proves what the next holder asked for, no less, and only if no question of the
  tenure may still run: its holder id is that of all turns. A renewal of the usual length that may
  still run does no harm (I15); one for longer marks its turn as the last.
- What ends a lease at the server, a revocation or a refusal, marks its hold in the section that
  reads it (``Hold.last``), and one that is marked is neither passed on nor kept. A revocation that
  finds no hold is remembered, and marks the next one of its id in the section that schedules it.
- A turn begins in the section that schedules its hold: so none that was released or revoked before
  is passed on or kept.
- Each turn has the next fence. The server leaves room for ``FENCE_ROOM`` of them.
- A waiter that gives up has nothing to undo, unless it is the front. The front leaves its question
  to the next waiter.
- A loss, a revocation, or a deadline that passes ends the tenure for all: the next waiter asks the
  server.

Leases that stay with their client for a moment after a release (``linger``; I7):

- A lease is kept only by the release of a turn for which no waiter of this client waits, and only
  while this client hears recalls. Little of it is left on the server: a client that dies or freezes
  stops the others for ``HANDOFF_TTL_SECONDS`` at most.
- The next turn begins without a command, and only while the lease proves enough.
- A recall is answered by a release if the lease is idle. If it is in use, this turn is the last.
- After ``RECALLS_IN_VAIN`` recalls (see waiting.py) without a turn of this client in between,
  a lock is not kept for ``PAUSE_SECONDS``: others want it more often than this client does.
- A recall may come before the grant that it is about: it is remembered.
- A message is a hint: if it is lost, an idle lease ends after ``linger`` all the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf

from fencelock._core import events
from fencelock._core.deadlines import HANDOFF_TTL_SECONDS, validity
from fencelock._core.lock.attempt import Attempt, Grant
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.terms import TRIES, Terms
from fencelock._core.lock.waiting import Lines
from fencelock._core.seat import Stray
from fencelock._core.types import Call
from fencelock._runtime.records import NamedTuple, record
from fencelock._runtime.typed import TYPE_CHECKING
from fencelock.options import Cohort
from fencelock.scripts import ANSWER
from fencelock.scripts.constants import FENCE_ROOM

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

# A turn begins with at least this part of the lease that the server granted: a renewed lease has
# time to be renewed, and one that is not renewed is nearly as long as its holder asked for.
RENEWED_PART = 0.5
FIXED_PART = 0.9
# Of what a kept lease was granted for, at least this part is left at the beginning of a turn.
KEPT_PART = 0.25


NO_ONE: deque[Hold] = deque()  # nothing is added to it


class Spare(NamedTuple):
    """A granted lease that no hold has: the front's turn, or a lease that is kept."""

    source: Attempt  # by whose ids the server knows it
    turn: Grant  # the next one
    fresh: bool = False  # the server granted it just now: its bound begins
    unchanged: bool = True  # no other client was granted the lock since the turn before

    @property
    def release(self) -> Call:
        """Return the request that releases it."""
        return self.source.terms.release(self.source)


def left_behind(asks: Attempt) -> tuple[Stray, ...]:
    """Return what may still come of a question that is left to another attempt, under way."""
    return (Stray(asks.path, asks.channel),) if asks.asking else ()


class Tenure:
    """Those of this client that hold or want one lock on the same terms."""

    # Class attributes until something happens: most locks have one user at a time.
    asks: Attempt | None = None  # None also while the front's own waiter asks
    turns: int = 0  # of this lease
    ends: float = 0.0  # the deadline that the grant had
    lease: float = 0.0  # seconds that the server granted
    least_kept: float = 0.0  # of a kept lease, at least so many are left as a turn begins
    kept_until: float = 0.0  # a kept lease is given up then
    holder: bytes = b""  # of the lease, if it may be kept
    recalled: bool = False  # this turn is the last of the lease
    may_grow: bool = False  # a renewal of a turn before may run at any time: the lease is not kept
    watched: bool = False  # the renewal schedule looks whether it is idle for too long

    def __init__(self, port: Engine, terms: Terms) -> None:
        self._port = port  # of the loop in which it is
        self._lines: Lines = port.lines
        self.terms: Terms = terms
        self.linger: float = terms.linger
        self.bound: Cohort = terms.options.cohort  # type: ignore[assignment]  # else no ``cohort``
        self.front: Hold | None = None
        self.spare: Spare | None = None
        self.waiting: deque[Hold] = NO_ONE

    @classmethod
    def of(cls, port: Engine, front: Hold) -> Tenure:
        """Return the tenure of one that was alone until now; call under the mutex."""
        tenure = cls(port, front.terms)
        tenure.front = front
        if front.held and (grant := front.grant) is not None:
            tenure.turns, tenure.ends, tenure.lease = 1, grant.deadline, grant.lease
        front.tenure = tenure
        return tenure

    @property
    def kept(self) -> Spare | None:
        """Return the lease that is not in use, if there is one."""
        return self.spare if self.front is None else None

    # -- who comes and goes -------------------------------------------------------------------

    def join(self, attempt: Hold) -> Spare | None:
        """Add an attempt; with a kept lease it is the front: return one that came too late.

        Call it under the mutex.
        """
        attempt.tenure = self
        if self.front is None and self.take_kept(attempt):
            return None
        if self.linger:
            attempt.introduce(self._port)
        if self.front is not None:
            attempt.local, attempt.eager = True, True
            attempt.waits_since = 0.0 if attempt.terms.topic else attempt.arrived_at
            self._lines.crowded[self] = None  # first: an interrupt leaves no waiter uncounted
            if self.waiting is NO_ONE:
                self.waiting = deque()
            self.waiting.append(attempt)
            return None
        spent, self.front = self.spare, attempt
        self.spare = None
        return spent

    def leave(self, attempt: Attempt) -> bool:
        """Take out a waiter that gives up; False when it has become the front."""
        with self._port.mutex:
            if self.front is attempt:
                return False
            if attempt in self.waiting:
                self.waiting.remove(attempt)  # type: ignore[arg-type]  # as it is in there
                self._note_empty()
            return True

    def succeed(
        self,
        giver: Attempt,
        asks: Attempt | None = None,
        spare: Spare | None = None,
        *,
        keeps: bool = False,
    ) -> bool:
        """Make the next waiter the front, with a question or a lease, and notify it.

        False when none waits: then the tenure ends, unless the giver ``keeps`` being its front; and
        when the front changed before without what ``asks``. A second call finishes what an
        interrupt left half done.
        """
        with self._port.mutex:
            if self.front is giver:
                if not self.waiting:
                    if not keeps:
                        self.end()
                    return False
                heir = self._heir()
                self.asks, self.spare = asks, spare
                if asks is not None:
                    asks.continued_by = heir
                self.front = heir
            front = self.front
            if front is not None and not front.held:
                self._notify(front)
            done = asks is None or self._delivered(asks, giver)
        return done

    @staticmethod
    def _delivered(asks: Attempt, giver: Attempt) -> bool:
        """Return True if a question was given to another waiter, which undoes it if need be."""
        return asks.continued_by is not None and asks.continued_by is not giver

    def _heir(self) -> Hold:
        """Return the waiter that comes next: the first that came."""
        return self.waiting[0]

    def end(self) -> None:
        """End the tenure; call under the mutex."""
        front, self.front, self.asks, self.spare = self.front, None, None, None
        if self.linger:
            self._lines.holders.pop(self.holder, None)
            if front is not None and front.held and front.bucket is not None:  # its handle is gone
                self._lines.holders[self.holder] = front
        lines, key = self._lines, self.terms.cohort
        stands = lines.cohorts.get(key)
        if stands is self or getattr(stands, "tenure", None) is self:  # ``join`` was interrupted
            del lines.cohorts[key]
        if lines.crowded:
            lines.crowded.pop(self, None)

    def _notify(self, front: Attempt) -> None:
        waiting = self.waiting
        if waiting and waiting[0] is front:
            waiting.popleft()
            self._note_empty()
        if front.local and not front.news:
            front.news = True
            self._port.wake(front)

    def _note_empty(self) -> None:
        if not self.waiting:
            self._lines.crowded.pop(self, None)

    # -- turns --------------------------------------------------------------------------------

    def turn(self) -> tuple[Hold, float] | None:
        """Return whose turn it is, and since when; None while the front asks the server.

        A turn that was given and has not begun is one from ``inf`` on.
        """
        front = self.front
        if front is not None and front.held:
            return front, front.granted_at
        return None if front is None or self.spare is None else (front, inf)

    def begin(self, hold: Hold, grant: Grant, *, fresh: bool) -> None:
        """Note that the front has a hold now; call under the mutex.

        ``fresh``: the server granted it just now.
        """
        if fresh:
            self.turns, self.ends, self.lease = 1, grant.deadline, grant.lease
            if self.linger:
                self.least_kept = validity(grant.lease) * KEPT_PART
                lines = self._lines
                lines.holders.pop(self.holder, None)
                self.holder = hold.holder_id
                lines.holders[self.holder] = self
                self.recalled = lines.recalls.came_before(self.holder)
                self.may_grow = False
        self.front = hold
        self.asks = self.spare = None

    def retain(self, hold: Hold) -> bool:
        """Pass the turn of a hold on, or keep its lease; False when it must be released."""
        if not (self.waiting or self.linger) or hold.forked:
            return False
        port = self._port
        with port.mutex:
            if self.front is not hold or hold.last or hold.owed or hold.loss is not None:
                return False  # something has ended the lease, or may leave it longer than its turns
            now, watched = port.now(), self.watched
            length = self.lease if hold.short else hold.ttl  # as the server granted or renewed it
            if self.waiting:
                retained = self.pass_on(hold, now, length)
            else:  # perhaps the last waiter has just given up
                retained = self.linger > 0 and self.keep(hold, now, length)
        if self.watched is not watched:
            port.attend_by(self.kept_until)
        return retained

    def pass_on(self, hold: Hold, now: float, length: float) -> bool:
        """End a turn and give the next waiter its turn; False when the server must be asked."""
        if not self._may_pass(hold, now, length):
            return False
        if self.linger:
            self.may_grow = self._may_grow(hold)
        spare = self._end_turn(hold, length)
        self.turns += 1
        return self.succeed(hold, spare=spare)

    def _may_pass(self, hold: Hold, now: float, length: float) -> bool:
        """Return True if the next waiter may have a turn without asking the server."""
        part = RENEWED_PART if self.terms.steady else FIXED_PART
        return (
            hold.deadline - now >= validity(length) * part
            and self.turns < self.bound.turns
            and now < self._until()
            and not self.recalled
        )

    def _until(self) -> float:
        """Return when the last turn is passed on: at the pace of those before it ends by the bound.

        Counted from the earliest instant at which the server can have granted the lease.
        """
        turns = self.turns
        return self.ends - validity(self.lease) + self.bound.seconds * turns / (turns + 1)

    def _end_turn(self, hold: Hold, length: float) -> Spare:
        """End a turn whose lease goes on, and return that lease; call under the mutex."""
        self._port.renewals.discard(hold)
        hold.open, hold.released, hold.passes = False, True, True
        hold.port = None
        turn = record(Grant, (next_fence(hold.fence), hold.deadline, length))
        return record(Spare, (hold, turn, False, True))

    def passed(self, hold: Hold) -> bool:
        """Return True if the turn of a hold was passed on, or its lease is kept.

        Not if an interrupt ended the tenure in between: then the lease is no other's.
        """
        return hold.passes and self.front is not hold and (self.front or self.spare) is not None

    def for_next(self, hold: Hold) -> Attempt | None:
        """Return what asks for the next waiter while the holder releases; None when none waits."""
        with self._port.mutex:
            if self.front is not hold:
                return None
            if not self.waiting:
                self.end()
                return None
            heir = self._heir()
            asks = heir.anew(self._port.new_id(), len(self.waiting) - 1)
            asks.waits_since, asks.releases, asks.eager = heir.arrived_at, hold, True
            asks.began_at = self._port.now()
            return asks

    # -- a lease that is not in use -----------------------------------------------------------

    def keep(self, hold: Hold, now: float, length: float) -> bool:
        """End a turn and keep its lease; False when it must be released."""
        if not self._may_keep(hold, now, length):
            return False
        self.kept_until = now + self.linger
        if not self.watched:
            self._watch(self.kept_until)
        self.spare = self._end_turn(hold, length)
        self.front = None
        return True

    def _may_keep(self, hold: Hold, now: float, length: float) -> bool:
        """Return True if a lease may stay with this client, which does not use it."""
        left, lines = hold.deadline - now, self._lines
        recalls = lines.recalls
        return (
            not self.recalled
            and self.turns < FENCE_ROOM
            and self.least_kept + self.linger <= left <= HANDOFF_TTL_SECONDS
            and left <= validity(length)
            and self._port.hears
            and not self._may_grow(hold)
            and not lines.closed
            and not (recalls.vain and recalls.paused(self.terms.cohort, now))
        )

    def _may_grow(self, hold: Hold) -> bool:
        """Return True if a renewal of this lease may still run: an idle one must stay short."""
        return self.may_grow or hold.may_grow or self._port.renewals.is_under_way(hold)

    def _watch(self, when: float) -> None:
        self.watched = True
        self._port.renewals.watch(self, when)

    def take_kept(self, attempt: Hold) -> bool:
        """Make a waiter the front, with a turn of a kept lease; False when that proves too little.

        Call it under the mutex, while there is no front.
        """
        kept = self.spare
        if kept is None or kept.turn.deadline - self._port.now() < self.least_kept:
            return False
        self.turns += 1
        recalls = self._lines.recalls
        if recalls.vain:
            recalls.used(self.terms.cohort)
        self.front = attempt
        return True

    def give_up(self) -> Spare | None:
        """End the tenure of a lease that is not in use, and return it; call under the mutex."""
        kept = self.kept
        if kept is not None:
            self.end()
        return kept

    def recall(self, now: float) -> Spare | None:
        """End the tenure when it is idle, after this turn otherwise; call under the mutex."""
        if not self.recalled:
            self._lines.recalls.recalled(self.terms.cohort, now)
        self.recalled = True
        return self.give_up()

    def overdue(self, now: float) -> Spare | None:
        """Return the lease when it was idle for too long; call under the mutex."""
        self.watched = False
        if self.kept is not None and now < self.kept_until:
            self._watch(self.kept_until)
            return None
        return self.give_up()


def next_fence(fence: int) -> int:
    """Return the fence of the turn after the one with this fence (I3)."""
    return fence + 1


def join(port: Engine, attempt: Hold) -> None:
    """Add an attempt to its client's tenure; without a front, it becomes the front."""
    tenures, key = port.lines.cohorts, attempt.terms.cohort
    with port.mutex:
        stands = tenures.get(key)
        if isinstance(stands, Tenure):
            tenure = stands
        elif stands is None:
            tenure = Tenure(port, attempt.terms)
        else:  # it is alone
            tenure = stands.tenure or Tenure.of(port, stands)
        spent = tenure.join(attempt)
        tenures[key] = tenure
    if spent is not None:
        port.run_in_background(*spent.release)


def try_kept(port: Engine, attempt: Hold) -> Tenure | None:
    """Make a try the front of its client's tenure if a lease is kept; None when none is."""
    with port.mutex:
        tenure = port.lines.cohorts.get(attempt.terms.cohort)
        if not isinstance(tenure, Tenure) or tenure.kept is None:
            return None
        attempt.tenure = tenure
        if tenure.take_kept(attempt):
            return tenure
        spent = tenure.give_up()
    if spent is not None:
        port.run_in_background(*spent.release)
    return None


def found(port: Engine, attempt: Hold) -> None:
    """Make a try that was granted the front of a tenure if there is none: its lease may be kept."""
    tenures = port.lines.cohorts
    with port.mutex:
        if attempt.terms.cohort not in tenures:
            tenures[attempt.terms.cohort] = Tenure.of(port, attempt)


def tenure_of(port: Engine, holder: bytes) -> Tenure | None:
    """Return the tenure of a lease that may be kept; call under the mutex."""
    found = port.lines.holders.get(holder)
    return found if isinstance(found, Tenure) else None


def revoke(port: Engine, holder: bytes, reason: str | None) -> Sequence[Hold]:
    """Take note that an operator revoked a lease, and return the holds that it is about.

    From here on no turn of it is passed on or kept, and one that has not begun is lost as it does.
    Without a reason it is not known whether it was revoked: a lease that is kept is given back.
    """
    kept = None
    with port.mutex:
        hit = port.renewals.held_as(holder)
        for hold in hit:
            hold.last = True
        if not hit:
            port.lines.remember_revoked(holder, reason)
            tenure = tenure_of(port, holder)
            if tenure is not None:
                kept = tenure.give_up()
    if kept is not None and reason is None:
        port.run_in_background(*kept.release)
    return hit


# -- recalls, and leases that were idle for too long ----------------------------------------------


def recall(port: Engine, holder: bytes, channel: bytes, who: bytes) -> None:
    """Take a recall: release an idle lease at once, and answer a try if the lease is in use."""
    lines = port.lines
    with port.mutex:
        line = tenure_of(port, holder)
        if line is None:
            lines.recalls.early(holder)
            return
        kept = line.recall(port.now())
    if kept is not None:
        port.run_in_background(*kept.release)
    elif who.startswith(TRIES):
        port.run_in_background(ANSWER, line.terms.keys.plain, (channel, who, b"busy"))
    if events.hooks:
        events.recalled(port, line.terms)


def asked(port: Engine, holder: bytes, channel: bytes, who: bytes) -> None:
    """Answer whether the lease of a tenure is in use; of one that is not known, nothing."""
    with port.mutex:
        line = tenure_of(port, holder)
    if line is not None:
        port.run_in_background(ANSWER, line.terms.keys.plain, (channel, who, _state(line)))


def _state(line: Tenure) -> bytes:
    return b"idle" if line.kept is not None else b"busy"


def give_up_due(port: Engine, now: float) -> None:
    """Release the idle leases whose time is up."""
    with port.mutex:
        lines = port.renewals.overdue(now)
        released = [kept for line in lines if (kept := line.overdue(now)) is not None]
    for kept in released:
        port.run_in_background(*kept.release)


def give_up_all(port: Engine) -> bool:
    """Release all idle leases; False when there are none that may be kept."""
    with port.mutex:
        lines = [each for each in port.lines.holders.values() if isinstance(each, Tenure)]
        released = [kept for line in lines if (kept := line.give_up()) is not None]
    for kept in released:
        port.run_in_background(*kept.release)
    return bool(lines)
