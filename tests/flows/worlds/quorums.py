"""A lock of a quorum: who does what on three nodes, and which faults may strike.

The flows, the scripts and the explorer are those that ship; see verification.simulator.quorum.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from fencelock._core.lock import acquire, release
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.terms import Terms
from fencelock.scripts import QUORUM_VOTE
from tests.flows.worlds.locks import (
    FIXED,
    RENEWED,
    TTL,
    Scenario,
    renewing,
    user,
    users,
)
from verification.simulator.actors import KEYS, Flows
from verification.simulator.faults import break_link
from verification.simulator.monitor import Monitor
from verification.simulator.quorum import SimulatedQuorum
from verification.simulator.quorum_monitor import QuorumMonitor
from verification.simulator.server import EPOCH_US, Request, Server
from verification.simulator.simulation import World

NODES = 3
# The nodes' clocks, beside the world's.
SKEWS_US = (0, -5_000_000, 5_000_000, 1_000_000)
LATE_FENCE = EPOCH_US + 60_000_000  # what a vote in vain left on the last node


async def attend(port):
    """Tend leases as the ports do: those of the quorum, and those of each node."""
    await port.maintain()


def shipping():
    return Flows(acquire.acquire, release.release, attend)


class Nodes(World):
    """A world of several nodes, which most processes have met before."""

    introduces = True

    def client(self, **options):
        client = super().client(**options)
        if not self.introduces:
            return client
        template = Terms(
            keys=KEYS, options=RENEWED, client_channel=client.port.client_channel, ttl=RENEWED.ttl
        )
        client.port.introduce(Hold(template, b"meets"))
        return client


def newcomer(**how):
    """A process that meets the nodes when it asks for the first time."""
    role = user(**how)

    def comes(scenario, world):
        world.introduces = False
        role(scenario, world)
        world.introduces = True

    return comes


@dataclass(frozen=True)
class Quorums(Scenario):
    """A world of three nodes.

    ``late``: a vote in vain left a late fence on the last; ``absent_us``: till then nobody reaches
    the second. ``cut``: which process can never reach which node.
    """

    flows: Flows = field(default_factory=shipping)
    monitor: type[Monitor] = QuorumMonitor
    others: tuple[Server, ...] = ()
    late: bool = False
    absent_us: int = 0
    cut: tuple[tuple[int, int], ...] = ()
    nodes: int = NODES
    port: ClassVar[type[SimulatedQuorum]] = SimulatedQuorum

    def world(self, server, traced):
        world = super().world(server, traced, partial(Nodes, others=self.others))
        for each, skew_us in zip(world.servers, SKEWS_US, strict=False):
            each.skew_us, each.now_us = skew_us, EPOCH_US + skew_us
        if self.late:
            gone = (b"gone", 1, b"1 1 0 home {}", b"%d" % LATE_FENCE)
            server = world.servers[-1]
            server.now_us -= 2000  # that lease is over when the world begins
            server.run(Request(QUORUM_VOTE.name, KEYS.grant, gone))
            server.now_us += 2000
        return world

    def begin(self, world):
        super().begin(world)
        if self.absent_us:
            absent = world.servers[1]
            absent.started_us = self.absent_us
            for client in world.clients:
                for link in tuple(client.links):
                    if link.server is absent:
                        break_link(world, link, keeps=False)
        for number, node in self.cut:
            client = world.clients[number]
            client.port.unreachable |= {node}
            for link in tuple(client.links):
                if link.server is world.servers[node]:
                    break_link(world, link, keeps=False)

    def as_shipped(self):
        return replace(self, flows=shipping())

    def with_servers(self):
        first, *others = (Server(self.sources) for _ in range(self.nodes))
        return replace(self, others=tuple(others)), first


# -- scenarios ------------------------------------------------------------------------------------

# Two that differ in nothing but their names, where no more is said.
ALONE = Quorums("quorum: 1 alone", users(1))
ALONE_RENEWED = Quorums("quorum: 1 alone, working 1 s, renewed", users(1, work=1.0))
ALONE_LONG = Quorums("quorum: 1 alone, working 4 s, renewed", users(1, work=4.0), large=True)
ALONE_WORKING = Quorums("quorum: 1 alone, working 0.5 s", users(1, work=0.5))
ALONE_TWICE = Quorums(
    "quorum: 1 tries twice, a late fence", users(1, timeout=-1, rounds=2), late=True
)
TWO = Quorums("quorum: 2 in line", users(2), alike=True)
THREE = Quorums("quorum: 3 in line", users(3), alike=True)
LATE = Quorums("quorum: 2 in line, a late fence", users(2), alike=True, late=True)
TRIES = Quorums("quorum: 2 tries", users(2, timeout=-1), alike=True)
TWICE = Quorums(
    "quorum: 2 try twice, a late fence", users(2, timeout=-1, rounds=2), alike=True, late=True
)
LONG = Quorums("quorum: 2 working 4 s, renewed", users(2, work=4.0), alike=True)
TOO_LONG = Quorums("quorum: 2 working 4 s, fixed", users(2, FIXED, work=4.0), alike=True)
IMPATIENT = Quorums(
    "quorum: 2 working 1.5 s, giving up", users(2, work=1.5, timeout=1.0), alike=True
)
TRY_AND_LINE = Quorums("quorum: 1 in line, 1 tries", (user(), user(timeout=-1)))
LONG_AND_TRY = Quorums("quorum: 1 working 1 s, 1 tries", (user(work=1.0), user(timeout=-1)))
ALONE_FIXED = Quorums("quorum: 1 alone, fixed", users(1, FIXED))
BY_HAND_ONCE = renewing(TTL, before=1.0, after=2.5)
ALONE_BY_HAND = Quorums("quorum: 1 alone, renewing by hand", (BY_HAND_ONCE,))
ABSENT = Quorums(
    "quorum: 1 working 0.5 s, 1 in line, one of the nodes comes late",
    (user(work=0.5), user()),
    absent_us=50_000,
)
ALONE_OF_TWO = Quorums(
    "quorum: 1 alone, working 4 s, one of the nodes is away",
    users(1, work=4.0),
    absent_us=9_000_000,
)
# A node that forgets takes the majority; what is left keeps the next out while the body works.
BARE = Quorums(
    "quorum: 1 working 1.2 s on two nodes, 1 comes later",
    (user(work=1.2), user(after=0.8)),
    cut=((0, 1),),
    large=True,
)
BY_HAND = Quorums("quorum: 1 renewing by hand, 1 in line", (BY_HAND_ONCE, user()))
SHORTER = Quorums("quorum: 1 renewing for less, then for more", (renewing(0.8, 2.5),), large=True)
DRIFTING = Quorums(
    "quorum: 2 working 4 s, clocks adrift", (user(work=4.0, rate=0.996), user(work=4.0, rate=1.004))
)

# Others that use other ttls: a node that was restarted waits for theirs, and no longer. How long
# it is up counts from the first try.
TRIES_AGAIN = user(after=0.4, timeout=-1, rounds=3, pause=2.6)
UNLIKE = Quorums(
    "quorum: 1 working 7 s, 9 s fixed, 1 tries three times, one of the nodes comes late",
    (user(FIXED._replace(ttl=9.0), work=7.0), TRIES_AGAIN),
    absent_us=300_000,
    large=True,
)
UNLIKE_MET = Quorums(
    "quorum: 1 working 7 s, 9 s fixed, a newcomer tries for 3 s, 1 tries twice after 5.5 s",
    (
        user(FIXED._replace(ttl=9.0), work=7.0),
        newcomer(after=0.4, timeout=-1),
        user(after=5.5, timeout=-1, rounds=2),
    ),
    absent_us=300_000,
)
HOUR = FIXED._replace(ttl=3600.0)
CLAIMED = Quorums(
    "quorum: 1 working 7 s, an hour fixed, 1 tries three times, one of the nodes comes late",
    (user(HOUR, work=7.0), TRIES_AGAIN),
    absent_us=300_000,
    large=True,
)
RELEASED = Quorums(
    "quorum: 1 releases what it had for an hour, 1 comes later, one of the nodes is away",
    (user(HOUR), user(after=0.5, rounds=4)),
    cut=((0, 1), (1, 1)),
    large=True,
)
CLAIMED_TWICE = Quorums(
    "quorum: 1 alone, an hour renewed, twice", (user(HOUR._replace(renew=True), rounds=2),)
)
# Even numbers of nodes: a majority is more than half.
FOUR = Quorums("quorum of 4: 2 in line", users(2), alike=True, nodes=4)
FOUR_TRIES = Quorums("quorum of 4: 2 tries", users(2, timeout=-1), alike=True, nodes=4)
# What comes after a loss: the same process acquires again.
AGAIN = Quorums(
    "quorum: 1 too long for its fixed lease, twice", users(1, FIXED, work=3.5, rounds=2)
)

FAULTS = (
    *("lost", "zombie", "silent", "late", "wake", "expiry", "crash", "pause", "cancel", "back"),
    *("restart", "reboot", "down", "twice", "stuck"),
)
TOGETHER = (
    {"late": 2},
    {"silent": 1, "late": 1},
    {"late": 1, "down": 1},
    {"late": 1, "cancel": 1},
    {"down": 1, "cancel": 1},
    {"restart": 1, "late": 1},
    {"restart": 2},
    {"down": 2},
    {"pause": 1, "late": 1},
)


def plan():
    """Yield what the deep exploration goes through."""
    yield from (ALONE, ALONE_LONG, TWO, THREE, LATE, TRIES, TWICE, LONG, TOO_LONG, IMPATIENT)
    yield from (BARE, TRY_AND_LINE, LONG_AND_TRY, BY_HAND, SHORTER, ABSENT, DRIFTING, ALONE_OF_TWO)
    yield from (UNLIKE, UNLIKE_MET, CLAIMED, CLAIMED_TWICE, RELEASED, FOUR, FOUR_TRIES, AGAIN)
    for scenario in (TWO, ABSENT, IMPATIENT, LONG, BY_HAND, SHORTER, TWICE, AGAIN, FOUR):
        yield from (scenario.under(**{fault: 1}) for fault in FAULTS)
    for scenario in (ALONE_LONG, ALONE_OF_TWO, ABSENT):
        yield from (scenario.under(**faults) for faults in TOGETHER)
    for scenario in (UNLIKE, UNLIKE_MET, CLAIMED, RELEASED, BARE):
        yield from (scenario.under(**{fault: 1}) for fault in ("restart", "reboot", "down"))
