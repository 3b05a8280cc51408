"""Worlds of a Cluster: slots that move, masters that are replaced, the shipping ``ClusterPort``."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from tests.flows.worlds.locks import FIXED, RENEWED, Scenario, operator, process, user
from tests.flows.worlds.sentinels import granted
from verification.simulator.cluster import ClusterMonitor, ClusterWorld, PlainMonitor, nodes
from verification.simulator.cluster_port import SimulatedClusterPort, SimulatedClusterReplicas
from verification.simulator.faults import ON_SLOTS


@dataclass(frozen=True)
class Clusters(Scenario):
    """One world of three nodes."""

    monitor: type = ClusterMonitor
    others: tuple = ()
    long: bool = False  # a slot is under way for longer than a lease
    plain: bool = False  # no node has sharded channels
    at: str = ""  # the Cluster's fault strikes while such a request is on its way
    port: ClassVar[type[SimulatedClusterPort]] = SimulatedClusterPort

    def world(self, server, traced):
        lossy = self.replicas is not None
        kind = partial(ClusterWorld, others=self.others, long=self.long, at=self.at, lossy=lossy)
        return super().world(server, traced, kind)

    def with_servers(self):
        first, *others = nodes(self.sources, plain=self.plain)
        return replace(self, others=tuple(others)), first


def hearing(*, work):
    """A holder whose client hears what is for all of it."""

    async def holds(actor):
        actor.port.hear_soon()
        await actor.hold_once(actor.request(RENEWED), None, work)

    return process(holds)


ALONE = Clusters("cluster: 1 alone", (user(),))
TWICE = Clusters("cluster: 1 twice", (user(rounds=2),))
# The slot is under way for longer than the lease: it is renewed there, behind ASKING.
LONG = Clusters("cluster: 1 working 5 s", (user(work=5.0),), long=True)
TWO = Clusters("cluster: 2", (user(FIXED), user(FIXED)), alike=True)
TWO_WORKING = Clusters("cluster: 2 working 1 s", (user(work=1.0), user(work=1.0)), alike=True)
TRIES = Clusters("cluster: 2 try once", (user(timeout=0), user(timeout=0)), alike=True)
IMPATIENT = Clusters(
    "cluster: 1 working 1 s beside 1 impatient", (user(FIXED, work=1.0), user(FIXED, timeout=0.5))
)
# One comes back for the lock while the other one stands in line.
AGAIN = Clusters("cluster: 1 twice beside 1", (user(FIXED, rounds=2), user(FIXED)))
# The holder's release is frozen with the master, and the other one stands in line there.
HANDED_OVER = replace(TWO, name="cluster: 2, handed over", at="release", deep=True)
# The same where a grant of that master is heard at its successor, which has granted meanwhile.
HEARD_ELSEWHERE = replace(TWO_WORKING, name="cluster: 2 working 1 s, handed over", at="release")
# An operator gives up; the frozen master revokes when it wakes up, and its message is heard.
REVOKED_ELSEWHERE = Clusters(
    "cluster: 1 working 4 s, 1 operator", (hearing(work=4.0), operator(patience=1.0)), at="break"
)
# The channels of older servers: no node says that a slot has gone.
PLAIN = replace(TWO_WORKING, name="cluster: 2 plain, working 1 s", plain=True, monitor=PlainMonitor)


def acknowledged(scenario):
    """Return the same with replicas that must acknowledge: a failover loses all else."""
    return replace(
        scenario, name=f"{scenario.name}, acknowledged", replicas=SimulatedClusterReplicas
    )


COUNTED = acknowledged(ALONE)
COUNTED_TWO = acknowledged(TWO)
COUNTED_WORKING = acknowledged(TWO_WORKING)
COUNTED_LONG = acknowledged(Clusters("cluster: 1 working 4 s", (user(work=4.0),)))
# Longer than a replacement takes, without a renewal that would be counted.
COUNTED_FIXED = acknowledged(
    Clusters("cluster: 2 working 2.5 s", (user(FIXED, work=2.5),) * 2, alike=True)
)
COUNTED_LINE = acknowledged(
    Clusters("cluster: 1 brief, 1 working 2.5 s", (user(FIXED, work=0.1), user(FIXED, work=2.5)))
)


async def comes_back(actor):
    """Acquire, and again when the nodes have noticed what is lost: there will be a master."""
    await granted(actor)
    await actor.port.sleep(actor.port.now() + 1.2)
    await granted(actor)


# It has more time than a replacement takes, and less than an isolated master stays so.
PATIENT = Clusters("cluster: 1 comes back", (process(comes_back),))
# The other nodes say CLUSTERDOWN for nearly as long; another fault needs some time, too.
MORE_PATIENT = Clusters(
    "cluster: 1 comes back with more time", (process(comes_back, server_timeout=10.0),)
)

ALL = (ALONE, TWICE, TWO, TWO_WORKING, TRIES, IMPATIENT, AGAIN, PLAIN)
COUNTED_ALL = (COUNTED, COUNTED_TWO, COUNTED_WORKING, COUNTED_LONG, COUNTED_FIXED, COUNTED_LINE)
FAULTS = ON_SLOTS
TOGETHER = tuple(
    {fault: 1, other: 1}
    for fault in FAULTS
    for other in (
        *("lost", "silent", "stuck", "late", "wake", "twice"),
        *("cancel", "crash", "pause", "zombie"),
    )
)


def plan():
    """Yield what the deep exploration goes through."""
    yield LONG.under(migrate=1)
    for scenario in (*ALL, PATIENT, *COUNTED_ALL):
        for faults in (*({fault: 1} for fault in FAULTS), *TOGETHER):
            # A pause and an outage together take most of a client's five seconds.
            late = scenario is PATIENT and ("unserved" in faults or "pause" in faults)
            late = late and len(faults) > 1
            yield (MORE_PATIENT if late else scenario).under(**faults)
    for scenario in COUNTED_ALL:
        for fault in FAULTS:
            yield scenario.under(unacked=1, **{fault: 1})
