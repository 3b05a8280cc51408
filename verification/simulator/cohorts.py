"""Watches cohorts in a world: the turns that a client's waiters take without asking the server.

What holds of the lock holds here too: the monitor of locks looks on. Besides, each turn is judged
as a grant of its own: by its fence, its order, the bound of its cohort, and what it costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold
from fencelock.options import LeaseOptions
from verification.simulator.monitor import LEAST_SLACK, Monitor, Violation, proves
from verification.simulator.network import Client, World
from verification.simulator.server import Request
from verification.simulator.view import View

# A request is under way for no time at all here, so who came this much later came later.
ARRIVAL_US = 1_000
# How far two clocks may be apart in how long something lasted.
DRIFT = 1.01
# The part of its lease with which a turn begins at least, and that of one that is not renewed.
LEAST_PART, LEAST_FIXED_PART = 0.49, 0.89
# The requests of an acquisition: all but heartbeats and renewals, which only long waits need.
COUNTED = frozenset({"acquire", "acquire_next", "release", "abandon"})


class TurnsMonitor(Monitor):
    """A monitor of worlds in which tasks wait for another one of their client."""

    def _waiting(self) -> Iterator[Attempt]:
        """Yield who waits: not those of a client that is asking the server for them."""
        asking = [
            task.client
            for client in self._world.clients
            for task in client.tasks
            if task.state is not None and task.state.kind in self._busy
        ]
        local = {id(request) for client, request in self._local() if client in asking}
        for request in super()._waiting():
            if id(request) not in local:
                yield request

    @property
    def _busy(self) -> frozenset[str]:
        """Return what a task is doing that asks; it sleeps between two tries only after a fault."""
        return frozenset({"call", "sleep"} if self._world.faulty else {"call"})

    def _local(self) -> Iterator[tuple[Client, Attempt]]:
        """Yield who waits for another waiter of its process."""
        for client in self._world.clients:
            for task in client.tasks:
                waiter = None if task.state is None else task.state.waiter
                if isinstance(waiter, Attempt) and waiter.local:
                    yield client, waiter


class CohortMonitor(TurnsMonitor):
    """Checks the turns of all cohorts of one lock."""

    commands_max = 2  # for each grant of the server
    redirects = False  # a request may be refused, and sent elsewhere

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._granted_us: dict[bytes, int] = {}  # when the server granted each tenure
        self._turns: dict[bytes, int] = {}  # how many turns each tenure had
        self._options: dict[bytes, LeaseOptions] = {}  # on which each tenure was granted
        self._passed: set[int] = set()  # the holds that were passed on
        self._used: frozenset[int] = frozenset()  # the fences that holders had
        self._pending: list[tuple[Client, Attempt, int]] = []  # who waits, since when
        self._left = False  # a waiter gave up: others may have its place
        self._heard: set[tuple[int, bytes]] = set()  # revocations, by process
        self._commands = 0
        self._looked = False  # who waits so long may have to ask again

    # -- what processes report ------------------------------------------------------------------

    def lines_up(self, client: Client, request: Attempt) -> None:
        """Note who waits from now on."""
        super().lines_up(client, request)
        self._pending.append((client, request, self._world.now_us))

    def asked(self, client: Client, request: Attempt, hold: Hold | None) -> None:
        """Note that an acquire is over, with or without a lease."""
        super().asked(client, request, hold)
        self._pending = [each for each in self._pending if each[1] is not request]
        self._left = self._left or hold is None

    def heard_revocation(self, client: Client, holder: bytes) -> None:
        """Note that a process was told that an operator took a tenure."""
        self._heard.add((client.number, holder))

    def holds_now(self, client: Client, hold: Hold) -> None:
        """Judge a turn as it begins: its fence, its lease, and who came before."""
        super().holds_now(client, hold)
        self._grows(hold)
        if hold.deadline <= self._world_now(client):
            raise Violation("I4", f"the turn of {hold.holder_id!r} begins when it is over")
        tenure, options = hold.holder_id, hold.terms.options
        if self._options.setdefault(tenure, options) != options:
            raise Violation("L", f"a turn of {tenure!r} has other terms than its lease")
        self._turns[tenure] = self._turns.get(tenure, 0) + 1
        if self._world.faulty and not hold.turn:  # it may have heard of its grant late
            self._granted_us[tenure] = self._world.now_us
        if self._turns[tenure] > max(1, self._bound(hold)[0]):
            raise Violation("I5", f"{tenure!r} had {self._turns[tenure]} turns")
        self._in_their_order(client, hold)

    def _grows(self, hold: Hold) -> None:
        """See that no turn has a fence that is not above all others (I3).

        A tenure that the server took away may go on until its process hears of it, below the next.
        """
        high = max(self._used, default=0)
        if hold.fence in self._used or (hold.fence < high and not self.was_revoked(hold)):
            raise Violation("I3", f"fence {hold.fence} was given after {high}")
        self._used |= {hold.fence}

    def _in_their_order(self, client: Client, hold: Hold) -> None:
        """See that the waiters of one process are served as they came.

        Who tries, or has no cohort, comes when the server hears it: it has no fellow waiters.
        """
        if hold.terms.cohort is None:
            return
        for waits_in, request, _ in self._pending:
            if request is hold:
                return
            if waits_in is client and request.terms.cohort == hold.terms.cohort:
                raise Violation("I5", f"{hold.holder_id!r} was served before {request.id!r}")

    @staticmethod
    def _world_now(client: Client) -> float:
        return client.port.now()

    @staticmethod
    def _bound(hold: Hold) -> tuple[int, float]:
        cohort = hold.terms.options.cohort
        return (1, 0.0) if cohort is None else (cohort.turns, cohort.seconds)

    # -- after a request ------------------------------------------------------------------------

    def served(self, request: Request, before: Any) -> None:
        """Note the tenures that the server grants, and what they cost."""
        self._commands += request.name in COUNTED
        self._looked = self._looked or request.name == "heartbeat"
        if request.name == "abandon" and not self._world.faulty:
            self._last_to_leave(request)
        super().served(request, before)
        after = self.view()
        kept = request.name == "acquire_next" and before.holder == request.args[6] == after.holder
        if kept and not self.redirects:
            raise Violation("I5", f"{request!r} did not release the lock")
        if after.holder is not None and after.holder != before.holder:
            self._granted_us[after.holder] = self._world.now_us
            self._heard = {each for each in self._heard if each[1] != after.holder}
            self._by_arrival(after)

    def _last_to_leave(self, call: Request) -> None:
        """See that who gives up leaves its place to those of its process that came in time."""
        for client, request, since in self._pending:
            waits = since < self._world.now_us and request.terms.options.cohort is not None
            asks = request.asks or request  # it may continue what another one began
            if waits and asks.id != call.args[0] and is_of(call.args[0], client):
                raise Violation("I5", f"{request.id!r} lost the place of its client")

    def _first_come(self, request: Request, before: View, after: View, *, gave_up: bool) -> None:
        """Judge as of a lock; who asks for a waiter that has waited before has its place."""
        if request.name == "acquire_next":
            came_us = self._world.server.now_us - int(request.args[8])
            line = tuple(entry for entry in before.line if entry.arrived_us < came_us)
            before = before._replace(line=line)
        super()._first_come(request, before, after, gave_up=gave_up)

    def _by_arrival(self, after: View) -> None:
        """See that nobody elsewhere came before all that wait in the process that is granted."""
        if self._world.faulty or self._left:
            return
        came: dict[int, int] = {}
        for client, _, since in self._pending:
            came[client.number] = min(since, came.get(client.number, since))
        granted = next(
            (each.number for each in self._world.clients if is_of(after.holder, each)), -1
        )
        for number, since in came.items():
            if granted in came and since < came[granted] - ARRIVAL_US:
                name = self._world.clients[number].name
                raise Violation("I5", f"{after.holder!r} was granted before a waiter of {name}")

    # -- after every step -----------------------------------------------------------------------

    def check(self) -> None:
        """Check that one turn of a tenure ends before the next begins, and within its bound."""
        super().check()
        believed: dict[bytes, Hold] = {}
        for client, hold in self.holds:
            if not client.alive:
                continue
            if hold.passes and id(hold) not in self._passed:
                self._passed.add(id(hold))
                self._within_bound(client, hold)
            if proves(hold):
                self._alone(client, hold, believed)

    def _alone(self, client: Client, hold: Hold, believed: dict[bytes, Hold]) -> None:
        tenure = hold.holder_id
        if tenure in believed:
            raise Violation("I1", f"two turns of {tenure!r} prove a lease")
        believed[tenure] = hold
        if hold.turn and (client.number, tenure) in self._heard:
            raise Violation("I8", f"a turn of {tenure!r} goes on, and its process knows better")
        if hold.turn and not hold.last:
            self._as_asked(hold)

    def _as_asked(self, hold: Hold) -> None:
        """See that a turn inherits no longer lease on the server than its holder asked for."""
        view, most = self.view(), hold.terms.options.ttl
        left = (view.end_us - self._server.now_us) / 1e6
        moved = not self._world.budgets.keys().isdisjoint({"back", "jump"})
        if view.holder == hold.holder_id and left > most + LEAST_SLACK and not moved:
            raise Violation("L", f"a turn of {hold.holder_id!r} has its lease for {left} s")

    def _within_bound(self, client: Client, hold: Hold) -> None:
        """See that a turn is passed on in time, and with enough of the lease."""
        now_us, tenure = self._world.now_us, hold.holder_id
        seconds = self._bound(hold)[1]
        lasted = (now_us - self._granted_us.get(tenure, now_us)) / 1e6
        pace = lasted / self._turns[tenure]
        if lasted + pace > seconds * DRIFT:
            raise Violation("I5", f"{tenure!r} was passed on {lasted} s after its grant")
        options = hold.terms.options
        limited = (
            not options.renew or options.max_hold is not None or options.max_renewals is not None
        )
        least = hold.ttl * (LEAST_FIXED_PART if limited else LEAST_PART)
        left = hold.deadline - client.port.now()
        if left < least - LEAST_SLACK and not hold.short:
            raise Violation("L", f"{tenure!r} was passed on with {left} s left")
        if left > hold.ttl:
            raise Violation("L", f"{tenure!r} was passed on with {left} s, more than asked for")
        lasts = (self.end_us() - now_us) / 1e6
        most = hold.ttl + LEAST_SLACK + abs(self._world.skew_us) / 1e6
        if self.view().holder == tenure and lasts > most:
            raise Violation("L", f"{tenure!r} was passed on, and the server has it for {lasts} s")

    # -- the end --------------------------------------------------------------------------------

    def key(self) -> Any:
        """Return what of it decides about later violations."""
        tenures = tuple(sorted(self._granted_us.items())), tuple(sorted(self._turns.items()))
        return super().key(), tenures, self._used, self._left, frozenset(self._heard)

    def end(self) -> None:
        """Check that nothing is left of any cohort, and what all of it cost."""
        super().end()
        view = self.view()
        for client in self._world.clients:
            if client.alive and not self._haunted:
                self._nothing_left(client, view)
        if not (self._world.faulty or self._left or self._looked):
            tenures = len(self._granted_us)
            if self._commands > self.commands_max * tenures:
                raise Violation("I5", f"{self._commands} commands for {tenures} grants")

    def _nothing_left(self, client: Client, view: View) -> None:
        for port in client.port.tended:
            if port.lines.cohorts:
                raise Violation("I9", f"{client.name} still has a cohort")
        names = [view.holder, *(entry.waiter for entry in view.line)]
        for name in names:
            if is_of(name, client) and name not in self._revoked:
                raise Violation("I9", f"{client.name} left {name!r} on the server")


def is_of(name: bytes | int | None, client: Client) -> bool:
    """Return True if a process made this id."""
    return isinstance(name, bytes) and name.lstrip(b"~").startswith(client.name.encode())
