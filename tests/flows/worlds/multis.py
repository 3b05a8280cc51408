"""What is explored of ``multi``: processes that take two locks, in worlds with a monitor for each.

``Each`` stands in the place of a world's monitor and asks one for every lock.
"""

import functools
from dataclasses import dataclass
from typing import Any

from fencelock._core.keys import LockKeys
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.terms import Terms
from fencelock._core.objects import multi
from fencelock._core.objects.semaphore_rwlock import ALL, READ, RWLOCK, SEMAPHORE, WRITE, ShareTerms
from fencelock.errors import LeaseLost
from fencelock.options import LeaseOptions
from tests.flows.worlds.locks import FIXED, RENEWED, Scenario, process, rests
from tests.flows.worlds.runs_once import errors, long_enough, was_notified
from verification.simulator.actors import Actor, _Watch
from verification.simulator.monitor import Monitor, Violation
from verification.simulator.shares import SharesMonitor
from verification.simulator.shares import read as read_shares
from verification.simulator.view import at

SHORT = LeaseOptions(
    ttl=1.5, renew=True
)  # shorter than the lease with which a handed-over one starts
BOTH = (LockKeys("", "a"), LockKeys("", "b"))


@dataclass(frozen=True)
class Part:
    """A part of a multi that is no plain lock: permits of a semaphore, or a side."""

    keys: LockKeys
    kind: bytes = SEMAPHORE
    limit: int = 1
    permits: int = 1

    @property
    def lock(self):
        return self.keys.lock

    def request(self, port, options):
        template = ShareTerms(
            keys=self.keys,
            options=options,
            client_channel=port.client_channel,
            ttl=options.ttl,
            kind=self.kind,
            limit=self.limit,
            permits=self.permits,
        )
        return Hold(template, port.new_id(), b"{}")


@functools.lru_cache(maxsize=100_000)
def of_one(state, keys):
    """Return what a frozen keyspace has of these keys."""
    return frozenset(each for each in state if each[0] in keys)


class _OfOne:
    """What a monitor does for one of several: it looks at its keys only."""

    def __init__(self, world, keys):
        super().__init__(world)
        self._keys = frozenset(keys.all)

    def _state(self):
        return of_one(self._server.state, self._keys)

    def served(self, request, before):
        """Judge what a request changed, if it was about this lock."""
        if not request.keys or self._keys.intersection(request.keys):
            super().served(request, before)

    def _waiting(self):
        for request in super()._waiting():
            if request.keys.lock in self._keys:
                yield request

    def _unaware(self):
        """Leave out who waits for the other lock: it knows that it has this one."""
        return {request.holder_id for request in self._waiting()}


class One(_OfOne, Monitor):
    """The monitor of one of several locks."""

    def view(self):
        """Return this lock as it stands on the server."""
        return at(self._state(), self._server.now_us)


class OneShared(_OfOne, SharesMonitor):
    """The monitor of one part that is no plain lock."""

    def raw(self):
        """Return its permits in the keyspace."""
        return read_shares(self._state())


class Each:
    """The monitors of all locks; what is asked of one is asked of the one that is meant."""

    def __init__(self, world, locks=BOTH, one=One):
        self._world = world
        self.by_lock = {
            each.lock: OneShared(world, each.keys) if isinstance(each, Part) else one(world, each)
            for each in locks
        }
        self.all = list(self.by_lock.values())
        self.flows = None
        self.pause_us = Monitor.pause_us

    async def keep(self, port):
        while True:
            await port.mind()
            await self.flows.maintain(port)

    @property
    def holds(self):
        return [each for monitor in self.all for each in monitor.holds]

    def heard_revocation(self, client, holder):
        for monitor in self.all:
            monitor.heard_revocation(client, holder)

    def asks(self, client, request):
        self.by_lock[request.keys.lock].asks(client, request)

    def holds_now(self, client, hold):
        self.by_lock[hold.terms.keys.lock].holds_now(client, hold)

    def told(self, hold):
        self.by_lock[hold.terms.keys.lock].told(hold)

    def was_revoked(self, hold):
        return self.by_lock[hold.terms.keys.lock].was_revoked(hold)

    def is_punctual(self, client):
        return self.all[0].is_punctual(client)

    def view(self):
        """Return all locks; it has a holder when one of them has."""
        return Views(monitor.view() for monitor in self.all)

    def end_us(self):
        return max(monitor.end_us() for monitor in self.all if monitor.view().holder)

    def key(self):
        return tuple(monitor.key() for monitor in self.all)

    def served(self, request, before):
        for monitor, view in zip(self.all, before, strict=True):
            monitor.served(request, view)

    def flushed(self):
        for monitor in self.all:
            monitor.flushed()

    def check(self):
        for monitor in self.all:
            monitor.check()

    def passing(self, instant):
        for monitor in self.all:
            monitor.passing(instant)

    def is_haunted(self):
        for monitor in self.all:
            monitor.is_haunted()

    def failed_over(self):
        for monitor in self.all:
            monitor.failed_over()

    def replaced(self):
        for monitor in self.all:
            monitor.replaced()

    def stood_still(self):
        for monitor in self.all:
            monitor.stood_still()

    def end(self):
        for monitor in self.all:
            monitor.end()


class Views(tuple):
    """The locks at one instant."""

    __slots__ = ()

    @property
    def holder(self):
        return next((view.holder for view in self if view.holder), None)


@dataclass(frozen=True)
class Multis(Scenario):
    """Two locks, which clients take together."""

    monitor: Any = Each
    locks = BOTH

    def world(self, server, traced):
        made = super().world(server, traced)
        made.monitor = self.monitor(made, self.locks)
        return made


class WithPermit(Multis):
    """The same, where the second is the only permit of a semaphore."""

    locks = (BOTH[0], Part(BOTH[1]))


class WithSide(Multis):
    """The same, where the second is the write side of a reader/writer lock."""

    locks = (BOTH[0], Part(BOTH[1], RWLOCK, ALL, WRITE))


READS = (BOTH[0], Part(BOTH[1], RWLOCK, ALL, READ))


def requests_of(actor, locks, options):
    """Return what makes fresh requests for these locks, each known to the monitor."""
    port = actor.port

    def requests():
        made = []
        for each in locks:
            if isinstance(each, Part):
                made.append(each.request(port, options))
            else:
                template = Terms(
                    keys=each, options=options, client_channel=port.client_channel, ttl=options.ttl
                )
                made.append(Hold(template, port.new_id()))
            made[-1].registry = _Watch(actor)
            actor.world.monitor.asks(actor.client, made[-1])
        return made

    return requests


def both(*, timeout=None, work=0.0, locks=BOTH, options=RENEWED, rounds=1):
    """A process that takes all locks, works and gives them back."""

    async def turn(actor: Actor):
        port, world = actor.port, actor.world
        asked_at = port.now()
        holds = await multi.acquire_all(port, requests_of(actor, locks, options), timeout)
        if holds is None:
            if timeout and world.monitor.is_punctual(actor.client):
                actor._in_time(asked_at + timeout)
            return
        if len(holds) != len(locks):
            raise Violation("I1", f"{len(holds)} of {len(locks)} locks were granted")
        if any(hold.lost for hold in holds):
            raise Violation("I8", "it was granted with a lease that is lost")
        try:
            await rests(actor, work)
            for hold in holds if work else ():  # until then the first ones ran alone
                long_enough(actor, hold, port.now() - hold.granted_at)
        finally:
            await give_back(actor, holds)

    async def takes(actor: Actor):
        for _ in range(rounds):
            with errors(actor, timeout):
                await turn(actor)

    return process(takes)


async def give_back(actor, holds):
    """Give back; a refusal must have its reason."""
    try:
        await multi.release_all(actor.port, lambda taken: taken.extend(holds))
    except LeaseLost as loss:
        lost = next(hold for hold in holds if hold.name == loss.name)
        proved = actor.port.now() < lost.deadline
        if proved and not actor.world.monitor.was_revoked(lost):
            raise Violation("I4", f"a release of a proved lease was refused: {loss}") from loss
        was_notified(lost)
        raise


def one(number, **options):
    """A process that takes just one of the locks."""
    return both(locks=BOTH[number : number + 1], **options)


ALONE = Multis("multi, 1 alone", (both(),))
TWO = Multis("multi, 2 of both", (both(),) * 2, alike=True, large=True)
THREE = Multis("multi, 3 of both", (both(),) * 3, alike=True)
WORKING = Multis("multi, 2 of both, 1 s of work", (both(work=1.0),) * 2, alike=True)
LONG = Multis("multi, 2 of both, 4 s of work", (both(work=4.0),) * 2, alike=True)
TRIES = Multis("multi, 3 tries", (both(timeout=0.0),) * 3, alike=True)
IMPATIENT = Multis("multi, 2 giving up", (both(work=1.5, timeout=1.0),) * 2, alike=True)
BESIDE_FIRST = Multis("multi, 1 of both, 1 of the first", (both(), one(0, work=0.5)))
BESIDE_LAST = Multis("multi, 1 of both, 1 of the last", (one(1, work=0.5), both()), large=True)
BESIDE_LAST_IMPATIENT = Multis(
    "multi, 1 of both giving up, 1 of the last", (one(1, work=1.5), both(timeout=1.0)), deep=True
)
FIXED_TWO = Multis(
    "multi, 2 of both, fixed, 0.5 s of work", (both(work=0.5, options=FIXED),) * 2, alike=True
)
# It is judged before a short lease can have grown: a fixed one has its whole length at once.
FIXED_BRIEF = Multis(
    "multi, 2 of both, fixed, 0.2 s of work", (both(work=0.2, options=FIXED),) * 2, alike=True
)
TWICE = Multis("multi, 2 of both, twice", (both(rounds=2, work=0.2), both(rounds=2)))
TWO_TWICE = Multis("multi, 2 of both, 1 twice", (both(rounds=2), both()))
SHORT_BESIDE = Multis(
    "multi, 1 of both, 1 short of both", (both(work=0.5), both(work=1.0, options=SHORT))
)
OVERTAKING = Multis(
    "multi, 2 of the first, 1 tries both", (one(0, work=0.5), one(0), both(timeout=0.0))
)
CROSSED = Multis("multi, 1 of both, 1 of each", (one(1, work=0.5), one(0, work=0.2), both()))

# -- with permits and sides ------------------------------------------------------------------------

PERMIT, SIDE = WithPermit.locks, WithSide.locks
PERMIT_ALONE = WithPermit("multi with a permit, 1 alone", (both(locks=PERMIT),))
PERMIT_TWO = WithPermit(
    "multi with a permit, 2 of both", (both(locks=PERMIT),) * 2, alike=True, large=True
)
PERMIT_WORKING = WithPermit(
    "multi with a permit, 2 of both, 1 s of work", (both(locks=PERMIT, work=1.0),) * 2, alike=True
)
PERMIT_LONG = WithPermit(
    "multi with a permit, 2 of both, 4 s of work", (both(locks=PERMIT, work=4.0),) * 2, alike=True
)
PERMIT_TRIES = WithPermit(
    "multi with a permit, 2 tries", (both(locks=PERMIT, timeout=0.0),) * 2, alike=True
)
PERMIT_BESIDE = WithPermit(
    "multi with a permit, 1 of both, 1 of the permit",
    (both(locks=PERMIT[1:], work=0.5), both(locks=PERMIT)),
)
PERMIT_IMPATIENT = WithPermit(
    "multi with a permit, 1 of both giving up, 1 of the permit",
    (both(locks=PERMIT[1:], work=1.5), both(locks=PERMIT, timeout=1.0)),
    large=True,
)
SIDES = WithSide(
    "multi with a side, 1 reads, 1 writes, 1 reads beside",
    (both(locks=READS, work=0.5), both(locks=SIDE), both(locks=READS[1:])),
)
