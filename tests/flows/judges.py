"""Which promise of each subject of the registry which judge asks, and none without one.

A case that is played and not judged proves nothing. A judge is a function that says what broke; the
daily worlds of its subject must come to it (test_judges.py). What all locks promise is asked
wherever the judge of locks, or one that is made of it, watches.
"""

from __future__ import annotations

MONITOR = "verification.simulator.monitor:Monitor"
SHARES = "verification.simulator.shares:SharesMonitor"
COHORTS = "verification.simulator.cohorts:CohortMonitor"
BARRIERS = "verification.simulator.barriers:CrossingMonitor"
STATES = "verification.simulator.events:GateMonitor"
QUORUMS = "verification.simulator.quorum_monitor:QuorumMonitor"
KEPT = "tests.flows.worlds.kept:KeptMonitor"
ONCE = "tests.flows.worlds.runs_once"

LOCKS = {
    "who proves a lease has it": f"{MONITOR}.check",
    "no lease is proved for longer than it lasts": f"{MONITOR}._ends_in_time",
    "it lasts as long as was asked for": f"{MONITOR}._lasted",
    "fences grow": f"{MONITOR}._fences_grow",
    "only its holder or an operator ends it": f"{MONITOR}._may_give_up",
    "the holder is notified of a loss once, before another is granted": f"{MONITOR}._told_before",
    "the holder is notified of no loss that was none": f"{MONITOR}.told",
    "who comes first is granted first": f"{MONITOR}._first_come",
    "who is granted hears it": f"{MONITOR}._hears",
    "no live waiter stands behind a lock that no client has": f"{MONITOR}.passing",
    "who gave up has nothing left": f"{MONITOR}._nothing_kept",
    "what is left has a ttl": f"{MONITOR}._nothing_in_time",
}
PROMISES: dict[str, dict[str, str]] = {
    "acknowledged": {
        name: LOCKS[name]
        for name in ("who proves a lease has it", "no lease is proved for longer than it lasts")
    },
    "barriers": {
        "all of a generation pass, or none": f"{BARRIERS}._judge_broken",
        "it passes when all have come": f"{BARRIERS}._note_end",
        "each party has an index of its own": f"{BARRIERS}._judge_passed",
        "the action of a generation runs once, and before it passes": f"{BARRIERS}.acts",
        "nobody waits beside a dead party": f"{BARRIERS}._beside_the_dead",
        "who left has no place": f"{BARRIERS}.end",
    },
    "clusters": {
        "who proves a lease has it, wherever its slot is": f"{MONITOR}.check",
        "who waits is served wherever its slot is": f"{MONITOR}.passing",
    },
    "cohorts": {
        "one turn proves the lease": f"{COHORTS}._alone",
        "each turn has a fence of its own": f"{COHORTS}._grows",
        "a turn is passed on within the bound": f"{COHORTS}._within_bound",
        "its waiters are served in their order": f"{COHORTS}._in_their_order",
        "clients are served by arrival": f"{COHORTS}._by_arrival",
        "nothing is left": f"{COHORTS}._nothing_left",
    },
    "deadlocks": {
        "the youngest of a real cycle is refused": "tests.flows.worlds.deadlocks:Truth.was_refused",
        "no wait that is over is remembered": "tests.flows.worlds.deadlocks:Truth.end",
    },
    "elections": {
        "who is handed over to leads next": "tests.flows.worlds.elections:elected",
        "a lease that was kept is not lost": "tests.flows.worlds.elections:hand_over",
        "who leads has the lease": f"{MONITOR}.check",
    },
    "events": {
        "hooks hear of each request and grant, and of its end": (
            "verification.simulator.reported:EventMonitor.end"
        ),
    },
    "kept": {
        "one turn proves the lease": f"{KEPT}.check",
        "an idle lease stops no try": f"{KEPT}.tried",
        "an idle lease is not held": f"{KEPT}.looked",
        "it is idle for a bounded time, and short": f"{KEPT}._idle",
        "a lease that was revoked begins no turn": f"{KEPT}.holds_now",
        "nothing is left": f"{KEPT}.end",
    },
    "locks": LOCKS,
    "multis": {
        "it has all of its locks or none": "tests.flows.worlds.multis:both.turn",
        "a proved lease is released": "tests.flows.worlds.multis:give_back",
        "who proves a lease has it": f"{MONITOR}.check",
    },
    "once": {
        "there is one result": f"{ONCE}:sees",
        "no run begins after it was done": f"{ONCE}:runs_on",
        "the holder is notified of a loss": f"{ONCE}:was_notified",
    },
    "quorums": {
        "nobody relies on a lease beside another": f"{QUORUMS}.check",
        "a majority backs a lease": f"{QUORUMS}._is_backed",
        "it lasts as long as was asked for": f"{QUORUMS}._granted_enough",
        "fences grow": f"{QUORUMS}.holds_now",
        "what was given up stays on no node": f"{QUORUMS}._no_orphans",
        "what is left has a ttl": f"{QUORUMS}._has_ttls",
    },
    "redisson": {
        "who proves a lease has it": "verification.simulator.redisson:RedissonMonitor.check",
        "tokens grow": "verification.simulator.redisson:RedissonMonitor.holds_now",
    },
    "sentinels": {
        "there is a grant once there is a master": "tests.flows.worlds.sentinels:granted",
        "who proves a lease has it": f"{MONITOR}.check",
    },
    "shares": {
        "no more permits are taken than there are": f"{SHARES}._within_limit",
        "who proves a lease has it": f"{SHARES}.check",
        "leases last as wanted": f"{SHARES}._last_as_wanted",
        "only its holder or an operator ends it": f"{SHARES}._may_end",
        "the holder is notified of a loss before others are granted": f"{SHARES}._told_all",
        "who is granted hears it": f"{SHARES}._heard",
        "who comes first is granted first": f"{SHARES}._in_turn",
    },
    "shutdowns": {
        "leases are given back, and holders notified": "tests.flows.worlds.shutdowns:shuts.program",
    },
    "signals": {
        "who goes on saw it open, and who saw it open goes on": f"{STATES}._judge",
        "each change takes effect once": f"{STATES}._change",
        "nobody waits on who could have gone": f"{STATES}.passing",
        "who left is not on the list": f"{STATES}.end",
    },
}
