"""What the threads and tasks of one process wait for, and the probes that find a cycle of waits.

Rules of this file:

- A *unit* is a thread or a task. It waits for one lock at a time; a wait is one call of acquire,
  from its first pause to its end, and has an id that no other wait has.
- The table is of the process, not of a client: one unit may use several clients.
- A unit is entered when it begins to wait; a thread whose client holds nothing, or has the lock
  already, once the first moment has brought no grant or turn. An interrupt may leave an entry
  behind, so an entry counts only while its waiter still stands in a line.

Deadlocks are found by probes from each wait to what it waits for (Chandy, Misra and Haas, 1983).
A wait that lasts sends a probe to the client that holds its lock. If the thread or task that made
that hold waits, too, the probe goes on; if it comes back to the wait that sent it, there may be a
cycle.

- The first round only suspects. The second follows the same path and no other: each wait and each
  turn has an id that no other one has, so what both rounds saw lasted all the time in between. Then
  all edges existed at the instant between the rounds, and the cycle is a true one.
- A wait refuses only itself, and only as the youngest of its cycle. So of a cycle one wait is
  refused, whichever looks. It closed the cycle as it began, so it finds it when it looks first.
- A wait is refused only if all edges of its cycle are certain: see ``is_certain``, and the scripts.
  Another cycle is reported, once for each wait, and left alone.
- A thread that waits for its own hold is refused only if that is certain, and if no timeout ends
  the wait: then no other wait is held up. Else it is reported, as any cycle.
- A message may be lost, and a probe may be given up anywhere: that costs time, as the wait looks
  again. The server keeps nothing.
- Only a unit that holds something looks: no other can be in a cycle.
- A probe is the path that it took, one step for each wait and the hold that blocks it. Every user
  that may publish can send anything, so a message is read as a whole before it counts. It has a
  bound: a path that grows beyond it is given up.
- Most probes end after a few steps. Else a line of many waits, each of which holds something, would
  cost the square of their number, again and again. A probe goes on only while the wait that sent it
  is the youngest of its path, as no other may refuse itself; and it goes far only if no younger
  one's probe has passed that wait since it looked last, as that one goes the same way.
- A long cycle behind a younger wait, which is no part of it, is found by the probe of that wait: it
  passes a wait twice, and the youngest of the cycle is asked to send the second round.
- The victim is the same wherever it is computed: the youngest wait of the cycle.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from math import inf
from weakref import WeakKeyDictionary

from fencelock._core.description import described
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold
from fencelock._core.types import UnitId
from fencelock._runtime.log import log
from fencelock._runtime.process import ThreadUnit
from fencelock._runtime.records import NamedTuple
from fencelock._runtime.typed import TYPE_CHECKING, Final
from fencelock.errors import Blocked, Deadlock
from fencelock.scripts import ANSWER

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from fencelock._core.engine import Engine

    # One of a call: its number, and its code. As a frame it would keep all locals alive.
    Frame = tuple[int, CodeType]

# A wait looks again after so long, and then after twice as long each time, up to the last one. The
# wait that closed a cycle finds it when it looks first: more is needed when a message was lost.
AGAIN_SECONDS = 1.0
AGAIN_SECONDS_MAX = 4.0
# One for a hold of its own thread or task looks at once, and again after so long: at first its
# client may not hear probes. It is sought among so many leases at most: each wait pays for that.
OWN_AGAIN_SECONDS = 0.05
OWN_SOUGHT_MAX = 32
# How many probes are remembered, so that each passes a wait only once.
PASSED_MAX = 1000
# How far probes go: of any wait, of the youngest of its path, and of one that looks far. Cycles of
# more than a few waiters are rare; one beyond the last is not found.
FEW_STEPS = 2
NEAR_STEPS = 20
STEPS_MAX = 512
MESSAGE_BYTES_MAX = 524_288
SEMAPHORE: Final = b"semaphore"  # the kind, as in semaphore_rwlock.py, which imports the port


class UnitWait:
    """One acquisition that waits, and the thread or task that makes it."""

    # Class attributes until something happens: most waits are over before they look.
    before: UnitWait | None = None  # that a signal handler's wait interrupts
    pause: float = AGAIN_SECONDS
    patient: bool = True  # it has no timeout
    searches: int = 0  # how often it has looked
    ports: Sequence[Engine] | None = None  # by which its thread or task holds something
    passed_by_younger: bool = False  # since it looked last
    arrived_us: int = 0  # on the server's clock; see ``arrival``
    cycle: Sequence[Step] | None = None  # the cycle for which it is refused
    suspected: bool = False  # it is in a cycle that may end by itself, which was reported
    _frames: AbstractSet[Frame] | None = None
    _id: bytes = b""

    def __init__(self, port: Engine, attempt: Attempt, asks: Attempt, due: float) -> None:
        self.port: Engine = port
        self.attempt: Attempt = attempt
        self.asks: Attempt = asks  # what waits at the server, or for the cohort
        self.due: float = due  # when it looks for a cycle

    @property
    def id(self) -> bytes:
        """Return what names it in probes, drawn when it is first asked for."""
        known = self._id  # another thread may draw one, too: ``setdefault`` is one step
        return known or self.__dict__.setdefault("_id", self.port.new_id())

    def frames(self, *, own: bool) -> AbstractSet[Frame]:
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
        return self.port.lines.stands(asks)

    def arrival(self) -> int:
        """Return when it came, in microseconds of the server's clock, always the same; 0: unknown.

        The server answered this waiter, or the one for whose turn it waits. Under the port's mutex.
        """
        if not self.arrived_us:
            asks = self.asks
            tenure = asks.tenure if asks.local else None
            if tenure is not None:  # it knows an instant of the server's clock
                front, known_us, at = tenure.front, 0, 0.0
                if front is not None and front.held:  # a fence is that of its grant, or a bit later
                    known_us, at = front.fence, front.granted_at
                elif (known := tenure.asks or front) is not None:
                    known_us, at = known.answered_us, known.asked_at
                self.arrived_us = int(known_us + (asks.arrived_at - at) * 1e6) if known_us else 0
            else:
                self.arrived_us = int(asks.answered_us)
        return self.arrived_us

    def is_for_itself(self) -> bool:
        """Return True if its thread or task asks for what it holds itself, by the same client.

        Whether that keeps it from being granted, the server knows: other holders may make room.
        """
        port, key = self.port, self.attempt.keys.lock
        with port.mutex:
            found = any(
                hold.terms.keys.lock == key and waits_for_itself(self, hold.user_lease)
                for hold in port.renewals.some(OWN_SOUGHT_MAX)
            )
        return found

    # -- its probes ---------------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Look for a cycle that it is in, and set when it looks again."""
        self.frames(own=True)
        ports, mine = self.ports, self.port
        if ports is None:  # while it waits, it acquires nothing
            with mine.mutex:
                holds = mine.waits.holds_of(self.attempt.unit)
                ports = self.ports = list(dict.fromkeys(hold.port for hold in holds if hold.port))
        if not ports:
            self.due = float("inf")
            return
        for own in ports:
            if not own.hears:
                own.hear_soon()  # the probe comes back there
        self.due = now + self.pause
        self.pause = min(2 * self.pause, AGAIN_SECONDS_MAX)
        self.searches += 1
        far = self.searches > 1 and not self.passed_by_younger
        self.passed_by_younger = False
        self.send_on(PathProbe(f"{_text(self.id)} {self.searches}{'+' if far else ''}", ()))

    def came_back(self, probe: PathProbe) -> None:
        """Confirm a cycle, or take it for true when it is confirmed."""
        if not probe.cycle:
            self.send_on(PathProbe(probe.search, (), probe.path))
        elif youngest(probe.path).wait == _text(self.id):
            certain = all(step.certain for step in probe.path)
            if certain and (self.patient or len(probe.path) > 1):
                self.refuse(probe.path)
            elif not self.suspected:  # another thread or task, or its timeout, may end it
                self.suspected = True
                error = self.error(probe.path)
                why = "its timeout ends it" if certain else "others may release what was acquired"
                log.warning("perhaps a %s; it is left alone, as %s", error, why)
                if self.attempt.event is not None:
                    self.attempt.event.suspected(error)

    def send_on(self, probe: PathProbe) -> None:
        """Send a probe from here to the hold that it waits for."""
        port, asks = self.port, self.asks
        with port.mutex:
            if not self.stands:
                return
            arrived_us = self.arrival()
        expected = probe.cycle[len(probe.path)].holder if probe.cycle else ""
        step = self._step(arrived_us)
        if probe.path and not probe.cycle and youngest((probe.path[0], step)) is probe.path[0]:
            self.passed_by_younger = True
        text = pack(probe.extended(step))
        if arrived_us and text is not None:
            port.run_in_background(*asks.terms.probe(asks, expected.encode(), text))

    def _step(self, arrived_us: int = 0) -> Step:
        """Return it as a step of a path; what the next client knows is left empty."""
        return Step(_text(self.id), arrived_us, self.asks.keys.name, _text(self.attempt.info))

    # -- its end ------------------------------------------------------------------------------

    def end(self) -> None:
        """Take it out: its acquire ends."""
        self.port.waits.end(self.attempt.unit, self)
        self.attempt.wait = None

    def refuse(self, cycle: Sequence[Step]) -> None:
        """End it with ``Deadlock``: it leaves its line as any waiter that gives up."""
        port, asks = self.port, self.asks
        with port.mutex:
            if not self.stands or self.cycle is not None:
                return
            self.cycle = tuple(cycle)
            asks.news = True
            port.wake(asks)
        if not asks.local:  # a thread that reads its own connection is woken by a message there
            args = (asks.channel, asks.id, b"again")
            port.run_in_background(ANSWER, self.attempt.keys.plain, args)

    def error(self, cycle: Sequence[Step] = ()) -> Deadlock:
        """Return the error for a wait that is refused, or that is in a cycle."""
        found: list[Blocked] = []
        for step in cycle or self.cycle or ():
            person = described(step.info)
            pid = person.get("pid", 0)
            found.append(
                Blocked(
                    name=step.name,
                    host=str(person.get("host", "")),
                    pid=pid if isinstance(pid, int) else 0,
                    unit=str(person.get("unit", "")),
                    label=str(person.get("label", "")),
                    fence=step.fence,
                )
            )
        return Deadlock(self.attempt.keys.name, cycle=found, server=self.port.label)

    def own_cycle(self, hold: Hold) -> Deadlock:
        """Return the error for a thread or task that waits for its own hold."""
        step = self._step()
        self.cycle = (step._replace(holder=_text(hold.holder_id), fence=hold.fence),)
        return self.error()


class UnitWaits:
    """The waits of one process, by thread or task, and the ports by which these hold locks."""

    __slots__ = ("_of", "_passed", "ports")

    def __init__(self) -> None:
        self._of: dict[UnitId, UnitWait] = {}
        self._passed: dict[tuple[str, bytes], None] = {}
        # In the order in which they came, so that the simulator can repeat what was done.
        self.ports: WeakKeyDictionary[Engine, None] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._of)

    def begin(self, unit: UnitId, wait: UnitWait) -> None:
        """Enter a wait, in place of one that it interrupts: a signal handler's waits inside it."""
        wait.before = self._of.get(unit)
        self._of[unit] = wait

    def end(self, unit: UnitId, wait: UnitWait) -> None:
        """Take a wait out, and enter the one again that it interrupted."""
        if self._of.get(unit) is not wait:
            return
        if wait.before is not None and wait.before.stands:
            self._of[unit] = wait.before
        else:
            del self._of[unit]

    def of(self, unit: UnitId) -> UnitWait | None:
        """Return what a thread or task waits for now, or None. Under the mutex."""
        wait = self._of.get(unit)
        return wait if wait is not None and wait.stands else None

    def holds_of(self, unit: UnitId) -> Iterator[Hold]:
        """Yield what a thread or task holds by any client. Under the mutex."""
        for port in list(self.ports):
            for hold in port.renewals.tracked():
                # Of a quorum's lease its parts count: each is at one node, as a wait is.
                if hold.user_lease.unit is unit and not hold.parts and is_edge(hold.user_lease):
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
    if hold.terms.deadlock_after is None:
        return False
    permit = getattr(hold.terms, "kind", None) == SEMAPHORE  # others have none
    return hold.bound or hold.frame is not None or not permit


def is_certain(hold: Hold, frames: AbstractSet[Frame]) -> bool:
    """Return True if nothing but what these frames wait for can end a hold.

    Only its thread or task can release it, or one of the frames is that of its ``with``. Any other
    lock may be released by another thread, which may run the rest of a generator, too.
    """
    return hold.bound or (hold.frame is not None and hold.frame in frames)


def frames_of(unit: UnitId, *, own: bool) -> AbstractSet[Frame]:
    """Return the frames that wait for a call of a thread or task, which may ask its ``own``."""
    found: set[Frame] = set()
    frame: FrameType | None = None
    if own:
        frame = sys._getframe()  # noqa: SLF001 - its own callers
    elif isinstance(unit, ThreadUnit) and unit.number is not None:
        frame = sys._current_frames().get(unit.number)  # noqa: SLF001 - as said above
    while frame is not None:
        found.add((id(frame), frame.f_code))
        frame = frame.f_back
    # Python 3.11's ``wait_for`` runs the call in another task, for which this one waits.
    of_task = getattr(unit, "get_coro", None)
    coroutine = None if of_task is None else of_task()
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None)
        if frame is not None:
            found.add((id(frame), frame.f_code))
        # CPython 3.12 crashes if asked what a coroutine awaits that runs; the stack has its frames.
        running = getattr(coroutine, "cr_running", False)
        coroutine = None if running else getattr(coroutine, "cr_await", None)
    return found


# Stands for a wait that takes no part: it has no waiter, is never due, and never refused.
NO_WAIT: Final = object.__new__(UnitWait)
NO_WAIT.due = inf


def entered(port: Engine, attempt: Attempt, asks: Attempt) -> UnitWait:
    """Enter a thread or task as waiting, unless it takes no part; return its wait.

    ``asks`` is what waits: the attempt, for its cohort, or its question in the server's line.
    """
    after = attempt.terms.deadlock_after
    if after is None or attempt.unit is None:
        return NO_WAIT
    wait: UnitWait | None = attempt.wait
    if wait is None:
        wait = UnitWait(port, attempt, asks, port.now() + after)
        wait.patient = attempt.give_up_at == inf
        # The holder of a cohort is known: its waiters see by themselves whether it is their own.
        # It is the front, or about to be: then no other tenure has the lock.
        tenure = asks.tenure if asks.local else None
        known = tenure is not None and tenure.turn() is not None
        sought = wait.patient and not known and port.renewals.busy
        if sought and wait.is_for_itself():
            wait.due, wait.pause = port.now(), OWN_AGAIN_SECONDS
        if tenure is None:
            wait.arrival()  # now: it may have to ask again
        port.waits.begin(attempt.unit, wait)
        attempt.wait = wait
    wait.asks = asks
    return wait


def waits_for_itself(wait: UnitWait, hold: Hold) -> bool:
    """Return True if a thread or task waits for a hold that only it can release."""
    return (
        wait is not NO_WAIT
        and hold.unit is wait.attempt.unit
        and is_certain(hold, wait.frames(own=True))
        and is_edge(hold)
    )


# -- probes --------------------------------------------------------------------------------------


class Step(NamedTuple):
    """One wait, and the hold that it waits for."""

    wait: str  # the id of the wait
    arrived_us: int  # on the clock of the server that it asked
    name: str  # of the lock
    info: str  # the waiter, described as `show` prints it
    holder: str = ""  # the id of the tenure that blocks it
    fence: int = 0  # and which turn of that tenure
    certain: int = 1  # 0 if another thread or task than the one that waits may end that


class PathProbe(NamedTuple):
    """A path that begins with the wait that looks for a cycle."""

    search: str  # which search it is: the id of that wait, and a number; "+" if it goes far
    path: Sequence[Step]
    # The cycle that the first round found; the second follows it, and nothing else.
    cycle: Sequence[Step] = ()

    def extended(self, step: Step) -> PathProbe:
        """Return the probe as it leaves a wait."""
        return self._replace(path=(*self.path, step))

    def blocked_by(self, holder: str, fence: int, *, certain: bool = True) -> PathProbe:
        """Return the probe as it arrives at the hold that blocks the last wait."""
        last = self.path[-1]._replace(holder=holder, fence=fence, certain=int(certain))
        return self._replace(path=(*self.path[:-1], last))

    def passes_twice(self, wait: str) -> bool:
        """Return True if the path has a wait already: there is another cycle."""
        return any(step.wait == wait for step in self.path)

    def tells_of_another(self, wait: str) -> bool:
        """Return True if a wait learns of a cycle that its own probes may not find, as it is long.

        The probe passes it twice; the second round goes to the youngest, which sends its own.
        """
        if self.cycle:
            return len(self.cycle) > NEAR_STEPS and youngest(self.cycle).wait == wait
        return self.passes_twice(wait) and len(self.cycle_from(wait)) > NEAR_STEPS

    def cycle_from(self, wait: str) -> Sequence[Step]:
        """Return a cycle from one of its waits on: the second round's, or that of a path's end."""
        steps = (*self.cycle, *self.cycle) if self.cycle else self.path
        at = next(number for number, step in enumerate(steps) if step.wait == wait)
        return steps[at : at + (len(self.cycle) or len(steps))]

    def steps_max(self) -> int:
        """Return how many steps it may have."""
        if not self.cycle and youngest(self.path).wait != self.path[0].wait:
            return FEW_STEPS
        return STEPS_MAX if self.search.endswith("+") else NEAR_STEPS

    def strays(self) -> bool:
        """Return True if the second round does not see what the first one saw."""
        return bool(self.cycle) and tuple(self.path) != tuple(self.cycle[: len(self.path)])


def pack(probe: PathProbe) -> bytes | None:
    """Return a probe as text; None when it is too long."""
    if len(probe.path) > probe.steps_max():
        return None
    import json  # noqa: PLC0415 - only when there is a deadlock

    text = json.dumps([probe.search, probe.path, probe.cycle], separators=(",", ":")).encode()
    return text if len(text) <= MESSAGE_BYTES_MAX else None


def unpack(text: bytes) -> PathProbe | None:
    """Return the probe that a text says; None when it says none."""
    if len(text) > MESSAGE_BYTES_MAX:
        return None
    import json  # noqa: PLC0415 - only when there is a deadlock

    try:
        search, *found = json.loads(text)
        path, cycle = [tuple(Step(*words) for words in steps) for steps in found]
    except (ValueError, TypeError, RecursionError):
        return None
    fits = isinstance(search, str) and all(map(is_whole, (*path, *cycle)))
    return PathProbe(search, path, cycle) if fits and path else None


def is_whole(step: Step) -> bool:
    """Return True if each word of a step is what it should be: any program may send one."""
    return [type(word) for word in step] == [str, int, str, str, str, int, int]


def youngest(cycle: Sequence[Step]) -> Step:
    """Return the wait that came last: it has the least to lose, and is refused."""
    return max(cycle, key=lambda step: (step.arrived_us, step.wait))


def arrived(port: Engine, holder: bytes, text: bytes) -> None:
    """Take a probe that came to the client of a holder."""
    probe = unpack(text)
    if probe is None:
        return
    with port.mutex:
        holds = port.renewals.held_as(holder)
    for hold in holds:
        _pass(hold, probe)


def _pass(hold: Hold, probe: PathProbe) -> None:
    """Follow a probe from a hold to what the thread or task that made it waits for."""
    whole, port = hold.user_lease, hold.port
    if port is None:  # it was released just now
        return
    with port.mutex:
        wait = port.waits.of(whole.unit) if is_edge(whole) else None
        which = f"{probe.search} {bool(probe.cycle):d}"  # its two rounds are told apart
        fresh = wait is not None and port.waits.passes(which, wait)
    certain = wait is not None and is_certain(whole, wait.frames(own=False))
    probe = probe.blocked_by(_text(hold.holder_id), hold.fence, certain=certain)
    if wait is None or probe.strays():
        return
    if _text(wait.id) == probe.path[0].wait:
        wait.came_back(probe)
    elif probe.tells_of_another(_text(wait.id)):
        wait.send_on(PathProbe(probe.search, (), probe.cycle_from(_text(wait.id))))
    elif fresh and not probe.passes_twice(_text(wait.id)):
        wait.send_on(probe)


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
