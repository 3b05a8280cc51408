"""What is explored of cohorts: processes of several tasks that take turns of one lock."""

from functools import partial

from fencelock.errors import ClientClosed
from fencelock.options import Cohort, LeaseOptions
from fencelock.scripts.constants import FENCE_ROOM
from tests.flows.worlds import clusters, locks, sentinels
from tests.flows.worlds.locks import (
    FIXED,
    ONCE_ONLY,
    RENEWED,
    TTL,
    Scenario,
    operator,
    quietly,
    rests,
    user,
)
from verification.simulator.cluster import ClusterMonitor
from verification.simulator.cohorts import CohortMonitor
from verification.simulator.monitor import Violation
from verification.simulator.sentinels import SentinelMonitor


def bounded(options=RENEWED, *, turns=2, seconds=60.0):
    """Return these terms with a cohort."""
    return options._replace(cohort=Cohort(turns=turns, seconds=seconds))


TURNS = bounded()  # bounded by the turns alone
MANY = bounded(turns=8)
BRIEF = bounded(turns=8, seconds=0.5)  # bounded by the time alone
FIXED_TURNS = bounded(FIXED, turns=8)
process = partial(locks.process, ends=(ClientClosed,))  # a task may close it


def holds(options=TURNS, *, after=0.0, work=0.0, timeout=None, renewed=None, fellows=()):
    """A task that acquires, works and releases; it may begin later, and renew by hand for less.

    ``fellows``: for so long other tasks renew its lease, while it works and releases.
    """

    async def program(actor):
        await rests(actor, after)
        hold = await actor.acquire(actor.request(options), timeout)
        if hold is None:
            return
        try:
            for ttl in fellows:
                actor.world.start(actor.client, quietly(actor.renew(hold, ttl), ClientClosed))
            if renewed is not None:
                await actor.renew(hold, renewed)
            await rests(actor, work)
        finally:
            await actor.release(hold)

    return program


def closes(after):
    """A task that closes its client: as both real ports do, with what waits for its cohort."""

    async def program(actor):
        await rests(actor, after)
        actor.port.lines.close(actor.port.wake)
        await rests(actor, 0.1)
        if not actor.world.budgets.keys().isdisjoint({"expiry", "pause"}):
            return  # everything stood still, and goes on at the same instant
        if any(line.waiting for line in actor.port.lines.crowded):
            raise Violation("I13", "a waiter of a closed client goes on waiting")

    return program


def scenario(name, *roles, **more):
    return Scenario(f"cohort: {name}", roles, monitor=CohortMonitor, **more)


TWO = scenario("2 tasks", user(TURNS, tasks=2))
THREE = scenario("3 tasks, 2 turns", user(TURNS, tasks=3))
THREE_MANY = scenario("3 tasks", user(MANY, tasks=3))
BESIDE = scenario("2 tasks, 1 other", user(TURNS, tasks=2), user())
THREE_BESIDE = scenario("3 tasks, 2 turns, 1 other", user(TURNS, tasks=3), user())
BOTH = scenario("2 tasks, 2 others", user(TURNS, tasks=2), user(TURNS, tasks=2))
BOTH_MORE = scenario("3 tasks, 2 others", user(TURNS, tasks=3), user(TURNS, tasks=2))
ROUNDS = scenario("2 tasks twice", user(TURNS, tasks=2, rounds=2))
ROUNDS_BESIDE = scenario("2 tasks twice, 1 other", user(TURNS, tasks=2, rounds=2), user())
WORKING = scenario("2 tasks working 0.2 s, 1 other", user(BRIEF, tasks=2, work=0.2), user())
OVER_TIME = scenario(
    "3 tasks working 0.2 s, 1 other", user(BRIEF, tasks=3, work=0.2), user(after=0.1)
)
LONG = scenario("2 tasks working 1.5 s", user(MANY, tasks=2, work=1.5))
LONGER = scenario("2 tasks working 4 s", user(MANY, tasks=2, work=4.0))
LONGER_BESIDE = scenario("2 tasks working 4 s, 1 other", user(MANY, tasks=2, work=4.0), user())
FIXED_SHORT = scenario("2 tasks fixed", user(FIXED_TURNS, tasks=2, work=0.1))
FIXED_LONG = scenario("2 tasks fixed, working 2.9 s", user(FIXED_TURNS, tasks=2, work=2.9))
FIXED_TOO_LONG = scenario("2 tasks fixed, working 4 s", user(FIXED_TURNS, tasks=2, work=4.0))
ONCE = scenario("2 tasks not renewed", user(bounded(ONCE_ONLY, turns=8), tasks=2, work=1.2))
IMPATIENT = scenario("2 tasks giving up", user(TURNS, tasks=2, work=1.0, timeout=0.5))
IMPATIENT_BESIDE = scenario(
    "2 tasks giving up, 1 other working",
    user(work=1.0),
    user(TURNS, tasks=2, timeout=0.5, after=0.1),
)
PATIENT_BESIDE = scenario(
    "1 task giving up, 1 patient, 1 other working",
    user(work=1.0),
    user(TURNS, tasks=2, timeout=3.0, after=0.1),
)
BROKEN = scenario("2 tasks, 1 operator", user(TURNS, tasks=2, work=0.1), operator())
BROKEN_BESIDE = scenario("2 tasks, 1 operator, 1 other", user(TURNS, tasks=2), operator(), user())
ONE_TURN = bounded(turns=1)
JOINING = scenario(
    "1 task working 1 s, 1 joins, 1 turn, 1 other working 4 s",
    process(holds(ONE_TURN, work=1.0), holds(ONE_TURN, after=0.2)),
    user(work=4.0, after=0.1),
)
LATE_TERMS = bounded(FIXED, turns=1)
FIXED_JOINING = scenario(
    "1 task fixed working 2.9 s, 1 joins, 1 turn, 1 other working 4 s",
    process(holds(LATE_TERMS, work=2.9), holds(LATE_TERMS, after=0.2)),
    user(work=4.0, after=0.1),
)
SHORTER = scenario(
    "1 task renewing for less, 1 for more",
    process(holds(MANY, renewed=1.6), holds(MANY, renewed=2.9, work=1.0)),
)
LENGTHENED = scenario(
    "1 task renewing for more, 1 more", process(holds(MANY, renewed=9.0), holds(MANY, work=1.0))
)
OVERTAKEN = scenario(
    "1 task whose lease others renew for more and for less, 1 more",
    process(holds(MANY, fellows=(9.0, 1.6), work=0.002), holds(MANY, work=1.0)),
)
OVERTAKEN_BESIDE = scenario(
    "1 task whose lease another renews for less, 1 more, 1 operator",
    process(holds(MANY, fellows=(1.6,), work=0.1), holds(MANY, work=0.1)),
    operator(),
)
BOUNDED_TERMS = bounded(LeaseOptions(ttl=TTL, renew=True, max_hold=2.0), turns=8)
BOUNDED = scenario("2 tasks bounded", user(BOUNDED_TERMS, tasks=2, work=0.1))
MIXED = scenario(
    "3 tasks, 1 giving up, 1 turn, 1 other working 1 s",
    user(work=1.0),
    process(
        holds(ONE_TURN, after=0.1, timeout=0.5),
        holds(ONE_TURN, after=0.2),
        holds(ONE_TURN, after=0.3),
    ),
)
LEFT = scenario(
    "3 tasks, 1 giving up, 1 turn",
    process(
        holds(ONE_TURN, work=1.0),
        holds(ONE_TURN, after=0.1, timeout=0.5),
        holds(ONE_TURN, after=0.2),
    ),
)
CLOSED = scenario(
    "2 tasks of a client that is closed",
    process(holds(work=1.0), holds(after=0.1), closes(0.5)),
    user(after=0.2),
)
# One arrives elsewhere after the second task, and before the first one has worked.
ARRIVALS = scenario(
    "1 task working 0.3 s, 1 joins, 1 turn, 1 other joins later",
    process(holds(ONE_TURN, work=0.3), holds(ONE_TURN, after=0.1)),
    user(after=0.2),
)
# The clock shows the fence of the last turn just when another client comes.
CAUGHT_UP = scenario(
    "2 tasks twice, 1 other a moment later",
    user(TURNS, tasks=2, rounds=2),
    user(after=(FENCE_ROOM + 2) / 1e6),
)
# A client in line hears of its grant late: what it asked twice may come when it has the lock.
STRAY = scenario(
    "2 tasks in line behind 1 working 0.5 s",
    user(work=0.5),
    user(MANY, tasks=2, after=0.1, work=0.1),
)
UNLIKE = scenario(
    "2 tasks on one kind of options, 1 on another",
    process(holds(), holds(MANY), holds()),
)
ALL = tuple(each for each in list(vars().values()) if isinstance(each, Scenario))


FAULTS = (
    *("lost", "zombie", "cut", "silent", "stuck", "late", "wake", "twice", "noise", "expiry"),
    *("crash", "pause", "cancel", "back", "restart", "reboot"),
)
DAILY = (
    *(BESIDE.under(**{fault: 1}) for fault in FAULTS if fault != "expiry"),
    *(each.under(cancel=1) for each in (THREE, MIXED, LEFT, CLOSED)),
    *(each.under(late=1) for each in (FIXED_JOINING, LONGER, PATIENT_BESIDE, BROKEN)),
    *(each.under(lost=1) for each in (ARRIVALS, JOINING, SHORTER)),
    *(each.under(crash=1) for each in (ROUNDS_BESIDE, WORKING)),
    STRAY.under(late=1, cut=1),
)
SCHEDULES = 200  # no defect sown into cohorts needed a third of it
TOGETHER = (
    {"lost": 2},
    {"lost": 1, "cancel": 1},
    {"late": 1, "cancel": 1},
    {"late": 1, "lost": 1},
    {"crash": 1, "back": 1},
    {"cancel": 2},
    {"pause": 1, "cancel": 1},
    {"silent": 1, "cancel": 1},
)
NIGHTLY = tuple(each.under(**{fault: 1}) for each in ALL for fault in FAULTS) + tuple(
    each.under(**faults)
    for each in (THREE, BESIDE, MIXED, JOINING, FIXED_JOINING, BROKEN)
    for faults in TOGETHER
)


class ClusterCohortMonitor(CohortMonitor, ClusterMonitor):
    """Checks cohorts in a Cluster, where a request may be repeated at another node."""

    commands_max = 8
    redirects = True


class SentinelCohortMonitor(CohortMonitor, SentinelMonitor):
    """Checks cohorts behind Sentinels, where an old master that woke up may serve a request."""

    commands_max = 4
    redirects = True


def in_cluster(name, *roles):
    return clusters.Clusters(f"cluster: {name}", roles, monitor=ClusterCohortMonitor)


def behind(name, *roles):
    return sentinels.Behind(f"behind Sentinels: {name}", roles, monitor=SentinelCohortMonitor)


IN_CLUSTER = in_cluster("2 tasks of a cohort beside 1", user(TURNS, tasks=2), user())
IN_CLUSTER_ONE_TURN = in_cluster(
    "2 tasks of a cohort, 1 turn, beside 1", user(ONE_TURN, tasks=2), user()
)
BEHIND = behind("2 tasks of a cohort working 1 s beside 1", user(MANY, tasks=2, work=1.0), user())
ELSEWHERE = (
    *(
        each.under(**{fault: 1})
        for each in (IN_CLUSTER, IN_CLUSTER_ONE_TURN)
        for fault in ("move", "gone")
    ),
    IN_CLUSTER.under(cancel=1),
    BEHIND.under(freeze=1),
)


def plan():
    """Yield what the deep exploration goes through."""
    yield from ALL
    yield from NIGHTLY
    yield from ELSEWHERE
