"""Which worlds the tests explore, daily and at night, and which faults they must find there.

One entry for each subject: tests/flows/test_*.py of that name explores it. Undisturbed, each world
is explored; under faults, those are in which the fault could do something else than elsewhere.
A case that is played and not judged proves nothing. So an entry says which judge asks for each
promise, a function that says what broke: the daily worlds must come to it (test_judges.py).
``python -m tests.flows.deep`` goes further.
"""

from dataclasses import replace
from importlib import import_module

from tests.flows.exploring import Explored, at_night, both, by_turns, judged_by, under, worlds_in
from tests.flows.seeds.cluster_multis import SEEDS as IN_CLUSTER_MULTIS
from tests.flows.worlds import (
    acknowledged,
    barriers,
    cluster_multis,
    clusters,
    cohorts,
    deadlocks,
    elections,
    forgetting,
    kept,
    locks,
    multis,
    quorum_deadlocks,
    quorums,
    redisson,
    runs_once,
    sentinels,
    shares,
    shutdowns,
    signals,
)

FAULTS = (
    *("lost", "zombie", "silent", "late", "wake", "noise", "expiry"),
    *("crash", "pause", "cancel", "back", "restart"),
)
# A server that forgets everything has ``once`` run anew.
KEEPING = tuple(fault for fault in FAULTS if fault != "restart")
# While nobody serves a slot it is asked for again and again: such a schedule takes as long as many
# others. No sown defect needed more than five of them.
OF_RETRIES = 100
LARGE_KEPT = (kept.TRIED_TWICE, kept.FOREIGN, kept.TASKS, kept.LATER, kept.GROWN)
# That worlds hold is for other tests; what hooks are told needs a few ends of each.
OF_REPORTS = 100

MONITOR = "verification.simulator.monitor:Monitor"

# What all locks promise; each is asked wherever this judge, or one made of it, watches.
FOR_ALL_LOCKS = judged_by(
    MONITOR,
    check="who proves a lease has it",
    _ends_in_time="no lease is proved for longer than it lasts",
    _lasted="it lasts as long as was asked for",
    _fences_grow="fences grow",
    _may_give_up="only its holder or an operator ends it",
    _told_before="the holder is notified of a loss once, before another is granted",
    told="the holder is notified of no loss that was none",
    _first_come="who comes first is granted first",
    _hears="who is granted hears it",
    passing="no live waiter stands behind a lock that no client has",
    _nothing_kept="who gave up has nothing left",
    _nothing_in_time="what is left has a ttl",
)

LOCKS = Explored(
    daily=both(
        [
            *worlds_in(locks),
            *under(FAULTS, locks.TWO, locks.TWO_IMPATIENT, locks.TRIES, locks.OWNER, locks.POLLS),
            *under(("lost", "late", "pause"), locks.TWO_LONG),
            locks.TWO_TOO_LONG.under(late=1),
            locks.TWO.under(lost=1, crash=1),
            locks.TWO.under(lost=1, cancel=1),
            locks.TWO.under(lost=2),
            *under(("lost", "zombie"), locks.BROKEN),
            *under(("stuck", "twice"), locks.TWO_WORKING, locks.TWO_LONG),
            locks.FOREIGN.under(crash=1),
            locks.FELLOWS.under(lost=1),
            locks.BY_HAND.under(lost=1),
            locks.THREE.under(late=1),
            *under(("lost", "late", "cancel", "wake"), *locks.INSTANTS[1:]),
            *under(
                ("lost", "zombie", "late", "cancel", "silent", "pause"),
                *(*locks.BY_HAND_ANEW, locks.RETURNED_BESIDE),
            ),
            *under(
                ("lost", "silent", "late", "expiry", "pause", "cancel", "restart"),
                *(locks.RETURNED, locks.CHECKED, locks.CHECKED_FIXED),
            ),
        ]
    ),
    promises=FOR_ALL_LOCKS,
)
SHARES = Explored(
    daily=both(
        [
            *worlds_in(shares),
            *under(FAULTS, shares.TWO, shares.IMPATIENT, shares.PARTS, shares.DOWNGRADED),
            shares.THREE.under(lost=1),
            shares.MIXED.under(crash=1),
            shares.LOWERED.under(lost=1),
            shares.LONG.under(late=1),
            shares.TRIES.under(lost=1),
            *under(("lost", "zombie"), shares.BROKEN),
            shares.CHANGED.under(cancel=1),
            shares.READERS.under(crash=1),
            shares.TOO_LONG_SIDES.under(late=1),
            shares.SIDES.under(expiry=1),
            shares.TWO.under(lost=1, crash=1),
            shares.SIDES.under(lost=1, cancel=1),
            *under(("lost", "cut", "reboot", "silent"), shares.IN_LINE),
            *under(("cut", "reboot"), shares.MIXED),
            shares.IMPATIENT_SIDES.under(cut=1),
            shares.WORKING.under(reboot=1),
            *under(("lost", "reboot"), shares.CHANGED_TWICE),
            *under(("lost", "zombie", "late", "cancel"), shares.SET_TWICE),
            shares.SET_TWICE.under(late=2),
            shares.BY_HAND.under(lost=1),
            *under(("lost", "late"), shares.BY_HAND_SHORTER),
            shares.BY_HAND_RENEWED.under(lost=1),
            shares.BY_HAND_SIDES.under(cancel=1),
            *under(("lost", "reboot"), shares.DOWNGRADED_UNLIKE),
            shares.UNLIKE.under(reboot=1),
            shares.UNLIKE_SIDES.under(lost=1),
        ]
    ),
    promises=judged_by(
        "verification.simulator.shares:SharesMonitor",
        _within_limit="no more permits are taken than there are",
        check="who proves a lease has it",
        _last_as_wanted="leases last as wanted",
        _may_end="only its holder or an operator ends it",
        _told_all="the holder is notified of a loss before others are granted",
        _heard="who is granted hears it",
        _in_turn="who comes first is granted first",
    ),
)
MULTIS = Explored(
    daily=both(
        [
            *worlds_in(multis),
            *under(FAULTS, multis.TWO, multis.BESIDE_LAST, multis.BESIDE_LAST_IMPATIENT),
            *under(("lost", "cancel"), multis.TRIES),
            multis.BESIDE_FIRST.under(late=1, wake=1),
            multis.BESIDE_LAST.under(late=1, wake=1),
            multis.ALONE.under(lost=1, cancel=1),
            multis.TWO.under(lost=1, crash=1),
            multis.LONG.under(lost=1),
            multis.TWO_TWICE.under(lost=1),
            multis.PERMIT_ALONE.under(lost=1, cancel=1),
            *under(
                ("lost", "late", "cancel", "crash", "pause"),
                *(multis.PERMIT_TWO, multis.PERMIT_IMPATIENT),
            ),
        ]
    ),
    promises={
        "it has all of its locks or none": "tests.flows.worlds.multis:both.turn",
        "a proved lease is released": "tests.flows.worlds.multis:give_back",
        "who proves a lease has it": f"{MONITOR}.check",
    },
)
ONCE = Explored(
    daily=both(
        [
            *worlds_in(runs_once, forgetting),
            *under(KEEPING, runs_once.TWO, runs_once.TRIES),
            *under(("lost", "crash", "pause"), runs_once.WORKING),
            *under(("pause", "lost"), runs_once.LONG),
            *under(("lost", "cancel"), runs_once.IMPATIENT),
            runs_once.TWO.under(lost=1, cancel=1),
            runs_once.ALONE.under(lost=1, cancel=1),
            *under(("pause", "expiry", "late"), runs_once.ALONE_WORKING),
            runs_once.TWO.under(lost=1, crash=1),
            runs_once.TWO.under(lost=2),
            runs_once.TWO.under(expiry=1, lost=1),
            *under(("lost", "zombie", "late", "cancel"), forgetting.FORGOTTEN),
        ]
    ),
    promises=judged_by(
        "tests.flows.worlds.runs_once",
        sees="there is one result",
        runs_on="no run begins after it was done",
        was_notified="the holder is notified of a loss",
    ),
)
ELECTIONS = Explored(
    daily=[
        *both(
            [
                *worlds_in(elections),
                *under(FAULTS, elections.TO_ONLY, elections.TO_NOBODY, elections.WATCHED),
                *under(("pause", "expiry", "late", "lost", "restart"), elections.AGAIN_BESIDE),
                *under(("reboot", "down", "cut"), elections.TO_ONLY),
                *under(("lost", "late", "reboot", "cancel"), elections.AND_BACK),
                elections.TO_NOBODY_AND_ONE.under(lost=1),
                elections.AT_ONCE.under(zombie=1),
                elections.LINED.under(late=1, wake=1),
            ]
        ),
        # One of two candidates, in one of the two ways: these have many schedules.
        *under(("lost", "crash"), elections.HAND_OVER),
    ],
    promises={
        "who is handed over to leads next": "tests.flows.worlds.elections:elected",
        "a lease that was kept is not lost": "tests.flows.worlds.elections:hand_over",
        "who leads has the lease": f"{MONITOR}.check",
    },
)
SIGNALS = Explored(
    daily=both(
        [
            *signals.ALL,
            # What a wait does after each of its answers; the schedules of all others are in `deep`.
            *under(signals.FAULTS, signals.PULSE, signals.CLOSE, signals.OPENS, signals.FELLOWS),
            *signals.LATE,
            signals.REMADE.under(lost=1),
            signals.DELETED.under(lost=1),
            signals.PULSE.under(lost=2),
            signals.OPENS.under(lost=1, cancel=1),
        ]
    ),
    promises=judged_by(
        "verification.simulator.events:GateMonitor",
        _judge="who goes on saw it open, and who saw it open goes on",
        _change="each change takes effect once",
        passing="nobody waits on who could have gone",
        end="who left is not on the list",
    ),
)
BARRIERS = Explored(
    daily=both(
        [
            *barriers.ALL,
            *under(
                barriers.FAULTS,
                *(barriers.PAIR, barriers.ROUNDS, barriers.LATE, barriers.ACTS, barriers.WIDOW),
            ),
            *barriers.AWAY,
            barriers.ACTS.under(lost=1, cancel=1),
            barriers.DELETED.under(lost=1),
            barriers.PAIR.under(lost=2),
            barriers.CROWD.under(lost=1),
            barriers.FULL.under(cancel=1),
            barriers.FELLOWS.under(lost=1),
        ]
    ),
    promises=judged_by(
        "verification.simulator.barriers:CrossingMonitor",
        _judge_broken="all of a generation pass, or none",
        _note_end="it passes when all have come",
        _judge_passed="each party has an index of its own",
        acts="the action of a generation runs once, and before it passes",
        _beside_the_dead="nobody waits beside a dead party",
        end="who left has no place",
    ),
)
COHORTS = Explored(
    daily=both([*cohorts.ALL, *cohorts.DAILY]),
    nightly=by_turns([*cohorts.NIGHTLY, *cohorts.ELSEWHERE]),
    at_night=lambda _: cohorts.SCHEDULES,
    promises=judged_by(
        "verification.simulator.cohorts:CohortMonitor",
        _alone="one turn proves the lease",
        _grows="each turn has a fence of its own",
        _within_bound="a turn is passed on within the bound",
        _in_their_order="its waiters are served in their order",
        _by_arrival="clients are served by arrival",
        _nothing_left="nothing is left",
    ),
)
KEPT = Explored(
    daily=both(kept.ALL),
    nightly=by_turns(
        under(
            [fault for fault in FAULTS if fault not in {"zombie", "late"}],
            *(each for each in kept.ALL if each not in LARGE_KEPT),
        )
    ),
    promises=judged_by(
        "tests.flows.worlds.kept:KeptMonitor",
        check="one turn proves the lease",
        tried="an idle lease stops no try",
        looked="an idle lease is not held",
        _idle="it is idle for a bounded time, and short",
        holds_now="a lease that was revoked begins no turn",
        end="nothing is left",
    ),
)
SHUTDOWNS = Explored(
    daily=both(shutdowns.ALL),
    nightly=by_turns(
        under(
            ("lost", "silent", "late", "expiry", "crash", "pause", "cancel"),
            *shutdowns.ALL,
        )
    ),
    promises={
        "leases are given back, and holders notified": "tests.flows.worlds.shutdowns:shuts.program",
    },
)
DEADLOCKS = Explored(
    daily=[*both(deadlocks.SMALL), *deadlocks.LARGE, quorum_deadlocks.TWO],
    nightly=[
        *(each.threads() for each in (*deadlocks.ORDERED, quorum_deadlocks.TWO)),
        *under(deadlocks.FAULTS, *deadlocks.UNDER_FAULTS),
        *both(quorum_deadlocks.FURTHER),
    ],
    promises=judged_by(
        "tests.flows.worlds.deadlocks:Truth",
        was_refused="the youngest of a real cycle is refused",
        end="no wait that is over is remembered",
    ),
)
CLUSTERS = Explored(
    daily=both(
        [
            *(clusters.ALONE, clusters.TWO, clusters.TWO_WORKING, clusters.TRIES),
            *under(clusters.FAULTS, clusters.ALONE),
            *under(("move", "migrate"), clusters.LONG),
            *under(("migrate", "freeze"), clusters.TWICE),
            *under(("move", "gone"), clusters.TWO, clusters.TWO_WORKING, clusters.IMPATIENT),
            clusters.HANDED_OVER.under(move=1),
            clusters.REVOKED_ELSEWHERE.under(freeze=1),
            *under(("move", "gone"), clusters.PLAIN, clusters.TRIES),
            *under(("unserved", "isolated"), clusters.PATIENT),
            *under(("gone", "isolated"), clusters.COUNTED),
            *cluster_multis.ALONE,
            *under(("move",), *cluster_multis.ALONE),
        ]
    ),
    nightly=by_turns(
        [
            *under(("move", "gone"), clusters.AGAIN),
            clusters.TWO.under(migrate=1),
            *cluster_multis.TWO,
            *cluster_multis.GIVING_UP,
            *under(("move", "gone", "crash", "cancel"), *cluster_multis.ALL),
            *under(("migrate", "unserved", "isolated"), *cluster_multis.ALONE),
            *under(
                ("unserved", "isolated"),
                *(clusters.TWICE, clusters.TWO, clusters.TWO_WORKING, clusters.TRIES),
            ),
            *under(
                ("move", "migrate", "freeze", "unserved"),
                *(clusters.COUNTED, clusters.COUNTED_LONG),
            ),
            *(
                each.under(**faults)
                for each in (
                    clusters.COUNTED_WORKING,
                    clusters.COUNTED_FIXED,
                    clusters.COUNTED_LINE,
                )
                for faults in ({"move": 1}, {"gone": 1}, {"isolated": 1}, {"unacked": 1, "gone": 1})
            ),
            # Of more than 15,000 schedules of each: what follows the fault is full of retries.
            *under(
                ("freeze",), *(clusters.TRIES, clusters.AGAIN, clusters.IMPATIENT, clusters.TWO)
            ),
            *both(under(("freeze",), clusters.HEARD_ELSEWHERE)),
        ]
    ),
    at_night=lambda each: OF_RETRIES if "unserved" in each.budgets else at_night(each),
    seeds=IN_CLUSTER_MULTIS,
    promises=judged_by(
        MONITOR,
        check="who proves a lease has it, wherever its slot is",
        passing="who waits is served wherever its slot is",
    ),
)
SENTINELS = Explored(
    daily=both(sentinels.DAILY),
    nightly=by_turns(sentinels.DEEP),
    promises={
        "there is a grant once there is a master": "tests.flows.worlds.sentinels:granted",
        "who proves a lease has it": f"{MONITOR}.check",
    },
)
ACKNOWLEDGED = Explored(
    daily=both(
        [
            *(acknowledged.TWO, acknowledged.TWO_LONG),
            *under(
                acknowledged.FAULTS,
                *(acknowledged.TWO, acknowledged.TWO_IMPATIENT, acknowledged.OWNER),
            ),
            *under(("unacked", "failover"), acknowledged.TWO_LONG),
            acknowledged.TWO_WORKING.under(unacked=1, failover=1),
            acknowledged.TWO.under(failover=1, cancel=1),
            acknowledged.TWO.under(unacked=1, cancel=1),
            acknowledged.TWO.under(unacked=1, lost=1),
            acknowledged.TWO.under(failover=1, late=1),
            acknowledged.TRIES.under(unacked=1, failover=1),
            *under(("unacked", "failover"), acknowledged.POLLS, acknowledged.ONCE),
            acknowledged.BY_HAND.under(unacked=1),
            *under(("unacked", "cancel", "failover"), acknowledged.MULTI),
            acknowledged.ONCE_SHORT.under(unacked=1),
        ]
    ),
    promises={
        name: FOR_ALL_LOCKS[name]
        for name in ("who proves a lease has it", "no lease is proved for longer than it lasts")
    },
)
QUORUMS = Explored(
    daily=[
        *both(
            [
                *worlds_in(quorums),
                *under(("lost", "late", "wake", "crash", "back"), quorums.TWO),
                *under(("lost", "late", "cancel", "zombie"), quorums.SHORTER),
                *under(("restart",), quorums.ABSENT, quorums.UNLIKE, quorums.CLAIMED, quorums.BARE),
                quorums.ALONE_OF_TWO.under(down=1),
            ]
        ),
        # An undo comes late, on a connection of its own, to a node that granted anew meanwhile.
        quorums.ALONE_LONG.under(late=1).threads(),  # in a healing vote
        quorums.ALONE_WORKING.under(late=1, down=1).threads(),  # in a later round
    ],
    promises=judged_by(
        "verification.simulator.quorum_monitor:QuorumMonitor",
        check="nobody relies on a lease beside another",
        _is_backed="a majority backs a lease",
        _granted_enough="it lasts as long as was asked for",
        holds_now="fences grow",
        _no_orphans="what was given up stays on no node",
        _has_ttls="what is left has a ttl",
    ),
)
EVENTS = Explored(
    daily=both(
        each.reported()
        for each in (
            locks.TWO_IMPATIENT.under(cancel=1),
            *(locks.CHECKED_FIXED, locks.REVOKED),
            cohorts.IMPATIENT.under(cancel=1),
            *(cohorts.BESIDE, kept.FELLOW, multis.IMPATIENT, multis.TRIES, shares.PARTS),
            *(shares.IMPATIENT_SIDES, runs_once.TRIES, elections.TO_ONLY, quorums.ALONE),
        )
    ),
    nightly=by_turns(
        each.reported()
        for each in under(
            ("lost", "cancel", "late", "silent", "expiry", "crash", "pause", "restart"),
            *(locks.TWO, locks.TRIES, locks.POLLS, locks.TWO_TOO_LONG, locks.RETURNED, locks.OWNER),
            *(cohorts.IMPATIENT, cohorts.LONGER, kept.TRIED, kept.TASKS, runs_once.TWO),
            *(quorums.TWO, multis.WORKING, multis.IMPATIENT, multis.TRIES, multis.FIXED_BRIEF),
            *(elections.TO_ONLY, shares.THREE, shares.IMPATIENT, shares.TOO_LONG, shares.SIDES),
            shares.DOWNGRADED,
        )
    ),
    at_night=lambda _: OF_REPORTS,
    promises={
        "hooks hear of each request and grant, and of its end": (
            "verification.simulator.reported:EventMonitor.end"
        ),
    },
)

REDISSON = Explored(
    daily=both(
        [
            *worlds_in(redisson),
            *under(FAULTS, redisson.TWO, redisson.ONE_EACH, redisson.IMPATIENT),
            *under(("lost", "late", "cancel", "crash"), redisson.FELLOWS, redisson.TRIES),
            *under(("lost", "late", "pause"), redisson.LONG, redisson.TWICE),
            redisson.TOKENS.under(lost=1),
            *under(("cut", "reboot"), redisson.ONE_EACH),
        ]
    ),
    promises=judged_by(
        "verification.simulator.redisson:RedissonMonitor",
        check="who proves a lease has it",
        holds_now="tokens grow",
    ),
)
PAIRS = Explored()  # its worlds have a table of their own


def with_seeds(name, explored):
    """Return a subject with the faults that are sown into it."""
    sown = import_module(f"tests.flows.seeds.{name}")
    seeds = (*explored.seeds, *getattr(sown, "SEEDS", ()))
    return replace(explored, seeds=seeds, nightly_seeds=getattr(sown, "NIGHTLY_SEEDS", ()))


WORLDS = {
    name.lower(): with_seeds(name.lower(), explored)
    for name, explored in list(vars().items())
    if isinstance(explored, Explored)
}
