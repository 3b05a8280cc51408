"""What is explored of deadlocks: units that take locks in circles, in worlds that know the truth.

A *unit* stands for a thread or task. After every step the world notes who waits for whose hold: the
server says who holds, the units say what they wait for. A refusal is judged by that: all edges that
it names must have been there at one instant.
"""

import json
from dataclasses import dataclass
from functools import partial

from fencelock._core.keys import LockKeys
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.terms import Terms
from fencelock._core.objects.semaphore_rwlock import ALL, READ, RWLOCK, SEMAPHORE, WRITE, ShareTerms
from fencelock.errors import Deadlock
from fencelock.options import Cohort, LeaseOptions
from tests.flows.worlds import locks
from tests.flows.worlds.locks import Scenario, rests
from tests.flows.worlds.multis import Each, Part
from verification.simulator.actors import GAVE_UP, Actor
from verification.simulator.monitor import Violation
from verification.simulator.shares import read

AFTER = 0.3
TERMS = LeaseOptions(ttl=10.0, renew=True, deadlock_after=AFTER)
TURNS = TERMS._replace(cohort=Cohort(turns=8, seconds=60.0))
A, B, C = (LockKeys("", name) for name in "abc")
# A cycle is found within this, if nothing goes wrong.
FOUND_SECONDS = AFTER + 0.2
OWN_FOUND_SECONDS = 0.2  # that of a unit that waits for itself


@dataclass(frozen=True)
class Edge:
    """A unit's one wait, the hold that blocks it, and what the unit of that hold waits for."""

    waiter: str
    name: str
    fence: int
    holder: str


class Truth(Each):
    """The monitors of the locks, and who really waited for whom at each instant."""

    holds = ()  # not those of the monitors
    skewed = False  # the server's clock was set, so that the youngest wait seems to be older
    found_seconds = FOUND_SECONDS

    def __init__(self, world, locks):
        super().__init__(world, locks)
        self.waits = {}  # by the unit: its name for this wait, and the request
        self.holds = []  # of every unit, as long as they prove something
        self.seen = frozenset()  # the edges of each instant that had any
        self.closed = {}  # when a cycle was there first
        self.begun = {}  # when each wait began
        self.refused = 0
        self.units = []

    def lines_up(self, client, request):
        """Do nothing: who waits is noted by its unit."""

    def asked(self, client, request, hold):
        """Do nothing: as above."""

    def heard_revocation(self, client, holder):
        """Do nothing: nothing is revoked here."""

    def passing(self, instant):
        """Do nothing: waiters in vain are the matter of the worlds of one lock."""

    def waits_for(self, unit, name, request):
        self.waits[unit] = (name, request)
        self.begun[name] = self._world.now_us

    def ends_wait(self, unit):
        self.waits.pop(unit, None)

    def began(self, hold):
        self.holds.append(hold)

    def check(self):
        super().check()
        self._note()

    def _note(self):
        """Note the edges of this instant."""
        edges = frozenset(self._edges())
        if edges:
            self.seen |= {edges}
        for cycle in cycles(edges):
            self.closed.setdefault(cycle, self._world.now_us)

    def _edges(self):
        living = self._world.server.living()
        for name, request in self.waits.values():
            for hold in self.holds:
                if hold.terms.keys.lock == request.keys.lock and self._blocks(
                    living, hold, request
                ):
                    other = self.waits.get(hold.unit)
                    yield Edge(name, hold.name, hold.fence, other[0] if other else "")

    def _blocks(self, living, hold, request):
        if hold.released or hold.loss is not None or request is hold or not hold.bound:
            return False  # not bound: another unit will release it
        key = living.get(request.keys.lock)
        if key is None:
            return False
        if not isinstance(request.terms, ShareTerms):
            return key[0] == hold.holder_id
        there = any(
            holder == hold.holder_id and ends_us > self._world.server.now_us
            for ends_us, holder in key[0]
        )
        return there and request.terms.limit - hold.terms.permits < self._needed(request)

    def _needed(self, request):
        """Return how many permits must be free: nobody overtakes a request in line."""
        most = request.terms.permits
        for entry, permits in read(self.by_lock[request.keys.lock]._state()).line:
            if entry.waiter == request.id:
                return most
            most = max(most, permits)
        return request.terms.permits

    def was_refused(self, unit, error):
        """Judge a refusal."""
        self._note()  # a unit that waits for itself is refused within one step
        name, _ = self.waits[unit]
        told = [(each.unit, each.name, each.fence) for each in error.cycle]
        if told[0][0] != name and name not in {each[0] for each in told}:
            raise Violation("deadlock", f"{name} was refused for a cycle of others: {told}")
        units = [each[0] for each in told]
        claimed = {
            Edge(waiter, lock, fence, after)
            for (waiter, lock, fence), after in zip(told, units[1:] + units[:1], strict=True)
        }
        if not any(claimed <= edges for edges in self.seen):
            raise Violation("deadlock", f"there never was such a cycle: {told}")
        exact = not (self.skewed or self._world.faulty)  # else a request may have come late
        if exact and self.begun[name] < max(self.begun[each] for each in units):
            raise Violation("deadlock", f"{name} was refused, and is not the youngest of {units}")
        self.refused += 1
        if self.refused > len(self.closed):
            raise Violation("deadlock", f"{self.refused} were refused in {len(self.closed)} cycles")
        allowed = self.found_seconds if len(claimed) > 1 else OWN_FOUND_SECONDS
        late = (self._world.now_us - self.closed[frozenset(claimed)]) / 1e6 - allowed
        if late > 0 and not self._world.faulty:
            raise Violation("deadlock", f"it was found {late:.2f} s too late")

    def key(self):
        waits = tuple(sorted((unit.number, name) for unit, (name, _) in self.waits.items()))
        return super().key(), waits, self.seen, tuple(self.closed.items()), self.refused

    def end(self):
        super().end()
        for client in self._world.clients:
            if client.alive and len(client.port.waits):
                raise Violation("I9", f"{client.name} has an entry of a wait that is over")


def cycles(edges):
    """Return the cycles of a graph, each as the set of its edges."""
    found = set()
    after = {}
    for edge in edges:
        after.setdefault(edge.waiter, []).append(edge)

    def walk(path):
        for edge in after.get(path[-1].holder, ()):
            if edge == path[0]:
                found.add(frozenset(path))
            elif edge not in path:
                walk([*path, edge])

    for edge in edges:
        walk([edge])
    return found


class Circle(Scenario):
    """A world with several locks, of which units take some in an order of their own."""

    locks = (A, B)

    def build(self, server, traced):
        world = Scenario("empty", ()).build(server, traced)
        world.budgets, world.symmetric = dict(self.budgets), self.alike
        world.push_first = self.push_first
        world.monitor = Truth(world, self.locks)
        world.monitor.flows = self.flows
        self.begin(world)
        return world


class Three(Circle):
    """A world with a third lock."""

    locks = (A, B, C)


READ_A, WRITE_A = Part(A, RWLOCK, ALL, READ), Part(A, RWLOCK, ALL, WRITE)


class Shared(Circle):
    """A world in which the first lock is a reader/writer lock."""

    locks = (WRITE_A, B)


PERMIT = Part(A, SEMAPHORE, limit=2)


class Permits(Circle):
    """A world in which the first is a semaphore with two permits."""

    locks = (PERMIT, B)


ONE = Part(A, SEMAPHORE)


class OnePermit(Circle):
    """A world with a semaphore of one permit."""

    locks = (ONE,)


class Unit(Actor):
    """A thread or task: it takes locks one inside the other."""

    count = 0

    def __init__(self, world, client, flows):
        super().__init__(world, client, flows)
        world.monitor.units.append(self)

    @property
    def number(self):
        return self.world.monitor.units.index(self)

    def request(self, part, options):
        """Return a request whose description no other request of the world has."""
        self.count += 1
        name = f"{self.number}#{self.count}"
        info = json.dumps({"unit": name}, separators=(",", ":")).encode()
        port = self.port
        common = {"options": options, "client_channel": port.client_channel, "ttl": options.ttl}
        if isinstance(part, Part):
            options = options._replace(cohort=None)
            template = ShareTerms(
                keys=part.keys,
                kind=part.kind,
                limit=part.limit,
                permits=part.permits,
                **(common | {"options": options}),
            )
            return name, Hold(template, port.new_id(), info)
        return name, Hold(Terms(keys=part, **common), port.new_id(), info)

    async def inside(self, parts, timeout, work, options, gap):
        """Take the locks one inside the other, a gap after each; work, and give them back."""
        if not parts:
            await self.port.sleep(self.port.now() + work)
            return
        monitor = self.world.monitor
        name, request = self.request(parts[0], options)
        monitor.waits_for(self, name, request)
        try:
            hold = await self.acquire(request, timeout)
        except Deadlock as error:
            monitor.was_refused(self, error)
            return
        finally:
            monitor.ends_wait(self)
        if hold is None:
            await self.port.sleep(self.port.now() + work)
            return
        hold.bound = True
        monitor.began(hold)
        try:
            await rests(self, gap if parts[1:] else 0.0)
            await self.inside(parts[1:], timeout, work, options, gap)
        finally:
            await self.release(hold)


def unit(*parts, timeout=None, work=0.01, rounds=1, options=TERMS, after=0.0, gap=0.0):
    """What one unit does."""
    return (parts, timeout, work, rounds, options, after, gap)


async def _runs(actor, what):
    parts, timeout, work, rounds, options, after, gap = what
    await rests(actor, after)
    for _ in range(rounds):
        await actor.inside(parts, timeout, work, options, gap)


class Lender(Unit):
    """A thread or task that takes a lock, and has another one release it."""

    async def lends(self, part, wanted, lasts):
        """Take a lock for the other one, and then wait for one that it wants itself."""
        _, request = self.request(part, TERMS)
        hold = await self.acquire(request, None)
        if hold is None:
            return
        self.world.monitor.began(hold)
        self.world.start(self.client, self.given_back(hold, self.port.now() + lasts))
        await self.port.sleep(self.port.now() + 0.1)
        await self.inside((wanted,), None, 0.01, TERMS, 0.0)

    async def given_back(self, hold, until):
        """Release it, as the other one does."""
        try:
            await self.port.sleep(until)
        except GAVE_UP:
            return
        finally:
            await self.release(hold)


def lender(part, wanted, lasts):
    """A process whose first unit takes a lock that its second one releases."""
    return locks.process(lambda one: one.lends(part, wanted, lasts), actor=Lender)


def process(*units):
    """A process with these units."""
    return locks.process(*(partial(_runs, what=each) for each in units), actor=Unit)


AB, BA = unit(A, B, gap=0.1), unit(B, A, after=0.05, gap=0.1)
AB_TURN, BA_TURN = (
    unit(A, B, gap=0.1, options=TURNS),
    unit(B, A, after=0.05, gap=0.1, options=TURNS),
)
TWO = Circle("2 processes in a circle", (process(AB), process(BA)))
AT_ONCE = Circle("2 processes at once in a circle", (process(unit(A, B)), process(unit(B, A))))
SAME_ORDER = Circle("2 processes in one order", (process(AB), process(AB)), alike=True)
TOGETHER = Circle("2 units of 1 process in a circle", (process(AB, BA),))
IN_TURNS = Circle("2 units of 1 process in a circle, in turns", (process(AB_TURN, BA_TURN),))
BEHIND = Circle(
    "a cohort behind a circle",
    (process(AB_TURN, unit(A, options=TURNS, after=0.03)), process(BA_TURN)),
)
OF_A_TURN = Circle(
    "a circle with the second turn of a tenure",
    (
        process(unit(A, options=TURNS, work=0.02), unit(A, B, options=TURNS, after=0.01, gap=0.1)),
        process(BA_TURN),
    ),
)
ITSELF = Circle("1 unit that waits for itself", (process(unit(A, A)),))
ITSELF_IN_TURN = Circle(
    "1 unit that waits for itself, in turn", (process(unit(A, A, options=TURNS)),)
)
ITSELF_WITH_A_PERMIT = OnePermit(
    "1 unit that waits for its own permit, beside another client",
    (process(unit(ONE, ONE)), process(unit(ONE, after=0.01))),
)
ROUND = Three(
    "3 processes in a circle",
    (
        process(unit(A, B, gap=0.1)),
        process(unit(B, C, after=0.02, gap=0.1)),
        process(unit(C, A, after=0.04, gap=0.1)),
    ),
)
BACK = Circle(
    "2 processes in a circle, 1 giving up and coming back",
    (process(unit(A, B, gap=0.1, timeout=0.2, rounds=2)), process(BA)),
)
ENDING = Circle(
    "2 processes in a circle that ends by itself",
    (process(unit(A, B, timeout=0.3)), process(unit(B, A, timeout=0.4))),
)
BYSTANDER = Circle(
    "a third behind a circle", (process(AB), process(BA), process(unit(A, after=0.02)))
)
UPGRADE = Shared(
    "2 readers that want to write",
    (
        process(unit(READ_A, WRITE_A, gap=0.1)),
        process(unit(READ_A, WRITE_A, after=0.05, gap=0.1)),
    ),
)
WRITER = Shared(
    "a writer behind a reader that waits for the writer",
    (process(unit(READ_A, B, gap=0.1)), process(unit(B, WRITE_A, after=0.05, gap=0.1))),
)
READERS = Shared(
    "readers beside each other are no circle",
    (process(unit(READ_A, B, gap=0.1)), process(unit(B, READ_A, after=0.05, gap=0.1))),
)
PERMITS = Permits(
    "a unit that waits for one of two permits is not in a circle",
    (
        process(unit(PERMIT, B, gap=0.1)),
        process(unit(B, PERMIT, after=0.02, gap=0.1)),
        process(unit(PERMIT, after=0.04, work=0.6)),
    ),
)
WRITER_BETWEEN = Shared(
    "a circle of readers, with a writer in line between them",
    (
        process(unit(READ_A, B, gap=0.1)),
        process(unit(WRITE_A, after=0.05)),
        process(unit(B, READ_A, after=0.02, gap=0.1)),
    ),
)
# Both wait for ever, as it seems; but the first lock is released by another unit.
LENT = Circle(
    "2 processes in a circle, 1 of whose locks another unit releases",
    (lender(A, B, AFTER + 0.3), process(unit(B, A, after=0.05))),
)
# The second gives up, and the third begins to wait a moment later.
FADING = Three(
    "3 edges of a circle that are never there together",
    (
        process(unit(A, B, after=0.02)),
        process(unit(B, C, after=0.01, timeout=AFTER + 0.05, work=0.1)),
        process(unit(C, A, gap=AFTER + 0.08)),
    ),
)


def slow_and_set_back(scenario, world):
    """Keep a probe from the third process until its wait has begun, which seems to be the oldest.

    Without that the youngest wait alone could refuse itself, and it looks when the others stand.
    """
    client = world.client(shared=scenario.shared, keeper=False)
    world.monitor.skewed = True

    async def slows(port):
        await port.sleep(port.now() + AFTER)
        third = world.clients[2]
        third.port.hear_soon()  # as a real port does for a lease that lasts
        for link in third.links:
            if link.channel == third.port.client_channel:
                link.blocked_down_us = world.now_us + 120_000
        await port.sleep(port.now() + 0.07)
        world.server.skew_us -= 500_000

    world.start(client, slows(client.port))


SKEWED = Three(
    "3 edges that are never there together, and a clock set back",
    (*FADING.roles, slow_and_set_back),
)
EXPIRING = Circle(
    "2 processes in a circle, with leases that end",
    (
        process(unit(A, B, gap=0.1, options=TERMS._replace(renew=False, ttl=0.5))),
        process(BA),
    ),
)
# A unit of one process each, so that few orders differ; and those with more orders.
SMALL = (
    *(
        TWO,
        SAME_ORDER,
        BEHIND,
        OF_A_TURN,
        ITSELF,
        ITSELF_IN_TURN,
        ITSELF_WITH_A_PERMIT,
        ROUND,
        BACK,
        ENDING,
        BYSTANDER,
    ),
    *(WRITER, READERS, PERMITS, WRITER_BETWEEN, LENT, FADING, SKEWED, EXPIRING),
)
LARGE = (AT_ONCE, TOGETHER, IN_TURNS, UPGRADE)
ORDERED = (IN_TURNS, UPGRADE)  # of the large ones, whose orders can all be tried for threads, too
# Those whose schedules stay few under a fault, so that all of them are tried.
UNDER_FAULTS = (TWO, OF_A_TURN, WRITER, PERMITS, FADING)
# What their judge knows of.
FAULTS = ("lost", "wake", "noise", "crash", "cancel", "restart")
