"""Worlds whose clients count on a replica, and the faults sown in what they do."""

from dataclasses import replace

from tests.flows.worlds import locks as worlds
from tests.flows.worlds import multis, runs_once
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
