"""Worlds of a service behind Sentinels, and the faults sown in how its master is followed."""

from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import ClassVar

from tests.flows.worlds import locks
from tests.flows.worlds.locks import FIXED, Scenario, process, user, users
from verification.simulator.monitor import Violation
from verification.simulator.sentinel_port import SimulatedSentinelPort
from verification.simulator.sentinels import (
    FOUND,
    ORDERED,
    QUICK,
    SILENT,
    Sentinel,
    SentinelMonitor,
    SentinelWorld,
)
from verification.simulator.server import Server


@dataclass(frozen=True)
class Behind(Scenario):
    """One world of a master, its replica and Sentinels; ``lossy``: it may lag behind."""

    monitor: type = SentinelMonitor
    sentinels: tuple = QUICK
    wakes: float | None = 0.2
    lossy: bool = False
    steps: tuple = FOUND
    port: ClassVar[type[SimulatedSentinelPort]] = SimulatedSentinelPort

    def world(self, server, traced):
        kind = partial(
            SentinelWorld,
            others=(self._replica,),
            sentinels=self.sentinels,
            wakes=self.wakes,
            steps=self.steps,
        )
        return super().world(server, traced, kind)

    @property
    def _replica(self):
        return _replicas.setdefault(tuple(self.sources), Server(self.sources))

    def with_servers(self):
        return self, Server(self.sources, replicated=self.lossy)

    def heard(self, **sentinels):
        """Return the same with Sentinels of this kind."""
        ((kind, told),) = sentinels.items()
        return replace(self, name=f"{self.name}, {kind}", sentinels=told)


_replicas: dict = {}

# What the Sentinels are like.
SLOW = (Sentinel(0.30), Sentinel(0.31), Sentinel(0.32))
SLOWED = tuple(replace(each, slowed=0.3) for each in QUICK)
ONE_SILENT = (*QUICK[:2], SILENT)
ONE_LATE = (*QUICK[:2], Sentinel(0.7))
# Cut off, with an old epoch: one that answers first, one that answers last, and most of them.
FIRST_CUT = (Sentinel(0.0009, cut=True), *QUICK[:2])
LAST_CUT = (*QUICK[:2], Sentinel(0.002, cut=True))
MOST_CUT = (*FIRST_CUT[:2], Sentinel(0.002, cut=True))
ONE_STUBBORN = (Sentinel(0.0009, stubborn=True), *QUICK[:2])
ANEW = tuple(Sentinel(each.delay, anew=True) for each in QUICK)

ALONE = Behind("behind Sentinels: 1 alone", (user(),))
TWO = Behind("behind Sentinels: 2", users(2), alike=True)
WORKING = Behind("behind Sentinels: 2 working 1.5 s", users(2, work=1.5), alike=True)
RENEWED = Behind("behind Sentinels: 2 working 4 s", users(2, work=4.0), alike=True)
IMPATIENT = Behind(
    "behind Sentinels: 1 working 2.4 s, 1 giving up", (user(work=2.4), user(timeout=1.5))
)
# The second request of each meets the old master when it has woken up.
AGAIN = Behind("behind Sentinels: 2 twice, fixed", users(2, FIXED, work=2.4, rounds=2), alike=True)
AGAIN_RENEWED = Behind("behind Sentinels: 2 twice", users(2, work=2.4, rounds=2), alike=True)
LAGGING = replace(WORKING, name="behind Sentinels: 2 working 1.5 s, lagging", lossy=True)
# The old master goes on all the time.
CUT = replace(WORKING, name="behind Sentinels: 2 working 1.5 s, cut off", wakes=None)
CUT_AGAIN = replace(AGAIN, name="behind Sentinels: 2 twice, fixed, cut off", wakes=None)
# The holder's release is the first that the old master hears after its replacement.
CUT_FIXED = Behind(
    "behind Sentinels: 2 working 2.9 s, fixed, cut off", users(2, FIXED, work=2.9), wakes=None
)
CUT_SHORTER = replace(
    CUT_FIXED,
    name="behind Sentinels: 2 working 2.3 s, fixed, cut off",
    roles=users(2, FIXED, work=2.3),
)


async def granted(actor):
    """Acquire: there is a master all the time, so it must succeed sooner or later."""
    hold = await actor.acquire(actor.request(locks.RENEWED), None)
    if hold is None:
        raise Violation("I6", "no grant, though there is a master")
    await actor.release(hold)


def hasty(after):
    """A client that comes back with little time, when the old master has woken up."""

    async def turns(actor):
        await actor.hold_once(actor.request(FIXED), None, 0.0)
        await actor.port.sleep(actor.port.now() + after)
        await actor.hold_once(actor.request(FIXED), 0.3, 0.5)

    return process(turns)


HASTY = Behind(
    "behind Sentinels: 1 comes back hastily, 1 working 2.8 s",
    (hasty(2.3), user(FIXED, work=2.8, after=1.0)),
)


def at(*tasks):
    """A process whose tasks call at instants since its beginning, each with a timeout and work."""

    async def turns(actor, calls):
        began = actor.port.now()
        for instant, timeout, work in calls:
            await actor.port.sleep(began + instant)
            await actor.hold_once(actor.request(FIXED), timeout, work)

    return process(*(partial(turns, calls=each) for each in tasks))


# The Sentinels were asked just before the failover, and the old master answers just after it.
JUST_BEFORE = Behind(
    "behind Sentinels: 1 asks just before and after, 1 working 0.5 s",
    (at([(0.0, None, 0.0), (2.03, None, 0.0), (2.115, None, 0.2)]), at([(2.102, None, 0.5)])),
    wakes=None,
)


def during_a_round(name, instant):
    """One Sentinel is silent since a moment ago, so that a round lasts for longer.

    A call without time finds that round, which began before the failover.
    """
    return Behind(
        f"behind Sentinels: 1 process tries during a round, {name}, 1 working 0.5 s",
        (
            at([(0.0, None, 0.0), (2.095, 0.0, 0.0)], [(instant, 0.0, 0.2)]),
            at([(2.102, None, 0.5)]),
        ),
        sentinels=(*QUICK[:2], replace(QUICK[2], slowed=9.0)),
        wakes=None,
    )


DURING = during_a_round("at its end", 2.1455)
DIALLING = during_a_round("on a new connection", 2.12)
# The last round is over a second old, the Sentinels are slow by now, and the last call has no time.
NO_TIME = Behind(
    "behind Sentinels: 1 tries without time, 1 working 1.5 s",
    (at([(0.0, None, 0.0), (1.2, None, 0.0), (2.6, 0.0, 0.2)]), at([(2.15, None, 1.5)])),
    sentinels=SLOWED,
    wakes=None,
)
# Its request waits in the frozen master, which is replaced by order: no Sentinel suspected it.
ORDERED_AWAY = Behind(
    "behind Sentinels: 1 is answered late, 1 working 1 s, by order",
    (at([(0.0, None, 0.0), (0.1, None, 0.5)]), at([(0.702, None, 1.0)])),
    wakes=0.02,
    steps=ORDERED,
)
# Only Sentinels that were set up anew know of the new master.
GONE = Behind(
    "behind Sentinels: 1, old master gone",
    (process(granted, server_timeout=30.0),),
    sentinels=ANEW,
    wakes=inf,
)

SENTINELS = {
    "slow": SLOW,
    "one silent": ONE_SILENT,
    "one late": ONE_LATE,
    "first cut off": FIRST_CUT,
    "last cut off": LAST_CUT,
    "most cut off": MOST_CUT,
    "one stubborn": ONE_STUBBORN,
}
DAILY = (
    HASTY.heard(slow=SLOW).under(freeze=1),
    *(
        each.under(freeze=1)
        for each in (
            JUST_BEFORE,
            NO_TIME,
            ALONE,
            TWO,
            WORKING,
            GONE,
            CUT,
            CUT_FIXED,
        )
    ),
    *(CUT_SHORTER.heard(**{kind: told}).under(freeze=1) for kind, told in SENTINELS.items()),
)
DEEP = (
    *(
        each.under(freeze=1)
        for each in (RENEWED, IMPATIENT, LAGGING, DURING, DIALLING, ORDERED_AWAY)
    ),
    *(
        each.heard(**{kind: told}).under(freeze=1)
        for each in (AGAIN, CUT_AGAIN)
        for kind, told in SENTINELS.items()
    ),
    *(CUT.under(freeze=1, **{fault: 1}) for fault in ("late", "lost", "cancel", "crash")),
)


def plan():
    """Yield what the deep exploration goes through."""
    yield AGAIN_RENEWED.under(freeze=1)
    for each in (WORKING, RENEWED, AGAIN, CUT_AGAIN, LAGGING):
        for fault in ("late", "lost", "cancel", "crash", "silent"):
            yield each.under(freeze=1, **{fault: 1})
