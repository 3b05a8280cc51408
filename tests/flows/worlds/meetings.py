"""What meets in a world: calls of one client that are under way at one step, and pushes.

A ``Table`` has a row for each two calls that can meet, and for each call and a revocation; of what
it has no row for, it says why.

A call is *under way* from its first step to its last. Two calls meet when one begins, or both are
suspended, while the other is under way. A push meets a call before it begins, while it is
suspended, or after it has ended. Worlds whose monitor is ``Noting`` note it while ``noted`` asks.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from typing import Any, NamedTuple

from tests.flows.worlds.locks import Scenario
from verification.simulator.actors import GAVE_UP
from verification.simulator.monitor import Violation, proves
from verification.simulator.port import SimulatedPort

TIMES = BEFORE, WHILE, AFTER = "before", "while", "after"
BACKGROUND, CANCEL = "background renewal", "cancel"
# What these are shows only when they are suspended: an acquire asks, waits, or gives up; and what
# tends the leases may have none to renew.
VARIOUS = {"acquire", BACKGROUND}

_noted: set[tuple[str, ...]] | None = None


@contextlib.contextmanager
def noted():
    """Yield the set of all that meets in the worlds that run meanwhile."""
    global _noted  # noqa: PLW0603 - an explorer makes many worlds, and each notes it here
    before, _noted = _noted, set()
    try:
        yield _noted
    finally:
        _noted = before


def pair(one, other):
    """Return the name of a meeting of two calls, in whichever order."""
    return tuple(sorted((one, other)))


class Call:
    """A call that is under way; ``name`` says which one, ``waits`` that its name depends on how."""

    def __init__(self, name, task, heard, give_up_at=None):
        self._name = name
        self.task = task
        self.heard = heard  # the pushes that came before it
        self.give_up_at = give_up_at
        self.names = set()  # all that it was
        self.last = name

    def name(self, now):
        """Return what it is at this step; None when nothing of it is under way."""
        name, kind = self._name, self.task.state and self.task.state.kind
        if name == "acquire":
            over = self.give_up_at is not None and now >= self.give_up_at
            name = "give up" if over else {"call": "ask", "wait": "wait"}.get(kind)
        elif name == BACKGROUND and kind != "call":
            name = None
        if name is not None:
            self.names.add(name)
            self.last = name
        return name


class Noting:
    """A part of a monitor: it notes what meets."""

    def __init__(self, world, *locks):
        super().__init__(world, *locks)
        self._under_way = {}  # the calls of each client
        self._ended = {}  # their names, when they are over
        self._pushed = {}  # the kinds of pushes that each client heard
        self._known = frozenset()  # revocations that a client heard of: its number, and the holder

    @contextlib.contextmanager
    def under_way(self, client, name, give_up_at=None):
        """Note a call that begins here and ends with this block."""
        heard = frozenset(self._pushed.get(client.number, ()))
        call = Call(name, self._world.running, heard, give_up_at)
        calls = self._under_way.setdefault(client.number, [])
        if name not in VARIOUS:
            self.instant(client, name)
        calls.append(call)
        try:
            yield
        except GAVE_UP:
            if _noted is not None:
                _noted.add(pair(CANCEL, call.last))
            raise
        finally:
            calls.remove(call)
            now = client.port.now()
            if give_up_at is not None and now >= give_up_at:
                self.instant(client, "give up")
                call.names = {"give up"}
            if name not in VARIOUS:
                call.names.add(name)
            self._ended.setdefault(client.number, set()).update(call.names)

    def instant(self, client, name):
        """Note what happens within one step, beside what is under way."""
        self._ended.setdefault(client.number, set()).add(name)
        if _noted is None:
            return
        now = client.port.now()
        for other in self._under_way.get(client.number, ()):
            if other.task is not self._world.running and (known := other.name(now)) is not None:
                _noted.add(pair(name, known))
        for kind in self._pushed.get(client.number, ()):
            _noted.add((kind, BEFORE, name))

    def pushed(self, client, kind):
        """Note a push that a client hears."""
        self._pushed.setdefault(client.number, set()).add(kind)
        if _noted is None:
            return
        now = client.port.now()
        names = [call.name(now) for call in self._under_way.get(client.number, ())]
        _noted.update((kind, WHILE, name) for name in names if name is not None)
        _noted.update((kind, AFTER, name) for name in self._ended.get(client.number, ()))

    def heard_revocation(self, client, holder):
        """Note that a client was told that an operator took a tenure."""
        super().heard_revocation(client, holder)
        self._known |= {(client.number, holder)}

    def served(self, request, before):
        """Judge, and forget the revocation of who is granted again."""
        super().served(request, before)
        holder = self.view().holder
        if holder != before.holder:
            self._known = frozenset(each for each in self._known if each[1] != holder)

    def key(self):
        """Return what of it decides about later violations."""
        return super().key(), self._known

    def check(self):
        """Check, and note what is under way together."""
        for client, hold in self.holds if self._known else ():
            if (client.number, hold.holder_id) in self._known and proves(hold):
                raise Violation("I8", f"{hold.holder_id!r} goes on, and its client knows better")
        if _noted is not None:
            for client in self._world.clients:
                self._note(client)
        super().check()

    def _note(self, client):
        now, names = client.port.now(), []
        for call in self._under_way.get(client.number, ()):
            if (name := call.name(now)) is not None:
                _noted.update(pair(name, other) for other in names)
                _noted.update((kind, BEFORE, name) for kind in call.heard)
                names.append(name)

    async def keep(self, port):
        """Tend a process's leases, and note when that renews some."""
        while True:
            await port.mind()
            with self.under_way(port.client, BACKGROUND):
                await self.flows.maintain(port)


class HearingPort(SimulatedPort):
    """A port that tells its monitor of each push."""

    def pushed(self, link, message):
        """Tell the monitor, and dispatch it."""
        self.world.monitor.pushed(self.client, message.partition(b" ")[0].decode())
        super().pushed(link, message)


# -- the tables ------------------------------------------------------------------------------------

ONE_STEP = "is done within one step: nothing can come while it is under way"
NEVER = (
    ({CANCEL}, {CANCEL}, ONE_STEP),
    ({CANCEL}, {BACKGROUND}, "what renews is no user's: it ends with its client"),
    ({BACKGROUND}, {BACKGROUND}, "one thread or task renews all leases of a client"),
)


class Row(NamedTuple):
    """A row of a table: what is to meet, and the worlds in which it does."""

    name: str
    meets: frozenset[tuple[str, ...]]
    worlds: tuple[Scenario, ...]


@dataclass(frozen=True)
class Table:
    """The calls of an object, each two of which meet, and each a revocation, unless it says why."""

    name: str
    calls: Mapping[str, Any]
    apart: tuple[tuple[set[str], set[str], str], ...] = ()  # what cannot meet, and why
    unheard: tuple[tuple[Any, set[str], str], ...] = ()  # when no revocation comes, and why
    # Schedules of each world; a fault has many places at which to strike. No sown defect needs as
    # many. Worlds of other objects than locks have few, except with a fault: there are many worlds.
    daily: int = 60
    faulty: int = 100
    nightly: int = 300

    @property
    def every(self):
        """Return each two calls, and each call before, beside and after a revocation."""
        calls = {pair(*each) for each in combinations_with_replacement((*self.calls, CANCEL), 2)}
        return calls | {("revoked", *each) for each in product(TIMES, self.calls)}

    def why_not(self, meeting):
        """Return why two calls, or a revocation and a call, cannot meet; None when they can."""
        if len(meeting) == len("ab"):
            return self.why_apart(*meeting)
        return self.why_unheard(*meeting[1:]) if meeting[0] == "revoked" else None

    def why_apart(self, one, other):
        """Return why two calls cannot meet, or None."""
        for some, others, why in (*NEVER, *self.apart):
            if (one in some and other in others) or (other in some and one in others):
                return why
        return None

    def why_unheard(self, when, call):
        """Return why a revocation cannot meet a call then, or None."""
        reasons = (why for times, calls, why in self.unheard if when in times and call in calls)
        return next(reasons, None)

    def rows(self):
        """Yield a row for each two calls that can meet, and for each call beside a revocation."""
        names = (*self.calls, CANCEL)
        for number, one in enumerate(names):
            for other in names[: number + 1]:
                if self.why_apart(one, other) is None:
                    met = frozenset({pair(one, other)})
                    yield Row(
                        f"{self.name}: {other} and {one}", met, tuple(self.worlds_of(other, one))
                    )
        for call in self.calls:
            times = [each for each in TIMES if self.why_unheard(each, call) is None]
            if times:
                met = frozenset(("revoked", each, call) for each in times)
                yield Row(f"{self.name}: revoked beside {call}", met, tuple(self.revoked(call)))
