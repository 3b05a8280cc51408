"""Worlds whose clients count on a replica, and the faults sown in what they do."""

from dataclasses import replace

from tests.flows import multis, runs_once
from tests.flows import scenarios as worlds
from tests.flows.seeded import seed
from tests.flows.sowing import Fault, Statement, never, nothing
from verification.simulator.replicas import SimulatedReplicas


def acknowledged(scenario):
    """Return the same with a replica that must acknowledge."""
    return replace(scenario, name=f"{scenario.name}, acknowledged", replicas=SimulatedReplicas)


def careless(port):
    """Count without asking which server is asked."""
    return SimulatedReplicas(port, careless=True)


TWO = acknowledged(worlds.TWO)
TWO_IMPATIENT = acknowledged(worlds.TWO_IMPATIENT)
TWO_LONG = acknowledged(worlds.TWO_LONG)
TWO_WORKING = acknowledged(worlds.TWO_WORKING)
TRIES = acknowledged(worlds.TRIES)
POLLS = acknowledged(worlds.POLLS)
OWNER = acknowledged(worlds.OWNER)
BY_HAND = acknowledged(worlds.BY_HAND)
ONCE = acknowledged(runs_once.TWO)
ONCE_SHORT = acknowledged(runs_once.SHORT)
MULTI = acknowledged(multis.TWO)

ALL = (TWO, TWO_IMPATIENT, TWO_LONG, TWO_WORKING, TRIES, POLLS, OWNER, BY_HAND, MULTI, ONCE)
FAULTS = ("unacked", "failover", "lost", "zombie", "late", "cancel", "crash", "silent", "restart")
TOGETHER = (
    *({"unacked": 1, "failover": 1}, {"failover": 2}, {"unacked": 2}),
    *({"failover": 1, fault: 1} for fault in ("lost", "cancel", "crash", "pause", "expiry")),
    *({"unacked": 1, fault: 1} for fault in ("lost", "cancel", "late")),
)


def plan():
    """Yield what the deep exploration goes through."""
    for scenario in ALL:
        for faults in (*({fault: 1} for fault in FAULTS), *TOGETHER):
            yield scenario.under(**faults)


SEEDS = (
    seed(
        "a grant that is reported though no replica acknowledged it",
        Statement("engine.enough_replicas", "count < wanted or port.now() >= deadline", "False"),
        TWO_WORKING.under(unacked=1, failover=1),
        "I1 I2",
    ),
    seed(
        "a handed-over grant that is not counted",
        Fault("attempt.pushed_counts", lambda _real, _port, _waiter, grant, _until: grant),
        TWO_WORKING.under(failover=1),
        "I1",
    ),
    seed(
        "a grant that is not counted",
        Fault("attempt.counts", never),
        TWO_WORKING.under(failover=1),
        "I1",
    ),
    seed(
        "a renewal that counts unacknowledged",
        Statement("keeper.renew_batch", "if missing is None:", "if True:"),
        TWO_LONG.under(unacked=1, failover=1),
        "I1 I2",
    ),
    seed(
        "a result that is read only once replicas have acknowledged it",
        Fault("attempt.counts", lambda _real, reply: isinstance(reply, bytes)),
        ONCE.under(unacked=1).threads(),  # tasks are in line before time passes
        "I12",
        daily="replicas",
    ),
    seed(
        "a result that a waiter gets once replicas have acknowledged it",
        Statement(
            "attempt.pushed_counts",
            "grant is None or not grant.fence or grant.deadline <= port.now()",
            "grant is None or grant.deadline <= port.now()",
        ),
        ONCE_SHORT.under(unacked=1),
        "I12",
    ),
    seed(
        "an unacknowledged grant that stays",
        Fault("attempt.undo", nothing),
        TWO.under(unacked=1),
        "I9",
        daily="replicas",
    ),
)
