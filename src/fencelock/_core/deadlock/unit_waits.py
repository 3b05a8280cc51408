"""What the threads and tasks of one process wait for.

Rules of this file:

- A *unit* is a thread or a task. It waits for one lock at a time; a wait is one call of acquire,
  from its first pause to its end, and has an id that no other wait has.
- The table is of the process, not of a client: one unit may use several clients.
- A unit is entered when it begins to wait. An interrupt may leave an entry behind, so an entry
  counts only while its waiter still stands in a line.
- Nothing here sends: see chase.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from math import inf
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.renewal_schedule import RenewalSchedule
from fencelock._core.lock.terms import SHARES
from fencelock._core.lock.waiting import Lines
from fencelock._core.wire import Wire

# A wait looks again after so long, and then after twice as long each time, up to the last one. The
# wait that closed a cycle finds it when it looks first: more is needed when a message was lost.
AGAIN_SECONDS = 1.0
AGAIN_SECONDS_MAX = 4.0
# One for a hold of its own thread or task looks at once, and again after so long: at first its
# client may not hear probes. Only so many leases are compared: each wait pays for that.
OWN_AGAIN_SECONDS = 0.05
OWN_SOUGHT_MAX = 32
# How many probes are remembered, so that each passes a wait only once.
PASSED_MAX = 1000
SEMAPHORE: Final = b"semaphore"  # the kind, as in semaphore_rwlock.py, which imports the port


class Tables(Wire, Protocol):
    """A client's wire, and what the client keeps of its waits and leases."""

    lines: Lines  # this client's waiters
    renewals: RenewalSchedule  # when which lease is due
    waits: UnitWaits  # what the threads and tasks of this process wait for


class UnitWait:
    """One acquisition that waits, and the thread or task that makes it."""

    # Class attributes until something happens: most waits are over before they look.
    before: UnitWait | None = None  # that a signal handler's wait interrupts
    pause: float = AGAIN_SECONDS
    patient: bool = True  # it has no timeout
    searches: int = 0  # how often it has looked
    arrived_us: int = 0  # on the server's clock; see ``arrival``
    cycle: Any = None  # the cycle for which it is refused
    suspected: bool = False  # it is in a cycle that may end by itself, which was reported
    _frames: AbstractSet[object] | None = None

    def __init__(self, port: Tables, attempt: Attempt, asks: Attempt, due: float) -> None:
        self.port: Tables = port
        self.attempt: Attempt = attempt
        self.asks: Attempt = asks  # what waits at the server, or for the cohort
        self.due: float = due  # when it looks for a cycle
        self.id: bytes = port.new_id()

    def frames(self, *, own: bool) -> AbstractSet[object]:
        """Return the frames that wait until it ends; ``own``: its own thread or task asks.

        They stay the same, and few waits last until they matter. Others may not see them all.
        """
        if self._frames is None and own:
            self._frames = frames_of(self.attempt.unit, own=True)
        return self._frames or frames_of(self.attempt.unit, own=False)

    @property
    def stands(self) -> bool:
        """Return True if it waits now. Under the port's mutex."""
        asks = self.asks
        if asks.local:
            tenure = asks.tenure
            return tenure is not None and tenure.front is not asks and asks in tenure.waiting
        stands: bool = self.port.lines.stands(asks)
        return stands

    def arrival(self) -> int:
        """Return when it came, in microseconds of the server's clock, always the same; 0: unknown.

        The server answered this waiter, or the one for whose turn it waits. Under the port's mutex.
        """
        if not self.arrived_us:
            asks = self.asks
            if asks.local:
                known_us, at = _known_instant(asks.tenure)
                self.arrived_us = int(known_us + (asks.arrived_at - at) * 1e6) if known_us else 0
            else:
                self.arrived_us = int(asks.answered_us)
        return self.arrived_us


def _known_instant(tenure: Any) -> tuple[int, float]:
    """Return an instant of the server's clock that a cohort knows, and the same on our clock."""
    front = tenure.front
    if isinstance(front, Hold):
        return front.fence, front.granted_at  # a fence is the instant of its grant, or a bit later
    asks = tenure.asks or front
    return asks.answered_us, asks.asked_at


class UnitWaits:
    """The waits of one process, by thread or task, and the ports by which these hold locks."""

    __slots__ = ("_of", "_passed", "ports")

    def __init__(self) -> None:
        self._of: dict[Any, UnitWait] = {}
        self._passed: dict[tuple[str, bytes], None] = {}
        # In the order in which they came, so that the simulator can repeat what was done.
        self.ports: WeakKeyDictionary[Tables, None] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._of)

    def begin(self, unit: object, wait: UnitWait) -> None:
        """Enter a wait, in place of one that it interrupts: a signal handler's waits inside it."""
        wait.before = self._of.get(unit)
        self._of[unit] = wait

    def end(self, unit: object, wait: UnitWait) -> None:
        """Take a wait out, and enter the one again that it interrupted."""
        if self._of.get(unit) is not wait:
            return
        if wait.before is not None and wait.before.stands:
            self._of[unit] = wait.before
        else:
            del self._of[unit]

    def of(self, unit: object) -> UnitWait | None:
        """Return what a thread or task waits for now, or None. Under the mutex."""
        wait = self._of.get(unit)
        return wait if wait is not None and wait.stands else None

    def holds_of(self, unit: object) -> Iterator[Hold]:
        """Yield what a thread or task holds by any client. Under the mutex."""
        for port in list(self.ports):
            for hold in port.renewals.tracked():
                # Of a quorum's lease its parts count: each is at one node, as a wait is.
                if hold.whole.unit is unit and not hold.parts and is_edge(hold.whole):
                    yield hold

    def passes(self, probe: str, wait: UnitWait) -> bool:
        """Return True if a probe comes to a wait for the first time. Under the mutex."""
        key = probe, wait.id
        if key in self._passed:
            return False
        self._passed[key] = None
        if len(self._passed) > PASSED_MAX:
            del self._passed[next(iter(self._passed))]
        return True


def is_edge(hold: Hold) -> bool:
    """Return True if others may wait for the very thread or task that made this hold.

    A permit of a semaphore that no ``with`` holds is often released by others, and never counts.
    """
    if not hold.open or hold.released or hold.loss is not None or hold.terms.owned:
        return False
    if hold.terms.options.deadlock_after is None:
        return False
    terms: Any = hold.terms
    permit = terms.batch == SHARES and terms.kind == SEMAPHORE
    return hold.bound or hold.frame is not None or not permit


def is_certain(hold: Hold, frames: AbstractSet[object]) -> bool:
    """Return True if nothing but what these frames wait for can end a hold.

    Only its thread or task can release it, or one of the frames is that of its ``with``. Any other
    lock may be released by another thread, which may run the rest of a generator, too.
    """
    return hold.bound or (hold.frame is not None and hold.frame in frames)


def frames_of(unit: Any, *, own: bool) -> AbstractSet[object]:
    """Return the frames that wait for a call of a thread or task, which may ask its ``own``."""
    found: set[object] = set()
    frame: Any = None
    if own:
        frame = sys._getframe()  # noqa: SLF001 - its own callers
    elif hasattr(unit, "thread"):
        frame = sys._current_frames().get(unit.number)  # noqa: SLF001 - as said above
    while frame is not None:
        found.add((id(frame), frame.f_code))
        frame = frame.f_back
    # Python 3.11's ``wait_for`` runs the call in another task, for which this one waits.
    coroutine = unit.get_coro() if hasattr(unit, "get_coro") else None
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None)
        if frame is not None:
            found.add((id(frame), frame.f_code))
        coroutine = getattr(coroutine, "cr_await", None)
    return found


class _NoWait(UnitWait):
    """Stands for a wait that takes no part: it is never due, and never refused."""

    due = inf

    def __init__(self) -> None:
        """Do nothing: it has no waiter."""


NO_WAIT: Final = _NoWait()


def entered(port: Tables, attempt: Attempt, asks: Attempt, give_up_at: float) -> UnitWait:
    """Enter a thread or task as waiting, unless it takes no part; return its wait.

    ``asks`` is what waits: the attempt, for its cohort, or its question in the server's line.
    """
    if attempt.unit is None:
        return NO_WAIT
    wait: UnitWait | None = attempt.wait
    if wait is None:
        after = attempt.terms.options.deadlock_after or 0.0
        wait = UnitWait(port, attempt, asks, port.now() + after)
        wait.patient = give_up_at == inf
        # The holder of a cohort is known: its waiters see by themselves whether it is their own.
        known = asks.tenure is not None and isinstance(asks.tenure.front, Hold) and asks.local
        if wait.patient and not known and _is_held_by_itself(port, attempt, wait):
            wait.due, wait.pause = port.now(), OWN_AGAIN_SECONDS
        if not asks.local:
            wait.arrival()  # now: it may have to ask again
        port.waits.begin(attempt.unit, wait)
        attempt.wait = wait
    wait.asks = asks
    return wait


def _is_held_by_itself(port: Tables, attempt: Attempt, wait: UnitWait) -> bool:
    """Return True if a thread or task asks for what it holds itself, by the same client.

    Whether that keeps it from being granted, the server knows: other holders may make room.
    """
    with port.mutex:
        found = any(
            hold.terms.keys.lock == attempt.keys.lock
            and hold.whole.unit is attempt.unit
            and is_certain(hold.whole, wait.frames(own=True))
            and is_edge(hold.whole)
            for hold in port.renewals.some(OWN_SOUGHT_MAX)
        )
    return found


def left(port: Tables, attempt: Attempt) -> None:
    """Take out the wait of an acquire that ends."""
    port.waits.end(attempt.unit, attempt.wait)
    attempt.unit = attempt.wait = None
