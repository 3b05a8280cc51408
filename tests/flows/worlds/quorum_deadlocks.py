"""Deadlocks of locks on a quorum: units in circles, on three nodes; see deadlocks.py.

A hold counts for as long as its process proves it: on which nodes it lies is the matter of other
worlds. The nodes' clocks differ, so the wait that seems to be the youngest may not be the last one,
and finds the cycle when it looks again.
"""

from dataclasses import dataclass

from fencelock._core.deadlock.unit_waits import AGAIN_SECONDS
from tests.flows.worlds.deadlocks import AFTER, A, B, Truth, cycles, process, unit
from tests.flows.worlds.quorums import Quorums
from verification.simulator.monitor import Monitor, Violation

# A cycle is found within this, if nothing goes wrong.
FOUND_SECONDS = AFTER + AGAIN_SECONDS + 0.2
LASTS_US = int((FOUND_SECONDS + 0.2) * 1e6)


class QuorumTruth(Truth):
    """Who really waited for whom at each instant, by what the holders can prove."""

    skewed = True
    found_seconds = FOUND_SECONDS

    def __init__(self, world):
        super().__init__(world, ())

    def asks(self, client, request):
        """Do nothing: no lock's monitor is here."""

    holds_now = asks

    def told(self, hold):
        """Do nothing: as above."""

    def was_revoked(self, hold):
        return False

    def is_punctual(self, client):
        return not self._world.faulty

    def _blocks(self, living, hold, request):
        return hold.bound and not hold.released and hold.loss is None

    def passing(self, instant):
        """See that no cycle lasts (I6), and move the nodes' clocks."""
        for server in self._world.servers:
            server.now_us += instant - self._world.now_us
        self._note()
        there = cycles(frozenset(self._edges()))
        if any(instant - self.closed[cycle] > LASTS_US for cycle in there):
            raise Violation("I6", "a cycle lasts, and nobody is refused")


@dataclass(frozen=True)
class Circle(Quorums):
    """A world of three nodes, with two locks."""

    monitor: type[Monitor] = QuorumTruth


TWO = Circle(
    "quorum: 2 processes in a circle",
    (process(unit(A, B, gap=0.1)), process(unit(B, A, after=0.05, gap=0.1))),
)
SAME_ORDER = Circle(
    "quorum: 2 processes in one order",
    (process(unit(A, B, gap=0.1)), process(unit(A, B, after=0.05, gap=0.1))),
)
ITSELF = Circle("quorum: 1 unit that waits for itself", (process(unit(A, A)),))
FURTHER = (SAME_ORDER, ITSELF)
