"""The waiters of one client for one lock, which take turns without asking the server.

Rules of this file (DESIGN §9; I1, I3, I5, I8, I9):

- One of a cohort is its ``front``: a waiter that asks the server for all, or that was given a turn
  and has not begun it; or the hold of the turn that lasts. All others wait for the front to change.
- The front changes under the port's mutex, in one assignment. Whatever interrupts a thread, the
  front is either still its own, and it must give it up, or it is the next waiter's.
- A turn is passed on only within the cohort's bound, only while the lease proves what the next
  holder asked for, no less and no more, and only if no request of the tenure may still run: its
  holder id is that of all turns.
- A revocation marks the tenure in the section that reads it, whatever its front is. A marked tenure
  is neither passed on nor kept.
- A hold that was released before it could become the front never becomes it.
- Each turn has the next fence. The server leaves room for ``FENCE_ROOM`` of them.
- A waiter that gives up has nothing to undo, unless it is the front. The front leaves its place in
  the server's line to the next waiter.
- A loss, a revocation, or a deadline that passes ends the tenure for all: the next waiter asks the
  server.
- With ``linger``, the front may be a lease that is not in use; see kept.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from math import inf

from fencelock._core.deadlines import HANDOFF_TTL_SECONDS, validity
from fencelock._core.keys import LockKeys
from fencelock._core.lock.hold import Grant, Hold
from fencelock._core.lock.kept import LEAST_PART, KeptLease
from fencelock._core.lock.request import AcquireRequest, Stray
from fencelock._core.lock.waiter import Waiter
from fencelock._core.lock.waiting import Lines
from fencelock._core.port import Port
from fencelock._runtime.records import NamedTuple
from fencelock.options import Cohort
from fencelock.scripts.constants import FENCE_ROOM

# A turn begins with at least this part of the lease that the server granted: a renewed lease has
# time to be renewed, and one that is not renewed is nearly as long as its holder asked for.
RENEWED_PART = 0.5
FIXED_PART = 0.9


class Given(NamedTuple):
    """What the front gives to the next waiter: a turn, a place that asks the server, or neither."""

    turn: Grant | None = None
    source: AcquireRequest | None = None  # the request whose tenure the turn is of
    fresh: bool = False  # the server granted it just now: a tenure begins
    unchanged: bool = False  # no other client was granted the lock since the turn before
    place: Waiter | None = None
    strays: tuple[Stray, ...] = ()  # what may still come of the place's requests


NOTHING = Given()


class LocalWaiter(Waiter):
    """A waiter of a cohort: it waits for the front, and asks the server once it is the front."""

    local: bool = True  # it waits for its cohort, and not in the server's line
    line: LocalLine | None = None
    given: Given = NOTHING  # by the front before
    gave: bool = False  # something to the front after it

    def __init__(self, request: AcquireRequest, arrived_at: float) -> None:
        self.request = request
        self.arrived_at: float = arrived_at

    def takes_up(self) -> Waiter:
        """Return what asks the server from now on: what was left to it, else itself."""
        self.local, self.news, self.connection = False, False, None
        place = self.given.place
        if place is None:
            return self
        self.request.adopt(place.request)
        self.request.strays += self.given.strays
        place.request = self.request
        return place


class LocalLine:
    """The cohort of one lock: those of this client that hold or want it on the same terms."""

    __slots__ = (
        *("_lines", "front", "holder", "key", "keys", "lease", "least_kept", "linger", "most"),
        *("part", "recalled", "revoked", "seconds", "turns", "until", "waiting", "watched"),
    )

    def __init__(self, lines: Lines, request: AcquireRequest, cohort: Cohort) -> None:
        self._lines = lines
        self.keys: LockKeys = request.keys
        self.linger: float = request.options.linger
        self.holder: bytes = b""  # of the tenure, if its lease may be kept
        self.recalled: bool = False  # this turn of the tenure is the last
        self.watched: bool = False  # the renewal schedule looks whether it is idle for too long
        self.key: Hashable = request.template.cohort
        self.most: int = cohort.turns
        self.seconds: float = cohort.seconds
        # How much of its lease a turn must begin with.
        self.part: float = RENEWED_PART if request.template.steady else FIXED_PART
        self.front: LocalWaiter | Hold | KeptLease | None = None
        self.waiting: deque[LocalWaiter] = deque()
        self.turns: int = 0  # of this tenure
        self.until: float = 0.0  # no turn is passed on after it
        self.lease: float = 0.0  # seconds that the server granted
        # Of a kept lease, at least so many are left at the beginning of a turn.
        self.least_kept: float = 0.0
        self.revoked: tuple[bytes, str] | None = None  # a holder id, and an operator's reason

    # -- the front ----------------------------------------------------------------------------

    def succeed(
        self,
        port: Port,
        giver: LocalWaiter | Hold,
        given: Given = NOTHING,
        *,
        keeps: bool = False,
    ) -> bool:
        """Make the next waiter the front instead of ``giver``, and notify it.

        False when none waits: then there is no front, unless the giver ``keeps`` being it; and when
        the front changed before without what is ``given``. A second call finishes what an interrupt
        left half done.
        """
        with port.mutex():
            done = self._succeed(port, giver, given, keeps=keeps)
        return done

    def _succeed(
        self, port: Port, giver: LocalWaiter | Hold, given: Given, *, keeps: bool = False
    ) -> bool:
        """Do what ``succeed`` does; call under the mutex."""
        if self.front is giver:
            if not self.waiting:
                if not keeps:
                    self._end()
                return False
            heir = self._heir()
            heir.given = given
            giver.gave = given is not NOTHING
            self.front = heir
        if isinstance(self.front, LocalWaiter):
            self._notify(port, self.front)
        return giver.gave or given is NOTHING

    def _heir(self) -> LocalWaiter:
        """Return the waiter that comes next: the first that came."""
        return self.waiting[0]

    def _end(self) -> None:
        self.front = None
        if self.linger:
            self._lines.recalls.end(self.holder)
        if self._lines.cohorts.get(self.key) is self:
            del self._lines.cohorts[self.key]
        self._lines.crowded.pop(self, None)

    def _notify(self, port: Port, front: LocalWaiter) -> None:
        if self.waiting and self.waiting[0] is front:
            self.waiting.popleft()
            self._note_empty()
        if front.local and not front.news:
            front.news = True
            port.wake(front)

    def leave(self, port: Port, waiter: LocalWaiter) -> bool:
        """Take out a waiter that gives up; False when it has become the front."""
        with port.mutex():
            if self.front is waiter:
                return False
            if waiter in self.waiting:
                self.waiting.remove(waiter)
                self._note_empty()
            return True

    def add(self, waiter: LocalWaiter) -> None:
        """Add a waiter behind the others; call under the mutex."""
        self._lines.crowded[self] = None  # first: an interrupt leaves no waiter uncounted
        self.waiting.append(waiter)

    def _note_empty(self) -> None:
        if not self.waiting:
            self._lines.crowded.pop(self, None)

    # -- turns --------------------------------------------------------------------------------

    def turn(self) -> tuple[AcquireRequest, float] | None:
        """Return whose turn it is, and since when; None while the front asks the server.

        A turn that was given and has not begun is one from ``inf`` on.
        """
        front = self.front
        if isinstance(front, Hold):
            return front.request, front.granted_at
        if isinstance(front, LocalWaiter) and front.given.turn is not None:
            return front.request, inf
        return None

    def begin(self, port: Port, hold: Hold, grant: Grant, *, fresh: bool) -> None:
        """Note that the front has a hold now; ``fresh``: the server granted it just now."""
        with port.mutex():
            if fresh:
                # Counted from the earliest instant at which the server can have granted it.
                proved = validity(grant.lease)
                self.until = grant.deadline - proved + self.seconds
                self.turns, self.lease = 1, grant.lease
                self.least_kept = proved * LEAST_PART
                if self.linger:
                    self._begin_tenure(hold.request.holder)
            hold.cohort = self
            self.front = hold
            revoked = self.revoked
            over = not hold.open  # another thread released it, or its handle is gone
        if fresh and self.linger and not port.hears:
            port.hear_soon()
        if revoked is not None and revoked[0] == hold.request.holder:
            hold.lose("revoked", port.now(), revoked[1])
        if over or hold.loss is not None:
            self.succeed(port, hold)

    def _begin_tenure(self, holder: bytes) -> None:
        """Note a tenure whose lease may be kept."""
        recalls = self._lines.recalls
        recalls.end(self.holder)
        self.holder = holder
        self.recalled = recalls.begin(holder, self)

    def pass_on(self, port: Port, hold: Hold) -> bool:
        """End a turn and give the next waiter its turn; False when the server must be asked."""
        if not self.waiting:
            return False
        with port.mutex():
            length = self._length(hold)
            if self.front is not hold or not self._may_pass(port, hold, length):
                return False
            _end_turn(port, hold)
            self.turns += 1
            turn = Grant(next_fence(hold.fence), hold.deadline, length)
            passed = self._succeed(port, hold, Given(turn, hold.request, unchanged=True))
        return passed

    def _may_pass(self, port: Port, hold: Hold, length: float) -> bool:
        """Return True if the next waiter may have a turn without asking the server."""
        now = port.now()
        return (
            bool(self.waiting)
            and not self.recalled
            and self.turns < self.most
            and now < self.until
            and validity(length) * self.part <= hold.deadline - now <= validity(length)
            and self._is_undisturbed(port, hold)
        )

    def _length(self, hold: Hold) -> float:
        """Return for how long the server granted the lease, or renewed it."""
        return self.lease if hold.short else hold.request.ttl

    def passed(self, hold: Hold) -> bool:
        """Return True if the turn of a hold was passed on: its holder id is another's now."""
        return hold.passes and self.front is not hold

    def for_next(self, port: Port, hold: Hold) -> Waiter | None:
        """Return what asks for the next waiter while the holder releases; None when none waits."""
        with port.mutex():
            if self.front is not hold:
                return None
            if not self.waiting:
                self._end()
                return None
            heir = self._heir()
            place = Waiter(heir.request.anew(port.new_id(), len(self.waiting) - 1))
            place.waits_since, place.releases = heir.arrived_at, hold.request
            return place

    # -- a lease that is not in use; see kept.py ----------------------------------------------

    def keep(self, port: Port, hold: Hold) -> bool:
        """End a turn and keep its lease; False when it must be released."""
        if not self.linger:
            return False
        with port.mutex():
            if self.front is not hold or not self._may_keep(port, hold):
                return False
            kept = KeptLease(hold, port.now() + self.linger, self._length(hold))
            watch = not self.watched
            if watch:
                self._watch(port, kept.until)
            _end_turn(port, hold)
            self.front = kept
        if watch:
            port.attend_by(kept.until)
        return True

    def _may_keep(self, port: Port, hold: Hold) -> bool:
        """Return True if a lease may stay with this client, which does not use it."""
        now, lines = port.now(), self._lines
        left = hold.deadline - now
        return (
            not self.waiting
            and not self.recalled
            and self.turns < FENCE_ROOM
            and self.least_kept + self.linger <= left <= HANDOFF_TTL_SECONDS
            and left <= validity(self._length(hold))
            and port.hears
            and not hold.failures
            and not lines.closed
            and not lines.recalls.paused(self.key, now)
            and self._is_undisturbed(port, hold)
        )

    def _is_undisturbed(self, port: Port, hold: Hold) -> bool:
        """Return True if the tenure was not revoked, and no request can still change its lease."""
        holder = hold.request.holder
        revoked = self.revoked is not None and self.revoked[0] == holder
        renewing = (
            hold.limited(port.now()) or hold.asked_until > 0 or hold in port.renewals.under_way
        )
        return not (revoked or renewing or hold.request.strays) and hold.loss is None

    def _watch(self, port: Port, when: float) -> None:
        self.watched = True
        port.renewals.watch(self, when)

    def take_kept(self, port: Port, kept: KeptLease, waiter: LocalWaiter) -> bool:
        """Make a waiter the front, with a turn of a kept lease; False when that proves too little.

        Call it under the mutex.
        """
        if kept.deadline - port.now() < self.least_kept:
            return False
        self.turns += 1
        self._lines.recalls.used(self.key)
        turn = Grant(next_fence(kept.fence), kept.deadline, kept.lease)
        waiter.given = Given(turn, kept.request, unchanged=True)
        self.front = waiter
        return True

    def give_up(self) -> KeptLease | None:
        """End the tenure of a lease that is not in use, and return it; call under the mutex."""
        kept = self.front
        if not isinstance(kept, KeptLease):
            return None
        self._end()
        return kept

    def recall(self, now: float) -> KeptLease | None:
        """End the tenure when it is idle, after this turn otherwise; call under the mutex."""
        if not self.recalled:
            self._lines.recalls.recalled(self.key, now)
        self.recalled = True
        return self.give_up()

    def overdue(self, port: Port, now: float) -> KeptLease | None:
        """Return the lease when it was idle for too long; call under the mutex."""
        kept, self.watched = self.front, False
        if isinstance(kept, KeptLease) and now < kept.until:
            self._watch(port, kept.until)
            return None
        return self.give_up()


def next_fence(fence: int) -> int:
    """Return the fence of the turn after the one with this fence (I3)."""
    return fence + 1


def _end_turn(port: Port, hold: Hold) -> None:
    """End a turn whose tenure goes on; call under the mutex."""
    port.renewals.discard(hold)
    hold.open, hold.released, hold.passes = False, True, True
    hold.port = None


def join(port: Port, waiter: LocalWaiter, cohort: Cohort) -> LocalLine:
    """Add a waiter to its cohort; without a front, it becomes the front."""
    lines, request, spent = port.lines.cohorts, waiter.request, None
    with port.mutex():
        line = waiter.line = lines.get(request.template.cohort) or LocalLine(
            port.lines, request, cohort
        )
        if line.front is None:
            line.front = waiter
            lines[line.key] = line
        elif isinstance(line.front, KeptLease):
            if not line.take_kept(port, line.front, waiter):
                spent, line.front = line.front, waiter
        else:
            waiter.waits_since = waiter.arrived_at
            line.add(waiter)
    if spent is not None:
        port.run_in_background(*spent.release)
    return line


def try_kept(port: Port, waiter: LocalWaiter) -> LocalLine | None:
    """Make a waiter that tries the front of its cohort if a lease is kept; None when none is."""
    with port.mutex():
        line: LocalLine | None = port.lines.cohorts.get(waiter.request.template.cohort)
        if line is None or not isinstance(line.front, KeptLease):
            return None
        waiter.line = line
        if line.take_kept(port, line.front, waiter):
            return line
        waiter.line, spent = None, line.give_up()
    if spent is not None:
        port.run_in_background(*spent.release)
    return None


def found(port: Port, hold: Hold, grant: Grant, cohort: Cohort) -> None:
    """Make the hold of a try the front of its cohort if there is none: its lease may be kept."""
    lines, request = port.lines.cohorts, hold.request
    with port.mutex():
        if request.template.cohort in lines:
            return
        line = LocalLine(port.lines, request, cohort)
        hold.cohort = line
        line.front = hold
        lines[line.key] = line
    line.begin(port, hold, grant, fresh=True)


def revoke(lines: dict[Hashable, LocalLine], holder: bytes, reason: str) -> None:
    """Mark the tenure that an operator revoked, whatever its front is; call under the mutex."""
    for line in list(lines.values()):
        front = line.front
        if front is None:
            continue
        source = front.given.source if isinstance(front, LocalWaiter) else front.request
        if source is not None and source.holder == holder:
            line.revoked = holder, reason
            line.give_up()
