"""What is explored of other objects in pairs: each two calls of one client, and a revocation.

As in pairs.py: at one instant each call begins in a task of its own, on one handle.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from fencelock._core.lock.hold import Hold
from fencelock._core.lock.renew import renew_now
from fencelock._core.objects import election, multi, once
from fencelock._core.objects.semaphore_rwlock import release_permits, set_limit
from fencelock.errors import ClientClosed, FencelockError, LeaseLost, NotHeld
from tests.flows.worlds import elections, multis, runs_once, shares
from tests.flows.worlds.elections import Watched, candidate
from tests.flows.worlds.locks import RENEWED, break_lock, process, quietly
from tests.flows.worlds.meetings import (
    BACKGROUND,
    BEFORE,
    CANCEL,
    TIMES,
    HearingPort,
    Noting,
    Table,
)
from tests.flows.worlds.multis import BOTH, Each, requests_of
from tests.flows.worlds.pairs import (
    ENDS,
    LONGER,
    REST,
    START_US,
    Pairs,
    StrictMonitor,
    at_the_instant,
)
from verification.simulator.actors import Actor, _Watch
from verification.simulator.monitor import Violation, proves
from verification.simulator.shares import ShareActor, SharesMonitor

EARLIER = 0.02  # so much before the calls begin, an operator acts and is heard


class Registry(_Watch):
    """The holds of one handle, which tasks take out to release."""

    def __init__(self, actor):
        super().__init__(actor)
        self.holds = []

    def add(self, hold):
        super().add(hold)
        self.holds.append(hold)

    def remove(self, hold):
        if hold not in self.holds:
            return False
        self.holds.remove(hold)
        return True

    def keeps(self, hold):
        return hold in self.holds

    def take(self, taken):
        """Take all of them out, as a release does."""
        if not self.holds:
            raise NotHeld("it is not held", name="lock")
        taken += self.holds
        self.holds = []


class Desk:
    """A part of an actor: its tasks share a handle; each call notes that it is under way."""

    registry = None
    closed = False
    given_up = False  # a task of this client has released, closed, or handed over

    async def until_start(self, later=0.0):
        await self.port.sleep(self.client.local(START_US + int(later * 1e6)))

    @contextlib.contextmanager
    def call(self, name, *, gives_up=False):
        """Note a call; see that it ends as one may that another task has overtaken."""
        with self.world.monitor.under_way(self.client, name):
            self.given_up |= gives_up
            try:
                yield
            except (NotHeld, ClientClosed):
                if not self.given_up:
                    raise
            except LeaseLost as loss:
                if not (self.given_up or loss.reason == "revoked" or self.world.faulty):
                    raise Violation("I8", f"without any fault: {loss!r}") from loss
            except FencelockError as error:
                if not self.world.faulty:
                    raise Violation("I12", f"without any fault: {error!r}") from error

    async def closes(self):
        """Close the client, and give back what it holds, as both real ports do."""
        with self.call("close", gives_up=True):
            self.port.lines.close(self.port.wake)
            self.closed = await self.port.give_back_all(self.port.now() + 2.0)

    async def give_back_own(self, *holds):
        """Release what a call has acquired, unless another task did."""
        for hold in holds:
            if hold is not None and self.registry.remove(hold) and not hold.closed:
                await Actor.release(self, hold)

    async def background(self):
        """Do nothing: the leases are due for their renewal at this instant."""

    async def renew_longer(self):
        with self.call("renew longer"):
            for hold in self.registry.holds[:1]:
                await renew_now(self.port, hold, LONGER)


def takes(desk, take, *calls):
    """A client that takes what the world is about, and makes these calls, each in a task."""

    async def makes(one, call):
        await one.until_start()
        await call(one)

    async def holds(one):
        one.registry = Registry(one)
        one.port.hear_soon()
        try:
            await take(one)
        except FencelockError:
            if not one.world.faulty:
                raise
            return
        if one.background.__func__ in calls:
            one.port.renewals.move(one.registry.holds, one.client.local(START_US - 1))
        try:
            for call in calls:
                one.world.start(one.client, quietly(makes(one, call), *ENDS))
            await one.until_start(REST)
        finally:
            if one.closed and any(proves(hold) for hold in one.registry.holds):
                raise Violation("I9", "a client that has given all back holds some")
            await one.give_back()

    return process(holds, actor=desk, ends=ENDS)


async def nothing(_one):
    """Take nothing before the calls."""


def breaks(operator, earlier=0.0):
    """An operator who acts as the calls begin, or so much earlier."""

    async def acts(actor):
        with contextlib.suppress(FencelockError):
            await operator(actor)

    return at_the_instant(acts, earlier)


HAS_NOTHING = "no revocation reaches a client that holds nothing"
NOTHING_LEFT = "nothing is left to renew"


@dataclass(frozen=True, kw_only=True)
class Kind(Table):
    """A kind of object: its calls, each in one way or several, and who else is in its worlds."""

    scenario: Callable[..., Any]
    desk: type
    take: Callable[..., Any]  # what the client has before the calls
    beside: tuple[Any, ...]  # who waits for it
    operator: Callable[..., Any]
    before: Mapping[frozenset[str], Callable[..., Any]] = field(default_factory=dict)  # just these
    in_the_way: tuple[Any, ...] = ()  # who has a part of it, so that it is waited for

    def world(self, calls, *others, title=""):
        """Return a world of these calls, each a name and a way to make it."""
        names = frozenset(name for name, _ in calls) - {"close"}
        roles = (
            takes(self.desk, self.before.get(names, self.take), *(way for _, way in calls)),
            *others,
        )
        ways = " and ".join(way.__name__ for _, way in calls)
        return self.scenario(f"pairs: {self.name}, {ways}{title}", roles)

    def ways(self, name):
        return [(name, way) for way in self.calls[name]]

    def worlds_of(self, one, other):
        if other == CANCEL:
            for way in self.ways(one):
                yield self.world((way,), *self.beside).under(cancel=1)
            return
        for ways in product(self.ways(one), self.ways(other)):
            yield self.world(ways, *self.beside)

    def revoked(self, call):
        for way in self.ways(call):
            yield from self.revoked_beside(way)

    def revoked_beside(self, way):
        beside = self.world((way,), breaks(self.operator), title=", revoked")
        yield beside
        yield beside.under(late=2)
        if self.in_the_way and self.before.get(frozenset(way[:1])) is nothing:
            others = (breaks(self.operator), *self.in_the_way)
            yield self.world((way,), *others, title=" in line, revoked")
        yield self.world((way,), breaks(self.operator, EARLIER), title=", revoked before")


# -- permits ---------------------------------------------------------------------------------------


class PermitMonitor(Noting, SharesMonitor):
    """Judges permits, and notes what meets."""


class PermitDesk(Desk, ShareActor):
    """A client whose tasks share the handle of a semaphore of two permits."""

    async def take_both(self):
        await self.acquire(self.request_permits(RENEWED, 2))

    async def acquire(self, request, timeout=None):
        self.world.monitor.asks(self.client, request)
        request.unit, request.registry = self, self.registry
        return await self.flows.acquire(self.port, request, timeout)

    def permits(self, count):
        """Return what takes permits out of the handle, as ``SemaphoreHolds.take_permits``."""

        def take(parts):
            left = count
            for hold in reversed(self.registry.holds[:]):
                if left > 0:
                    keep = max(0, hold.count - left)
                    left -= hold.count - keep
                    parts.append((hold, keep))
                    hold.count = keep
                    if not keep:
                        self.registry.remove(hold)
            if not parts:
                raise NotHeld("it is not held", name="lock")

        return take

    async def gives_one(self):
        with self.call("give back one", gives_up=True):
            await release_permits(self.port, self.permits(1))

    async def gives_all(self):
        with self.call("give back all", gives_up=True):
            await release_permits(self.port, self.permits(2))

    async def give_back(self):
        self.given_up = True
        while self.registry.holds:
            await self.gives_all()

    async def asks(self):
        hold = None
        with self.call("acquire a permit"):
            hold = await self.acquire(self.request_permits(RENEWED))
        await self.give_back_own(hold)

    async def raises(self):
        await self.sets(3)

    async def lowers(self):
        await self.sets(1)

    async def sets(self, limit):
        with self.call("set the limit"):
            await set_limit(self.port, self.request_permits(RENEWED).terms, limit)


PERMITS = Kind(
    "permits",
    {
        "give back one": (PermitDesk.gives_one,),
        "give back all": (PermitDesk.gives_all,),
        "acquire a permit": (PermitDesk.asks,),
        "set the limit": (PermitDesk.raises, PermitDesk.lowers),
        "renew longer": (PermitDesk.renew_longer,),
        BACKGROUND: (PermitDesk.background,),
        "close": (PermitDesk.closes,),
    },
    scenario=lambda name, roles: Pairs(name, roles, monitor=PermitMonitor),
    desk=PermitDesk,
    take=PermitDesk.take_both,
    beside=(shares.taker(work=0.01),),
    operator=shares.break_permits,
    unheard=((BEFORE, {BACKGROUND}, NOTHING_LEFT),),
)


# -- elections -------------------------------------------------------------------------------------


class ElectionMonitor(Noting, Watched):
    """Judges an election, and notes what meets."""


@dataclass(frozen=True)
class ElectionPairs(elections.Election):
    """An election whose monitor notes what meets."""

    monitor: Any = ElectionMonitor
    port = HearingPort


class Candidate(Desk, Actor):
    """A client whose tasks share the handle of a candidate."""

    async def take_lead(self):
        request = elections.request(self.port, "ann")
        self.world.monitor.asks(self.client, request)
        request.unit, request.registry = self, self.registry
        return await self.flows.acquire(self.port, request, None)

    async def campaigns(self):
        hold = None
        with self.call("campaign"):
            hold = await self.take_lead()
        await self.give_back_own(hold)

    async def hands_over(self):
        await self.hands_over_to("bob")

    async def hands_over_in_vain(self):
        await self.hands_over_to("nobody")

    async def hands_over_to(self, name):
        with self.call("hand over", gives_up=name == "bob"):
            holds = self.registry.holds
            if holds:
                keys = elections.KEYS
                await election.Contest(self.port, keys).hand_over(holds[0], self.registry, name)

    async def resigns(self):
        with self.call("resign", gives_up=True):
            await self.resign()

    async def resign(self):
        await release_all_of(self)
        election.Contest(self.port, elections.KEYS).announce()

    async def give_back(self):
        self.given_up = True
        await quietly(self.resign(), *ENDS)


async def release_all_of(one):
    """Release what the handle has, as ``take_out`` and ``release`` do."""
    taken = []
    one.registry.take(taken)
    for hold in taken:
        if not hold.closed:
            await Actor.release(one, hold)


ELECTION = Kind(
    "election",
    {
        "hand over": (Candidate.hands_over, Candidate.hands_over_in_vain),
        "resign": (Candidate.resigns,),
        "campaign": (Candidate.campaigns,),
        "renew longer": (Candidate.renew_longer,),
        BACKGROUND: (Candidate.background,),
        "close": (Candidate.closes,),
    },
    scenario=ElectionPairs,
    desk=Candidate,
    take=Candidate.take_lead,
    beside=(candidate("bob", late=0.01),),
    operator=break_lock,
    before={frozenset({"campaign"}): nothing},
    unheard=((BEFORE, {"campaign"}, HAS_NOTHING), (BEFORE, {BACKGROUND}, NOTHING_LEFT)),
)


# -- several locks ---------------------------------------------------------------------------------


class MultiMonitor(Noting, Each):
    """Judges each lock, and notes what meets."""


@dataclass(frozen=True)
class MultiPairs(multis.Multis):
    """Two locks whose monitor notes what meets."""

    monitor: Any = MultiMonitor
    port = HearingPort


class MultiDesk(Desk, Actor):
    """A client whose tasks share the handle of a multi."""

    async def take_both(self):
        holds = await multi.acquire_all(self.port, requests_of(self, BOTH, RENEWED), None)
        self.registry.holds += holds or ()
        return holds or ()

    async def asks(self):
        holds = ()
        with self.call("acquire all"):
            holds = await self.take_both()
        await self.give_back_own(*holds)

    async def releases(self):
        with self.call("release all", gives_up=True):
            await multi.release_all(self.port, self.registry.take)

    async def renews(self):
        with self.call("renew all"):
            await self.port.renew(list(self.registry.holds), LONGER)

    async def give_back(self):
        self.given_up = True
        await quietly(self.releases(), *ENDS)


MULTI = Kind(
    "multi",
    {
        "acquire all": (MultiDesk.asks,),
        "release all": (MultiDesk.releases,),
        "renew all": (MultiDesk.renews,),
        BACKGROUND: (MultiDesk.background,),
        "close": (MultiDesk.closes,),
    },
    scenario=MultiPairs,
    desk=MultiDesk,
    take=MultiDesk.take_both,
    beside=(multis.both(work=0.01),),
    operator=lambda actor: break_lock(actor, BOTH[0]),
    before={frozenset({"acquire all"}): nothing},
    in_the_way=(multis.one(1, work=START_US / 1e6 + REST),),
    unheard=((BEFORE, {"acquire all"}, HAS_NOTHING),),
)


# -- once ------------------------------------------------------------------------------------------


class Runner(Desk, Actor):
    """A client whose tasks run something once, and forget its result."""

    async def begin(self):
        await self.start()

    async def start(self):
        port = self.port
        request = Hold(runs_once.terms_at(port), port.new_id(), b'{"once":1}')
        self.world.monitor.asks(self.client, request)
        request.registry = self.registry
        return await once.Runs(port, runs_once.ONCE).start(request, None)

    async def starts(self):
        begun = None
        with self.call("start"):
            begun = await self.start()
        await self.give_back_own(begun if isinstance(begun, Hold) else None)

    async def finishes(self):
        holds = self.registry.holds
        with self.call("finish", gives_up=True):
            if holds:
                result = ("json", b"1")
                runs = once.Runs(self.port, runs_once.ONCE)
                await runs.finish(holds[0], self.registry, runs_once.WITHIN, result)

    async def forgets(self):
        with self.call("forget"):
            await once.Runs(self.port, runs_once.ONCE).forget()

    async def give_back(self):
        self.given_up = True
        await quietly(release_all_of(self), *ENDS)


async def done_before(one):
    """Have it run, so that there is a result."""
    await one.begin()
    await one.finishes()
    one.given_up = False


ONCE = Kind(
    "once",
    {
        "start": (Runner.starts,),
        "finish": (Runner.finishes,),
        "forget": (Runner.forgets,),
        "renew longer": (Runner.renew_longer,),
        BACKGROUND: (Runner.background,),
        "close": (Runner.closes,),
    },
    scenario=lambda name, roles: Pairs(name, roles, monitor=StrictMonitor),
    desk=Runner,
    take=Runner.begin,
    beside=(runs_once.runner(),),
    operator=break_lock,
    before={
        frozenset({"start"}): nothing,
        frozenset({"forget"}): done_before,
        frozenset({"start", "forget"}): done_before,
    },
    unheard=(
        (BEFORE, {"start"}, HAS_NOTHING),
        (BEFORE, {BACKGROUND}, NOTHING_LEFT),
        (TIMES, {"forget"}, HAS_NOTHING),
    ),
)

KINDS = (PERMITS, ELECTION, MULTI, ONCE)
ALL = tuple(
    {each.name: each for kind in KINDS for row in kind.rows() for each in row.worlds}.values()
)
