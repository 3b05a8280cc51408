"""Reader/writer locks of a quorum: who does what on three nodes, and which faults may strike."""

from dataclasses import dataclass

from fencelock._core.quorum.votes import order
from tests.flows.quorums import FAULTS, NODES, Quorums
from tests.flows.scenarios import FIXED
from tests.flows.shares import downgrader, reader, writer
from verification.simulator.actors import KEYS
from verification.simulator.monitor import Monitor
from verification.simulator.quorum_shares import QuorumSharesMonitor

FIRST, SECOND, THIRD = order(KEYS.lock, [f"node {number}" for number in range(NODES)])


@dataclass(frozen=True)
class Sides(Quorums):
    """A world of three nodes with one reader/writer lock."""

    monitor: type[Monitor] = QuorumSharesMonitor


SIDES = Sides("quorum: 1 reader, 1 writer", (reader(), writer()))
READERS = Sides("quorum: 2 readers, 1 writer", (reader(), reader(), writer()))
WRITERS = Sides("quorum: 2 writers", (writer(),) * 2, alike=True)
WORKING = Sides("quorum: 1 reader 1 s, 1 writer 1 s", (reader(work=1.0), writer(work=1.0)))
LONG = Sides("quorum: 1 reader 4 s, 1 writer 4 s", (reader(work=4.0), writer(work=4.0)))
TOO_LONG = Sides(
    "quorum: 1 reader 4 s, 1 writer 4 s, fixed", (reader(FIXED, work=4.0), writer(FIXED, work=4.0))
)
IMPATIENT = Sides(
    "quorum: 1 reader, 1 writer giving up",
    (reader(work=1.5), writer(work=1.0, timeout=1.2)),
)
DOWNGRADED = Sides("quorum: 1 downgrading", (downgrader(),), large=True)
DOWNGRADED_READER = Sides("quorum: 1 downgrading, 1 reader", (downgrader(), reader()), large=True)
DOWNGRADED_WRITER = Sides("quorum: 1 downgrading, 1 writer", (downgrader(), writer()))
DOWNGRADED_LONG = Sides(
    "quorum: 1 downgrading after 0.2 s, reading 4 s", (downgrader(before=0.2, work=4.0),)
)
DOWNGRADED_ABSENT = Sides(
    "quorum: 1 downgrading after 1.2 s, without a lease of the first node",
    (downgrader(before=1.2, work=2.0),),
    absent=FIRST,
    absent_us=300_000,
)
# Readers that overlap, and a writer whom a broken network keeps from the first node.
CUT_OFF = Sides(
    "quorum: 2 readers overlapping, 1 writer that cannot reach the first node",
    (writer(after=0.2), reader(work=0.5, rounds=3), reader(work=0.7, rounds=2)),
    cut=((0, FIRST),),
)
CUT_OFF_IMPATIENT = Sides(
    "quorum: 1 reader 8 s, 1 writer that cannot reach the first node and gives up",
    (writer(after=0.2, timeout=6.0), reader(work=8.0)),
    cut=((0, FIRST),),
)
CUT_OFF_BOTH = Sides(
    "quorum: 1 reader 1 s, 2 writers, each reaches two nodes",
    (writer(after=0.1), writer(after=0.2), reader(work=1.0)),
    cut=((0, FIRST), (1, SECOND)),
)


def plan():
    """Yield what the deep exploration goes through."""
    yield from (SIDES, READERS, WRITERS, WORKING, LONG, TOO_LONG, IMPATIENT)
    yield from (DOWNGRADED, DOWNGRADED_READER, DOWNGRADED_WRITER, DOWNGRADED_LONG)
    yield from (DOWNGRADED_ABSENT, CUT_OFF, CUT_OFF_IMPATIENT, CUT_OFF_BOTH)
    for scenario in (SIDES, DOWNGRADED, DOWNGRADED_WRITER, CUT_OFF_BOTH):
        yield from (scenario.under(**{fault: 1}) for fault in FAULTS)
