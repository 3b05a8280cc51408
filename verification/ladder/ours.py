"""fencelock on the ladder: the same judge over the shipping flows and scripts.

Two questions: does any schedule within stated bounds break it (``Bound``), and what remains
possible that no lock can rule out (``REMAINS``): there a fence must make it harmless.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fencelock._core.lock.hold import Hold
from fencelock.options import LeaseOptions
from tests.flows.worlds import locks, shares
from tests.flows.worlds.locks import Scenario
from verification.ladder.judge import Bench, Claim, told
from verification.ladder.rung import Break
from verification.simulator.actors import Actor, Flows
from verification.simulator.explorer import Report, explore
from verification.simulator.monitor import Monitor, Violation
from verification.simulator.network import Client
from verification.simulator.server import Request, Server
from verification.simulator.simulation import World

STALE = "a stale write, which the fence refused"
NAME = b"lock"


class Ours(Bench):
    """Lets a judge of the invariants judge claims, too; a claim is a lease that can be proved."""

    timeless = True
    pause_us = 1_000_000
    holds: list[tuple[Client, Hold]]

    def __init__(self, world: Any) -> None:
        super().__init__(world)
        self.flows = Flows()

    def holds_now(self, client: Client, hold: Hold) -> None:
        """Note a lease that a flow returned."""
        super().holds_now(client, hold)  # type: ignore[misc]  # the judge of the invariants
        reads = getattr(hold.terms, "permits", shares.ALL) < shares.ALL
        lasts: Callable[[], bool] = lambda: proved(hold)  # noqa: E731 - shortest so
        self.claims.append(Claim(client, NAME, frozenset(), reads, lasts))
        self.note(client, f"● has the lock, fence {hold.fence}")

    def check(self) -> None:
        """Check the invariants, and that no two claims exclude each other."""
        super().check()  # type: ignore[misc]  # the judge of the invariants
        self.exclude()

    def write(self, client: Client, fence: int) -> None:
        """Write to the protected resource; what it refuses is a stale write."""
        if fence < self.written:
            self.breaks(STALE, f"{client.name} wrote with fence {fence} after {self.written}")
        super().write(client, fence)


def proved(hold: Hold) -> bool:
    """Return True if a holder can still prove its lease."""
    return hold.open and not hold.notified and hold.remaining() > 0.0


def with_claims(base: type[Monitor]) -> type[Monitor]:
    """Return a judge of the invariants that judges claims, too; what breaks ends the search."""

    class Both(Ours, base):  # type: ignore[misc, valid-type]  # made for each kind of judge
        pause_us = base.pause_us

        def __init__(self, world: Any) -> None:
            base.__init__(self, world)
            Ours.__init__(self, world)

        def check(self) -> None:
            super().check()
            for name, how in self.broken.items():
                raise Violation(name, how)

    return Both


# -- no schedule breaks it ------------------------------------------------------------------------

FAULTS = ("crash", "pause", "late", "lost", "expiry", "cancel")
ONE_FAULT = (
    locks.TWO,
    locks.TWO_WORKING,
    locks.TWO_LONG,
    locks.TWO_TOO_LONG,
    locks.TRIES,
    locks.THREE,
    shares.SIDES,
)
TWO_FAULTS = (locks.TWO,)


@dataclass(frozen=True)
class Bound:
    """What fencelock was explored with, to the end."""

    scenario: Scenario
    faults_max: int

    def build(self, server: Server, traced: bool) -> World:  # noqa: FBT001 - as an explorer calls it
        scenario = self.scenario
        world = World(
            server,
            budgets=dict.fromkeys(FAULTS, 1),
            faults_max=self.faults_max,
            symmetric=scenario.alike,
            push_first=scenario.push_first,
            traced=traced,
            monitor=with_claims(scenario.monitor),
        )
        world.monitor.flows = scenario.flows
        for role in scenario.roles:
            role(scenario, world)
        return world

    @cached_property
    def report(self) -> Report:
        """Explore it, once."""
        return self.search(seconds=120.0)

    def search(self, *, seconds: float) -> Report:
        """Explore it, for at most so long."""
        return explore(self.build, Server(self.scenario.sources), seconds=seconds)


def bounds(faults_max: int, scenarios: tuple[Scenario, ...]) -> list[Bound]:
    """Return the scenarios with tasks of a loop and with threads, under so many faults."""
    return [Bound(way, faults_max) for each in scenarios for way in (each, each.threads())]


BOUNDS = [*bounds(1, ONE_FAULT), *bounds(2, TWO_FAULTS)]


# -- what remains ---------------------------------------------------------------------------------


class Fenced(Ours, Monitor):
    """Judges what remains: fencelock, and a resource that looks at fences."""

    def __init__(self, world: Any) -> None:
        Monitor.__init__(self, world)
        Ours.__init__(self, world)

    def failed_over(self) -> None:
        """Note that a replica serves now: what it has not got is forgotten, which is said."""
        self.flushed()

    def served(self, request: Request, before: Any) -> None:
        """Note the request for the chart, and judge it."""
        client = next(each for each in self._world.clients if sent(each, request))
        answer = told(request, client).rpartition(" → ")[2]
        self.note(client, f"{request.name}.lua → {'renewed' if answer == '()' else answer}")
        super().served(request, before)

    def told(self, hold: Hold) -> None:
        """Note that a holder was notified of its loss."""
        super().told(hold)
        client = next(client for client, each in self.holds if each is hold)
        self.note(client, "○ is notified that its lease is lost")


def sent(client: Client, request: Request) -> bool:
    """Return True if a request, which was just served, is this process's."""
    return any(item.request is request for link in client.links for item in link.down)


@dataclass(frozen=True)
class Writes:
    """A process that tries once, and writes at the beginning and the end of its work."""

    work: float
    after: float = 0.0

    def mended(self, _: object) -> "Writes":
        """Return the same: nothing mends what remains."""
        return self

    def __call__(self, world: World) -> None:
        client = world.client(shared=True)
        world.start(client, life(Actor(world, client, Flows()), self.work, self.after))

    def __str__(self) -> str:
        comes = f"comes after {self.after} s and " if self.after else ""
        return f"{comes}works {self.work} s"


async def life(actor: Actor, work: float, after: float) -> None:
    port, judge = actor.port, actor.world.monitor
    assert isinstance(judge, Ours)
    if after:
        await port.sleep(port.now() + after)
    hold = await actor.acquire(actor.request(LeaseOptions(ttl=1.0, renew=True)), 0.0)
    if hold is None:
        return
    judge.write(actor.client, hold.fence)
    await port.sleep(port.now() + work)
    if proved(hold):
        judge.note(actor.client, "sees that its lease is valid")
        await port.sleep(port.now())  # between the look and the write anything may happen
        judge.write(actor.client, hold.fence)
    await actor.release(hold)


REMAINS = (
    Break(
        STALE,
        (Writes(work=0.5), Writes(work=0.5, after=1.4)),
        "A checks its lease, finds it valid, and stands still between this check and its write. No"
        " lock can prevent that. The write carries A's fence, and B has written with a later one.",
        {"pause": 1},
        monitor=Fenced,  # type: ignore[arg-type]  # it has what a Break needs
    ),
    Break(
        STALE,
        (Writes(work=0.3), Writes(work=0.5, after=0.2)),
        "The promoted replica did not receive the grant. A is notified at its next renewal, a third"
        " of the ttl later at most; until then both are at work. Fences grow with the server's"
        " clock, so B's is still greater.",
        {"failover": 1},
        replicated=True,
        monitor=Fenced,  # type: ignore[arg-type]  # it has what a Break needs
    ),
)
