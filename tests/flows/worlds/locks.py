"""What is explored: who does what, in how many processes, and which faults may strike."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ClassVar

from fencelock._core.engine import Engine
from fencelock._core.lock import acquire, release
from fencelock._core.lock.maintain import Renewer
from fencelock._core.look.show import Looker
from fencelock._core.types import NoReply
from fencelock.errors import FencelockError
from fencelock.options import LeaseOptions
from fencelock.scripts import BREAK, POLL_RELEASE
from verification.simulator.actors import GAVE_UP, KEYS, Actor, Flows
from verification.simulator.explorer import Report, explore
from verification.simulator.monitor import Monitor, Violation
from verification.simulator.port import SimulatedPort
from verification.simulator.server import Server
from verification.simulator.simulation import World

# Short enough that a lease, its renewals and a waiter's looks fit into one schedule.
TTL = 3.0
RENEWED = LeaseOptions(ttl=TTL, renew=True)
FIXED = LeaseOptions(ttl=TTL, renew=False)
POLLED = LeaseOptions(ttl=TTL, renew=True, plain=True, interval=0.5)
# For one exploration: more than any machine needs for what a test explores whole.
SECONDS = 600.0


def shipping() -> Flows:
    """Return the flows as the modules have them now."""
    return Flows(acquire.acquire, release.release, Engine.maintain)


# What one process does: starts its tasks.
Role = Callable[[World, Flows], None]


@dataclass(frozen=True)
class Scenario:
    """One world. ``shared``: processes with one connection each, as asyncio has it."""

    name: str
    roles: tuple[Role, ...]
    budgets: dict[str, int] = field(default_factory=dict)
    shared: bool = True
    alike: bool = False  # the processes differ in nothing but their names
    large: bool = False  # with a fault its exploration takes seconds: it waits for the night
    push_first: bool = False
    flows: Flows = field(default_factory=shipping)
    sources: dict[str, bytes] = field(default_factory=dict)
    monitor: type[Monitor] = Monitor
    replicas: Callable[[Any], Any] | None = None  # who must acknowledge to a port
    events: bool = False  # what hooks are told is checked, too
    deep: bool = False  # its newest schedules are prolonged first: see explorer.py
    port: ClassVar[type[SimulatedPort]] = SimulatedPort

    @property
    def title(self) -> str:
        return f"{self.name}, {'asyncio' if self.shared else 'threads'}"

    def world(self, server: Server, traced: bool, kind: Callable[..., World] = World) -> World:
        return kind(
            server,
            budgets=self.budgets,
            symmetric=self.alike,
            push_first=self.push_first,
            traced=traced,
            monitor=self.monitor,
            port=self.port,
        )

    def build(self, server: Server, traced: bool) -> World:
        world = self.world(server, traced)
        world.monitor.flows = self.flows
        self.begin(world)
        return world

    def begin(self, world: World) -> None:
        """Start everybody; no answer has come yet when replicas begin to count."""
        for role in self.roles:
            role(self, world)
        for client in world.clients if self.replicas else ():
            client.port.replicas = self.replicas(client.port)

    def explore(self, *, seconds: float = SECONDS, schedules: int = 10_000_000) -> Report:
        world, server = self.with_servers()
        budget = {"seconds": seconds, "schedules": schedules}
        return explore(world.build, server, events=self.events, deep=self.deep, **budget)

    def with_servers(self) -> "tuple[Scenario, Server]":
        """Return the same with further servers, if it has such, and the first one."""
        return self, Server(self.sources)

    def reported(self) -> "Scenario":
        """Return the same world with a hook that checks the events reported to it."""
        return replace(self, name=f"{self.name}, reported", events=True)

    def under(self, **budgets: int) -> "Scenario":
        """Return the same with these faults."""
        faults = "+".join(f"{count} {kind}" for kind, count in budgets.items())
        return replace(self, name=f"{self.name}, {faults}", budgets=budgets)

    def as_shipped(self) -> "Scenario":
        """Return the same with the flows as the modules have them now."""
        return replace(self, flows=shipping())

    def threads(self) -> "Scenario":
        """Return the same with a connection for each waiter, as threads have it."""
        return replace(self, shared=False, push_first=True)


# -- roles ----------------------------------------------------------------------------------------


def user(
    options=RENEWED,
    *,
    timeout=None,
    work=0.0,
    rounds=1,
    tasks=1,
    rate=1.0,
    server_timeout=5.0,
    after=0.0,
    pause=0.0,
    actor=Actor,
):
    """A process whose tasks acquire, work and release, some rounds each; it may begin later."""

    async def turns(one):
        await quietly(rests(one, after))
        for turn in range(rounds):
            await rests(one, pause if turn else 0.0)
            await one.hold_once(one.request(options), timeout, work)

    return process(*(turns,) * tasks, actor=actor, rate=rate, server_timeout=server_timeout)


def owner(*, work=0.0, depth=2):
    """An explicit owner that enters ``depth`` times and leaves as often."""

    async def enter(actor, left):
        hold = await actor.acquire(actor.request(RENEWED, owner=b"owner"), None)
        if hold is None:
            return
        try:
            if left:
                await enter(actor, left - 1)
            else:
                await rests(actor, work)
        finally:
            counted(actor.world, await actor.release(hold), depth - 1 - left)

    return process(lambda actor: enter(actor, depth - 1))


def counted(world, told, expected):
    """See that a release told how many holds are left: by the plan, or after faults in truth."""
    view = world.monitor.view()
    truth = len(view.owner_holds) if view.holder == b"owner" else 0
    timely = world.budgets.keys().isdisjoint({"late", "expiry", "pause"})
    if told not in {None, expected, truth} and timely:
        raise Violation("I4", f"a release told of {told} holds left, not {truth}")


def operator(*, patience=5.0):
    """An operator who breaks the lock once."""
    return process(breaks, server_timeout=patience)


async def breaks(actor):
    with contextlib.suppress(FencelockError):
        await break_lock(actor)


async def break_lock(actor, keys=KEYS):
    """Break a lock, as an operator does."""
    port = actor.port
    args = (b"why", 600_000, port.new_id())
    await port.ask(BREAK, keys.all, args, port.now() + port.server_timeout)


def revoker():
    """A program that looks at the lock, and revokes it once: ``client.revoke``."""

    async def revokes(actor):
        try:
            before = await Looker(actor.port, KEYS.prefix).revoke(KEYS, "why")
        except FencelockError:
            return
        if before is not None and before.name != KEYS.name:
            raise Violation("I4", f"another lock was revoked: {before}")

    return process(revokes)


def foreigner(*, work=1.0):
    """A program that knows SET NX PX and a compare-and-delete, once."""

    async def sets(actor):
        port = actor.port
        try:
            until = port.now() + port.server_timeout
            command = (b"SET", KEYS.lock, b"foreign", b"NX", b"PX", int(TTL * 1000))
            if await port.command(command, KEYS.lock, until) is not None:
                await port.sleep(port.now() + work)
                await port.ask(
                    POLL_RELEASE, KEYS.plain, (b"foreign",), port.now() + port.server_timeout
                )
        except (NoReply, FencelockError):
            return

    return process(sets)


def leaving(seconds, *, renewed):
    """A holder that releases its lease later, while another task renews it; see ``leave``."""

    async def leaves(actor):
        hold = await actor.acquire(actor.request(RENEWED), None)
        if hold is None:
            return
        actor.world.start(actor.client, quietly(actor.renew(hold, renewed)))
        strays = hold.owed  # a copy of the question may be granted anew, and is undone
        try:
            await release.leave(actor.port, hold, seconds)
        except FencelockError:
            return
        await actor.port.sleep(actor.port.now() + seconds + 0.1)
        holder = actor.world.monitor.view().holder or b""
        if holder.startswith(hold.holder_id) and not strays:
            raise Violation("I15", "a lease lasts longer than its holder left it for")

    return process(leaves)


def renewing(
    *ttls,
    options=FIXED,
    before=0.0,
    pause=0.3,
    after=0.3,
    fellow=(),
    heard=False,
    patience=5.0,
):
    """A holder that renews by hand, for each ttl in turn; ``fellow`` is a task that does so too.

    ``heard``: its client has just begun to hear revocations, and looks at all that it holds.
    ``patience``: its client's ``server_timeout``.
    """

    async def renews(actor, hold, ttls):
        for number, ttl in enumerate(ttls, 1):
            if not await actor.renew(hold, ttl) and not actor.world.faulty:
                raise Violation("I8", "a lease was not renewed, without any fault")
            if heard:
                await Renewer(actor.port).recheck()
            await rests(actor, pause if number < len(ttls) else after)

    async def holds(actor):
        hold = await actor.acquire(actor.request(options), None)
        if hold is None:
            return
        try:
            if fellow:
                actor.world.start(actor.client, quietly(renews(actor, hold, fellow)))
            await rests(actor, before)
            await renews(actor, hold, ttls)
        finally:
            await actor.release(hold)

    return process(holds, server_timeout=patience)


def returning(*, fellow=False):
    """A holder that gives its lease back, uses it after that, and acquires again.

    ``fellow``: another task renews the lease meanwhile.
    """

    async def returns(actor):
        hold = await actor.acquire(actor.request(RENEWED), None)
        if hold is None:
            return
        if fellow:
            actor.world.start(actor.client, quietly(actor.renew(hold, 2.5)))
        await quietly(actor.release(hold))
        if actor.check(hold) or await actor.renew(hold, 2.0):
            raise Violation("I1", "a lease that was given back is proved")
        await actor.hold_once(actor.request(RENEWED), 2.0, 0.0)

    return process(returns)


def checking(options=RENEWED, *, work=4.0, pause=0.7):
    """A holder that asks its lease now and then; it may be the first to notice a loss."""

    async def checks(actor):
        hold = await actor.acquire(actor.request(options), None)
        if hold is None:
            return
        try:
            until = actor.port.now() + work
            while actor.check(hold) and actor.port.now() < until:
                await actor.port.sleep(actor.port.now() + pause)
        finally:
            await actor.release(hold)

    return process(checks)


async def quietly(flow, *ends):
    """Await what may be cancelled, or end so."""
    with contextlib.suppress(*GAVE_UP, *ends):
        await flow


async def rests(actor, seconds):
    if seconds:
        await actor.port.sleep(actor.port.now() + seconds)


def process(
    *programs: Callable[..., Any],
    actor: Callable[..., Actor] = Actor,
    ends: tuple[type[Exception], ...] = (),
    **client: float,
) -> Role:
    """A process with a task for each program, which may be cancelled at any point, or end so."""

    def role(scenario, world):
        made = world.client(shared=scenario.shared, **client)
        for program in programs:
            world.start(made, quietly(program(actor(world, made, scenario.flows)), *ends))

    return role


def users(count, *args, **more):
    return (user(*args, **more),) * count


# -- scenarios ------------------------------------------------------------------------------------

TWO = Scenario("2 in line", users(2), alike=True)
THREE = Scenario("3 in line", users(3), alike=True, large=True)
TWO_FIXED = Scenario("2 fixed", users(2, FIXED), alike=True)
TWO_ROUNDS = Scenario("2 in line, 2 rounds", users(2, rounds=2), alike=True)
TWO_WORKING = Scenario("2 working 1.5 s", users(2, work=1.5), alike=True)
TWO_LONG = Scenario("2 working 4 s, renewed", users(2, work=4.0), alike=True)
TWO_TOO_LONG = Scenario("2 working 4 s, fixed", users(2, FIXED, work=4.0), alike=True)
TWO_IMPATIENT = Scenario("2 working 1.5 s, giving up", users(2, work=1.5, timeout=1.5), alike=True)
THREE_WORKING = Scenario("3 working 1.5 s", users(3, work=1.5), alike=True)
THREE_IMPATIENT = Scenario(
    "3 working 1.5 s, giving up", users(3, work=1.5, timeout=1.5), alike=True
)
TRIES = Scenario("3 tries", users(3, timeout=0.0), alike=True)
TRY_AND_LINE = Scenario("2 in line, 1 tries", (*users(2), user(timeout=0.0)))
POLLS = Scenario("2 polling", users(2, POLLED, timeout=2.0), alike=True)
POLLS_ON = Scenario("2 polling for ever", users(2, POLLED, work=1.0), alike=True)
POLL_AND_LINE = Scenario("1 in line, 1 polling", (user(), user(POLLED, timeout=2.0)))
FELLOWS = Scenario("2 tasks of one process, 1 other", (user(tasks=2), user()), large=True)
FELLOWS_WORKING = Scenario("3 tasks of one process, 1 other", (user(tasks=3, work=0.5), user()))
DRIFTING = Scenario(
    "2 working 4 s, clocks adrift", (user(work=4.0, rate=0.996), user(work=4.0, rate=1.004))
)
BROKEN = Scenario("2 working 1.5 s, 1 operator", (*users(2, work=1.5), operator()))
REVOKED = Scenario("2 working 1.5 s, 1 revoking", (*users(2, work=1.5), revoker()))
FOREIGN = Scenario("1 in line, 1 foreign", (user(), foreigner()))
OWNER = Scenario("1 owner twice, 1 in line", (owner(), user()), large=True)
OWNERS = Scenario("2 processes of one owner, 1 in line", (owner(depth=1), owner(depth=1), user()))
OWNERS_WORKING = Scenario(
    "2 working processes of one owner", (owner(depth=1, work=1.0), owner(depth=1, work=0.5))
)
BY_HAND = Scenario("1 renewing by hand, 1 in line", (renewing(TTL, before=1.0, after=2.5), user()))
SHORTER = Scenario("1 renewing for less, 1 in line", (renewing(0.5), user()))
SHORTER_THEN_LONGER = Scenario(
    "1 renewing for less, then for more", (renewing(0.8, 2.5, pause=0.0),)
)
SHORTER_GIVEN_UP = Scenario(
    "1 renewing for less, and for more when that is over",
    (renewing(2.0, 6.0, pause=0.5, after=4.5, patience=1.0),),
)
LONGER = Scenario(
    "1 renewed, by hand for more, 1 in line",
    (renewing(None, 6.0, options=RENEWED, pause=1.2, after=1.5, heard=True), user()),
)
LONGER_SHORTER = Scenario(
    "1 renewed, by hand for more and for less", (renewing(5.0, 0.6, options=RENEWED, pause=1.2),)
)
BOUNDED = LeaseOptions(ttl=TTL, renew=True, max_hold=4.0)
BOUNDED_LONGER = Scenario(
    "1 bounded, by hand for more", (renewing(6.0, None, 6.0, options=BOUNDED, pause=1.0),)
)
BOTH_RENEW = Scenario("2 tasks renew one lease", (renewing(0.8, fellow=(2.5,)),))
PLAIN_RENEWED = Scenario(
    "1 polling, by hand for more", (renewing(5.0, options=POLLED, after=2.0, heard=True),)
)
LEFT = Scenario(
    "1 leaving its lease while it is renewed, 1 in line", (leaving(0.5, renewed=6.0), user())
)
RETURNED = Scenario("1 using its lease after the release, 1 in line", (returning(), user()))
RETURNED_BESIDE = Scenario("1 releasing while another task renews", (returning(fellow=True),))
CHECKED = Scenario("1 asking its lease, 1 in line", (checking(), user()), large=True)
CHECKED_FIXED = Scenario("1 asking its fixed lease, 1 in line", (checking(FIXED), user()))
# Handed over, with limits: a lease starts short then, and grows.
ONCE_ONLY = LeaseOptions(ttl=TTL, renew=True, max_renewals=0)
TWICE_RENEWED = LeaseOptions(ttl=TTL, renew=True, max_renewals=1)
LONG_BOUNDED = LeaseOptions(ttl=60.0, renew=True, max_hold=3.5)
LIMITED = tuple(
    Scenario(f"1 working 0.5 s, 1 in line, {title}", (user(work=0.5), user(options, work=9.0)))
    for title, options in (
        ("not renewed", ONCE_ONLY),
        ("renewed once", TWICE_RENEWED),
        ("bounded", BOUNDED),
        ("bounded far below the ttl", LONG_BOUNDED),
        ("fixed", FIXED),
    )
)
UNTIL = LeaseOptions(ttl=1e6, renew=False, instant=datetime.max.replace(tzinfo=UTC))


def until_instant(left, *, work=9.0):
    """A holder of a lease that ends at an instant, ``left`` seconds from its request."""

    async def holds(actor):
        end = actor.port.now() + left
        hold = await actor.acquire(actor.request(UNTIL, left=left), None)
        if hold is None:
            return
        if actor.port.now() >= end:
            raise Violation("instant", "it was granted after the end of its lease")
        try:
            await actor.port.sleep(actor.port.now() + work)
        finally:
            await actor.release(hold)

    return process(holds)


INSTANTS = (
    Scenario("1 working 0.5 s, 1 until an instant", (user(work=0.5), until_instant(5.0), user())),
    Scenario(
        "1 working 2 s, 1 until an instant",
        (user(work=2.0), until_instant(2.5), user()),
        large=True,
    ),
    Scenario("1 working 2 s, 1 until an instant before", (user(work=2.0), until_instant(1.5))),
    Scenario("1 until an instant, 1 in line", (until_instant(2.5), user())),
)
# Unlike lengths in one world.
UNLIKE = Scenario(
    "3 with unlike leases",
    (user(FIXED, work=9.0), user(LONG_BOUNDED, work=9.0), user(RENEWED, work=1.0)),
)
AFTERWARDS = (RETURNED, RETURNED_BESIDE, CHECKED, CHECKED_FIXED)
BY_HAND_ANEW = (
    *(SHORTER, SHORTER_THEN_LONGER, SHORTER_GIVEN_UP, LONGER, LONGER_SHORTER),
    *(BOUNDED_LONGER, BOTH_RENEW, PLAIN_RENEWED, LEFT),
)
SHORT_PATIENCE = Scenario("2 working 4 s, answers by 0.5 s", users(2, work=4.0, server_timeout=0.5))
CROWD = Scenario("4 in line", users(4), alike=True)
