"""The lines in which this client's waiters queue, and when their next heartbeat is due (I6, I7).

Rules of this file:

- A wake-up is a hint: every wait has a bound, and at the bound a waiter sends a heartbeat.
- One waiter sends it for all of the client, in one command; the others see that it was done.
- While the line moves there is no need to ask: each message about a lock postpones its next
  heartbeat, but not for so long that waiters in a long line would be considered dead.
- A heartbeat covers the waiter's own line, and others that are due within a quarter of their own
  pause, the longest overdue first. So no line is asked about more often than its pause says, and
  none is left out because there are many.
- A refusal may be about one of the lines: each of them asks alone next, and at once. So a waiter
  that is refused learns it soon, and none is refused for another's line.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import nsmallest
from math import inf

from fencelock._core.deadlines import (
    FOREIGN_LATER_SECONDS,
    FOREIGN_SECONDS,
    HEARTBEAT_SECONDS,
    HEARTBEAT_SECONDS_MAX,
)
from fencelock._core.lock.attempt import Attempt
from fencelock._core.seat import Seat
from fencelock._core.types import Call, Reply
from fencelock._runtime.typed import TYPE_CHECKING, Any, TypeAlias, TypeVar
from fencelock.scripts import Script

if TYPE_CHECKING:
    from fencelock._core.lock.hold import Hold
    from fencelock._core.lock.tenure import Tenure

K = TypeVar("K")
V = TypeVar("V")

# What a message may be about, by its holder id; see ``Lines.holders``.
Known: TypeAlias = "Tenure | Hold | dict[Hold, None]"

# How many entries of one line a heartbeat covers: the first ones; later ones follow in their turn.
ENTRIES_PER_HEARTBEAT = 64
LOCKS_PER_HEARTBEAT = 100
# A client's first waiter asks for all of them; later ones wait this much longer before they ask.
LATER_WAITER_SECONDS = 0.5
# The first waiter's client asks about an expired lease this long after its end.
EXPIRY_SLACK = 0.005
# The pause of a line whose heartbeat was refused together with others'.
ALONE = 0.0
# Clients further back wait a little longer: not all should ask at once when a holder dies.
STAGGER_SECONDS = 0.02
STAGGER_MAX = 1.0


class Line:
    """What this client knows of one lock's line, or of those that wait for a state.

    Its waiters are in order of arrival.
    """

    __slots__ = ("foreign", "heartbeat_at", "owes", "pause", "proved_at", "waiters")

    def __init__(self, proved_at: float = 0.0) -> None:
        self.waiters: dict[Any, None] = {}
        self.heartbeat_at: float = 0.0
        # The usual time between two heartbeats; or ALONE, until it is answered again.
        self.pause: float = HEARTBEAT_SECONDS
        self.foreign: bool = False  # the holder is no fencelock client
        # When the server last heard of all waiters: an arrival or a heartbeat.
        self.proved_at: float = proved_at
        # Of a state: a waiter that left has kept our channel on the list, for the others.
        self.owes: bool = False

    def postpone(
        self,
        now: float,
        pttl_ms: int,
        position: int,
        *,
        foreign: bool,
        jitter: float = 0.0,
        crowd: int = 1,
    ) -> None:
        """Set the next heartbeat from the server's answer.

        ``jitter`` in [0, 1) takes off up to a quarter: clients that arrived together drift apart.
        ``crowd`` is the number of this client's lines with a foreign holder.
        """
        self.foreign, self.pause = foreign, HEARTBEAT_SECONDS
        if foreign:  # it announces no release: one command covers so many locks in each pause
            pause = FOREIGN_SECONDS if position <= 0 else FOREIGN_LATER_SECONDS
            pause = max(pause, FOREIGN_SECONDS * crowd / LOCKS_PER_HEARTBEAT)
            self.pause = min(HEARTBEAT_SECONDS, pause)
            self.heartbeat_at = now + self.pause
            return
        self.heartbeat_at = now + HEARTBEAT_SECONDS * (1 - jitter / 4)
        if pttl_ms >= 0:
            behind = min(STAGGER_MAX, STAGGER_SECONDS * max(0, position))
            self.heartbeat_at = min(self.heartbeat_at, now + pttl_ms / 1000 + EXPIRY_SLACK + behind)

    def bound(self, waiter: Seat) -> float:
        """Return until when this waiter may sleep: until a heartbeat is due."""
        first = next(iter(self.waiters), waiter)
        return self.heartbeat_at if waiter is first else self.heartbeat_at + LATER_WAITER_SECONDS


# A line with a heartbeat due, and its first waiters.
Due = tuple[Line, list[Attempt]]


# How long a try waits for the answer to a recall: a busy client answers within milliseconds.
RECALL_SECONDS = 0.25
# After so many recalls without use in between, a lock is not kept for so long. NFS servers wait 30
# to 60 s after the recall of a delegation.
RECALLS_IN_VAIN = 2
PAUSE_SECONDS = 30.0
# So many recalls are remembered, and locks that were recalled; given-up requests, so that a late
# grant can be given back; and revocations that came before their grant was known.
REMEMBERED_MAX = 1000


class Recalls:
    """The recalls of one client; use under the mutex."""

    __slots__ = ("_early", "vain")

    def __init__(self) -> None:
        self._early: dict[bytes, None] = {}  # ids that were recalled before their grant was known
        # Recalls of a cohort; not kept until. Seldom are there any: else not even a call is made.
        self.vain: dict[Hashable, tuple[int, float]] = {}

    def came_before(self, holder: bytes) -> bool:
        """Return True if a tenure was recalled before it was known; it counts once."""
        return self._early.pop(holder, self) is None

    def early(self, holder: bytes) -> None:
        """Remember a recall that no tenure is known for."""
        self._early[holder] = None
        _shorten(self._early)

    def used(self, key: Hashable) -> None:
        """Note that a kept lease was taken again."""
        self.vain.pop(key, None)

    def recalled(self, key: Hashable, now: float) -> None:
        """Count a recall of a cohort's tenure."""
        count = self.vain.get(key, (0, 0.0))[0] + 1
        until = now + PAUSE_SECONDS if count >= RECALLS_IN_VAIN else 0.0
        self.vain.pop(key, None)  # the latest is the last to be forgotten
        self.vain[key] = count, until
        _shorten(self.vain)

    def paused(self, key: Hashable, now: float) -> bool:
        """Return True if a cohort's lock is not kept now; after the pause, count afresh."""
        until = self.vain.get(key, (0, 0.0))[1]
        if until and now >= until:
            del self.vain[key]
        return now < until


def _shorten(table: dict[K, V]) -> None:
    if len(table) > REMEMBERED_MAX:
        del table[next(iter(table))]


class Lines:
    """The lines of this client's waiters, by the lock's key, and the states it waits for."""

    __slots__ = (
        *("by_key", "closed", "cohorts", "crowded", "foreign", "given_up", "holders"),
        *("log_waits_after", "puzzled", "recalls", "renews", "revoked", "told", "watches"),
    )

    def __init__(self) -> None:
        self.by_key: dict[bytes, Line] = {}
        self.foreign: int = 0  # lines with a foreign holder, when they were last counted
        self.given_up: dict[bytes, Call] = {}  # what undoes a request that was given up, by its id
        # Holder ids, whose holds have not begun, and an operator's reason.
        self.revoked: dict[bytes, str | None] = {}
        self.watches: dict[bytes, Line] = {}  # by the key of a state
        # What of this client holds or wants a lock: one that is alone, or a tenure; see tenure.py.
        self.cohorts: dict[Hashable, Tenure | Hold] = {}
        # What a message is about, by the holder id that it names: a hold, all those of an explicit
        # owner, or the tenure of a lease that may be kept. For new holds see ``held_as``.
        self.holders: dict[bytes, Known] = {}
        # The tenures that have waiters, which are counted whenever the renewal thread rests.
        self.crowded: dict[Tenure, None] = {}
        self.recalls: Recalls = Recalls()
        self.closed: bool = False  # those that wait for their cohort get an error
        self.puzzled: bool = False  # a message that does not parse was logged
        self.log_waits_after: float = inf  # see long_waits.py
        # By the lock's key, which line of the log comes next, and when.
        self.told: dict[bytes, tuple[int, float]] = {}
        self.renews: bool = False  # the server let this client run the renewal of ``Poll``

    def __len__(self) -> int:
        local = sum(len(cohort.waiting) for cohort in list(self.crowded))
        return len(self.by_key) + len(self.watches) + local

    def stands(self, waiter: Attempt) -> bool:
        """Return True if a waiter is in its lock's line; call under the mutex."""
        line = self.by_key.get(waiter.terms.keys.lock)
        return line is not None and waiter in line.waiters

    def join(self, waiter: Attempt) -> Line:
        """Add a waiter; call under the mutex."""
        # First: after an interrupt the waiter must still leave its line.
        waiter.stood = waiter.placed = True
        key = waiter.terms.keys.lock
        line = self.by_key.get(key)
        if line is None:
            line = self.by_key[key] = Line(waiter.asked_at)
        line.waiters[waiter] = None
        return line

    def enter(self, asks: Attempt, reply: Reply, now: float, jitter: float) -> None:
        """Note the place that a question was answered with; call under the mutex."""
        now_us, pttl_ms, asks.ahead, foreign, _ = reply
        asked_at = asks.sent_at
        if asks.outlasts:
            asks.latest = inf  # a later answer has its own time
        asks.answered(asked_at, now_us, now)
        line = self.join(asks)
        if len(line.waiters) == 1:
            line.postpone(asked_at, pttl_ms, asks.ahead, foreign=foreign == 1, jitter=jitter)
            if asks.recalls:  # the message may be lost: a heartbeat repeats it
                line.heartbeat_at = min(line.heartbeat_at, asked_at + RECALL_SECONDS)

    def leave(self, waiter: Attempt, now: float) -> None:
        """Remove a waiter; call under the mutex. The others learn that the line moved.

        A second call finishes what an interrupt left half done.
        """
        line = self.by_key.get(waiter.terms.keys.lock)
        if line is None:
            return
        stood = line.waiters.pop(waiter, waiter) is None
        if not line.waiters:
            self.by_key.pop(waiter.terms.keys.lock, None)
        elif stood and waiter.grant is not None:  # granted: the line moves
            later = min(now + HEARTBEAT_SECONDS, line.proved_at + HEARTBEAT_SECONDS_MAX)
            line.heartbeat_at = max(line.heartbeat_at, later)

    def give_up(self, one: Attempt) -> None:
        """Remember what undoes a request that was given up: a frozen server may still grant it."""
        self.given_up[one.id] = one.terms.abandon(one)
        _shorten(self.given_up)

    def remember_revoked(self, holder: bytes, reason: str | None) -> None:
        """Remember a revocation that no hold is known for; call under the mutex.

        Without a reason it is not known whether there was one.
        """
        self.revoked[holder] = reason
        _shorten(self.revoked)

    def note_told(self, key: bytes, step: int, due: float) -> None:
        """Note that a line of the log said that a lock is waited for; call under the mutex."""
        self.told.pop(key, None)
        self.told[key] = step, due
        _shorten(self.told)

    def due(
        self,
        now: float,
        alive: Script,
        own: Attempt | None = None,
        near: Callable[[bytes], bool] | None = None,
    ) -> list[Due]:
        """Claim the lines whose heartbeat is due soon, with their first waiters; under the mutex.

        That of ``own`` first, if it is due, then the longest overdue. Only those of this script,
        and whose key is ``near``.
        """
        self.foreign = sum(line.foreign for line in self.by_key.values())
        mine = None if own is None else self.by_key.get(own.key)
        fit: list[Line] = []
        lines = self.by_key.values() if mine is None or mine.pause != ALONE else (mine,)
        for line in lines:
            shared = line is mine or line.pause != ALONE
            if shared and line.heartbeat_at <= now + line.pause / 4 and line.waiters:
                first = next(iter(line.waiters))
                if first.terms.alive is alive and (near is None or near(first.key)):
                    fit.append(line)
        fit = nsmallest(
            LOCKS_PER_HEARTBEAT, fit, key=lambda each: (each is not mine, each.heartbeat_at)
        )
        for line in fit:
            line.heartbeat_at, line.proved_at = now + HEARTBEAT_SECONDS, now
        return [(line, list(line.waiters)[:ENTRIES_PER_HEARTBEAT]) for line in fit]

    def close(self, wake: Callable[[Attempt], None]) -> None:
        """Wake those that wait for their cohort, for an error; call under the mutex."""
        self.closed = True
        for waiter in [each for tenure in self.crowded for each in tenure.waiting]:
            waiter.news = True
            wake(waiter)

    def all_waiters(self) -> list[Seat]:
        """Return every waiter; call under the mutex."""
        places: list[Seat] = [each for line in self.by_key.values() for each in line.waiters]
        return places + [each for watch in self.watches.values() for each in watch.waiters]
