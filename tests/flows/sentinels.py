"""Worlds of a service behind Sentinels, and the faults sown in how its master is followed."""

from dataclasses import dataclass, replace
from math import inf

from fencelock._topology.master_monitor import MasterGuard
from fencelock._topology.sentinel import MasterState
from tests.flows import scenarios
from tests.flows.scenarios import FIXED, Scenario, single, user, users
from tests.flows.seeded import Change, seed
from verification.simulator.explorer import Report, explore
from verification.simulator.monitor import Violation
from verification.simulator.sentinels import (
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

    def world(self, server, traced):
        return SentinelWorld(
            server,
            others=(self._replica,),
            sentinels=self.sentinels,
            wakes=self.wakes,
            budgets=self.budgets,
            symmetric=self.alike,
            push_first=self.push_first,
            traced=traced,
            monitor=self.monitor,
        )

    @property
    def _replica(self):
        return _replicas.setdefault(tuple(self.sources), Server(self.sources))

    def explore(self, *, seconds: float = 60.0, schedules: int = 10_000_000) -> Report:
        master = Server(self.sources, replicated=self.lossy)
        return explore(self.build, master, seconds=seconds, schedules=schedules)

    def heard(self, **sentinels):
        """Return the same with Sentinels of this kind."""
        ((kind, told),) = sentinels.items()
        return replace(self, name=f"{self.name}, {kind}", sentinels=told)


_replicas: dict = {}

# What the Sentinels are like.
SLOW = (Sentinel(0.30), Sentinel(0.31), Sentinel(0.32))
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
    hold = await actor.acquire(actor.want(scenarios.RENEWED), None)
    if hold is None:
        raise Violation("I6", "no grant, though there is a master")
    await actor.release(hold)


def hasty(after):
    """A client that comes back with little time, when the old master has woken up."""

    async def turns(actor):
        await actor.hold_once(actor.want(FIXED), None, 0.0)
        await actor.port.sleep(actor.port.now() + after)
        await actor.hold_once(actor.want(FIXED), 0.3, 0.5)

    return single(turns)


HASTY = Behind(
    "behind Sentinels: 1 comes back hastily, 1 working 2.8 s",
    (hasty(2.3), user(FIXED, work=2.8, after=1.0)),
)
# Only Sentinels that were set up anew know of the new master.
GONE = Behind(
    "behind Sentinels: 1, old master gone",
    (single(granted, server_timeout=30.0),),
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
    *(each.under(freeze=1) for each in (ALONE, TWO, WORKING, GONE, CUT, CUT_FIXED)),
    *(CUT_SHORTER.heard(**{kind: told}).under(freeze=1) for kind, told in SENTINELS.items()),
)
DEEP = (
    *(each.under(freeze=1) for each in (RENEWED, IMPATIENT, LAGGING)),
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


SEEDS = (
    seed(
        "an answer that is believed for want of time",
        Change(MasterGuard, "if not state.trusts(since, answered_at):", "if False:"),
        HASTY.heard(slow=SLOW).under(freeze=1),
        "I1",
    ),
    seed(
        "an old master's answers that count unproved",
        Change(MasterGuard, "raise NoReply(text, sent=True)", "return"),
        CUT_AGAIN.under(freeze=1),
        "I1",
    ),
    seed(
        "no question after an answer",
        Change(MasterGuard, "await self._monitor.refresh(since, until)", "pass"),
        CUT_AGAIN.under(freeze=1),
        "I1",
    ),
    seed(
        "the lowest epoch wins",
        Change(MasterState, "best = max(given", "best = min(given"),
        CUT_AGAIN.heard(cut=FIRST_CUT).under(freeze=1),
        "I1",
    ),
    seed(
        "one Sentinel names the master against all others",
        Change(MasterState, "votes[reply.epoch, *reply.where]", "0"),
        CUT_AGAIN.heard(stubborn=ONE_STUBBORN).under(freeze=1),
        "I1",
    ),
    seed(
        "Sentinels that were set up anew are never believed",
        Change(MasterState, "return began - self._confirmed_at > FORGET_SECONDS", "return False"),
        GONE.under(freeze=1),
        "I6",
    ),
    seed(
        "a push that is delivered before its proof",
        Change(MasterGuard, "if not self._held and self.counts(heard_at):", "if True:"),
        CUT_FIXED.under(freeze=1),
        "I1",
    ),
    seed(
        "a push that does not wait for slow Sentinels",
        Change(MasterGuard, "heard_at + PUSH_SECONDS", "heard_at + PUSH_SECONDS / 4"),
        CUT_SHORTER.heard(slow=SLOW).under(freeze=1),
        "I1",
    ),
    seed(
        "a new master that begins no generation",
        Change(MasterState, "self.generation += 1", "self.generation += known is None"),
        CUT_AGAIN.under(freeze=1),
        "I1",
    ),
    seed(
        "a Sentinel's suspicion that is not heeded",
        Change(MasterState, "SUSPECT_SECONDS if suspected else FRESH_SECONDS", "FRESH_SECONDS"),
        CUT_AGAIN.under(freeze=1),
        "I1",
    ),
)
