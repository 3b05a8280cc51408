"""A simulated Cluster: nodes that redirect, slots that move, a master that is replaced.

The keys of a scenario lie in one slot, those of a multi also in others. Node 0 is the first one's
master at first; node 1 is another master, which has all other slots, and to which that one may
move; node 2 is the replica of node 0. Each node has its own view of the slot's master, and answers
by it:

==========  =====================================================================================
move        the slot moves to node 1 in an instant
migrate     the slot moves key by key: ASK and TRYAGAIN until the last step of it
freeze      node 0 stands still, and its replica takes its place; when it wakes up, it serves what
            it was sent before it learns of that
gone        node 0 stands still for good, and is replaced
unserved    the same, but late; until a moment after that the other nodes say CLUSTERDOWN
isolated    node 0 loses all others: it serves for a node timeout, says CLUSTERDOWN then, and does
            not learn for long that it is replaced
==========  =====================================================================================

A message goes to the other nodes, too: in a shard, or to all where there are no sharded channels.
So one of a master that was replaced reaches clients at its successor. The bus between the nodes
brings it at some time after the failover, in order: also what was sent before the master froze.

A replica has what its master had, but nothing of what an isolated one did. Where replicas
acknowledge (``lossy``), it has what it acknowledged and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fencelock._core.keys import slot
from fencelock._topology.slots import READ_MAP, NodeAddress
from verification.simulator.faults import ON_SLOTS
from verification.simulator.keyspace import Frozen
from verification.simulator.monitor import GIVING_UP, UNSERVED_US_MAX, Monitor
from verification.simulator.network import NEVER_US, Item
from verification.simulator.server import ACKNOWLEDGE, EMPTY, Outcome, Refusal, Request, Server
from verification.simulator.simulation import World
from verification.simulator.strings import SHARDED
from verification.simulator.view import at

if TYPE_CHECKING:
    from verification.simulator.steps import Action

SLOT = slot(b"lock")
LAST = 16383
MASTER, OTHER, REPLICA = range(3)
# A node timeout of a second at least, and the election.
REPLACED_US = 1_500_000
# The same when the replicas are late, and when all nodes have agreed on it.
LATE_US = 3_500_000
AGREED_US = 4_700_000
# After a node timeout, nodes that are cut off from each other count each other as lost.
LOST_US = 1_000_000
HEALED_US = 7_000_000
# What happens by itself after each of these has begun.
COURSES = {
    "freeze": ((REPLACED_US, "replace"),),
    "gone": ((REPLACED_US, "replace"),),
    "unserved": ((LOST_US, "fail"), (LATE_US, "replace"), (AGREED_US, "agree")),
    "isolated": ((LOST_US, "lose"), (REPLACED_US, "replace"), (HEALED_US, "heal")),
}
# How long a frozen master sleeps on after that, and a slot is under way, at the most.
THAWED_US = 300_000
MIGRATION_US = 60_000
# A long migration begins before this, and is over before the work is that is done meanwhile.
EARLY_US = 900_000
LONG_US = 4_000_000


def address(number: int) -> NodeAddress:
    """Return where a node is."""
    return NodeAddress(f"n{number}", 7000 + number)


class ClusterRequest(Request):
    """A request to a node: ``asking`` after ASKING; ``who``: the connection that subscribes."""

    __slots__ = ("asking", "who")

    def __init__(
        self,
        name: str,
        keys: tuple[bytes, ...],
        args: tuple[bytes | int, ...],
        *,
        asking: bool = False,
        who: tuple[int, int] = (-1, -1),
    ) -> None:
        super().__init__(name, keys, args)
        self.asking = asking
        self.who = who


def slot_of(request: Request) -> int:
    """Return the slot of a request's keys, or of the channel or key that a command names."""
    named = [*request.keys, *request.args[1:2]]
    return slot(named[0]) if named and isinstance(named[0], bytes) else SLOT


class ClusterNode(Server):
    """One node: a server that says where the slot is when it is not here."""

    def __init__(
        self, number: int, sources: Mapping[str, bytes] | None = None, *, plain: bool = False
    ) -> None:
        self.number = number
        self.plain = plain  # it has no sharded channels
        super().__init__(sources, cluster=True, node=_told(number)[-1])

    def reset(self) -> None:
        """Begin again, with node 0 as the master of the slot."""
        super().reset()
        self.owner = MASTER  # the master of the slot, in this node's view
        self.migrating = self.importing = False
        self.frozen = self.gone = False
        self.down = False  # it says CLUSTERDOWN
        self.deserted = False  # no replica follows it
        self.cut = False  # no other node hears it

    def key(self) -> Any:
        """Return all that decides what it will answer."""
        return super().key(), self.owner, self.migrating, self.importing, self.frozen, self.down

    def run(self, request: Request) -> Outcome:
        """Run a request, or say where it belongs."""
        if request.name == READ_MAP[0].decode():
            return Outcome(self._map(), (), self.state)
        if request.name == "SSUBSCRIBE" and self.plain:
            return Outcome(Refusal("ERR unknown command 'SSUBSCRIBE'"), (), self.state)
        refusal = "CLUSTERDOWN The cluster is down" if self.down else self._refusal(request)
        if refusal:
            return Outcome(Refusal(refusal), (), self.state)
        if request.name.endswith("SUBSCRIBE"):
            assert isinstance(request, ClusterRequest)
            self.subscribe(bytes(request.args[-1]), request.who)
            return Outcome(None, (), self.state)
        if request.name == ACKNOWLEDGE and self.deserted:
            return Outcome(0, (), self.state)
        return super().run(request)

    def _map(self) -> Any:
        """Return what CLUSTER SLOTS says here: the slot's master, and another one's slots."""
        here = [self.owner, REPLICA] if self.owner == MASTER else [self.owner]
        return tuple(
            (first, last, *map(_told, nodes))
            for first, last, nodes in (
                (0, SLOT - 1, [OTHER]),
                (SLOT, SLOT, here),
                (SLOT + 1, LAST, [OTHER]),
            )
        )

    def _refusal(self, request: Request) -> str:
        if request.name == "SUBSCRIBE":
            return ""
        number = slot_of(request)
        if number != SLOT:
            return "" if self.number == OTHER else f"MOVED {number} {address(OTHER)}"
        guest = self.importing and isinstance(request, ClusterRequest) and request.asking
        if self.owner != self.number and not guest:
            return f"MOVED {SLOT} {address(self.owner)}"
        if not (self.migrating or guest) or request.name == "SSUBSCRIBE":
            return ""
        if request.name == ACKNOWLEDGE:  # it writes a key that was nowhere before
            return f"ASK {SLOT} {address(OTHER)}"
        keys = request.keys or tuple(each for each in request.args[1:2] if isinstance(each, bytes))
        missing = set(keys) - self.living().keys()
        if guest:
            return "TRYAGAIN" if missing and len(keys) > 1 else ""
        if not missing:
            return ""
        return "TRYAGAIN" if len(missing) < len(keys) else f"ASK {SLOT} {address(OTHER)}"


def _told(number: int) -> tuple[bytes, int, bytes]:
    """Return what CLUSTER SLOTS says of a node."""
    node = address(number)
    return node.host.encode(), node.port, b"node%d" % number


class ClusterMonitor(Monitor):
    """Watches one lock in a Cluster. That a slot moves is no fault: nothing may be lost by it."""

    _world: ClusterWorld

    def view(self) -> Any:
        """Return the lock as it stands in the Cluster; on two nodes while its slot is under way."""
        world = self._world
        state = world.server.state
        if world.under_way:
            state |= world.nodes[OTHER].state
        return at(state, world.server.now_us)

    def _unserved(self, view: Any) -> bool:
        """Leave out the time in which no node can serve the lock."""
        return not (self._world.under_way or self._world.headless) and super()._unserved(view)


class PlainMonitor(ClusterMonitor):
    """Watches one in which a waiter finds out by its next look that its slot has moved."""

    unserved_us_max_faultless = UNSERVED_US_MAX


class ClusterWorld(World):
    """A world whose servers are the nodes of a Cluster; ``server`` is the slot's master."""

    def __init__(
        self,
        server: Server,
        *,
        long: bool = False,
        at: str = "",
        lossy: bool = False,
        **options: Any,
    ) -> None:
        self.lossy = lossy
        self.course: list[tuple[int, str]] = []  # what happens by itself, and when
        self.at = at  # the fault strikes while such a request is on its way
        self.long = long  # a slot is under way for longer than a lease, with all its keys there
        self.lasts_us = LONG_US if long else MIGRATION_US
        nodes: Any = (server, *options["others"])
        self.nodes: tuple[ClusterNode, ...] = nodes
        self.stage = 0  # of the migration: how much of it is done
        self.began_us = NEVER_US  # the migration, or the frost
        self.replaced = False
        self.bus: list[tuple[bytes, bytes]] = []  # from node 0 to its replica: channel, message
        super().__init__(server, **options)
        self.slow = not self.budgets.keys().isdisjoint(COURSES)  # the bus: a master is replaced

    @property
    def server(self) -> Server:
        """Return the node that serves the slot."""
        if self.replaced:
            return self.nodes[REPLICA]
        return self.nodes[OTHER if self.nodes[OTHER].owner == OTHER else MASTER]

    @server.setter
    def server(self, server: Server) -> None:
        """Leave it to the nodes."""

    @property
    def under_way(self) -> bool:
        """Return True while the slot is on its way to another node."""
        return self.nodes[MASTER].migrating

    @property
    def headless(self) -> bool:
        """Return True while no node serves the slot."""
        server = self.server
        assert isinstance(server, ClusterNode)
        return server.frozen or server.down

    def key(self) -> int:
        """Return a number that two runs share when all that can follow is the same."""
        own = self.stage, self.began_us, self.replaced, len(self.course), tuple(self.bus)
        return hash((super().key(), own))

    # -- what may happen ------------------------------------------------------------------------

    def own_faults(self) -> list[Action]:
        """Return what may befall the slot now: one of all, once."""
        if self.began_us < NEVER_US or self.server is not self.nodes[MASTER]:
            return []
        if self.long and self.now_us > EARLY_US:
            return []
        asked = (each for client in self.clients for link in client.links for each in link.up)
        if self.at and not any(each.name == self.at for each in asked):
            return []
        return [(kind, MASTER) for kind in ON_SLOTS if self.budgets.get(kind)]

    def progress(self) -> list[Action]:
        """Return how what has begun may go on."""
        steps: list[Action] = [("migrated", MASTER)] if self.under_way and not self.long else []
        master = self.nodes[MASTER]
        if self.replaced and not (master.gone or master.down):
            steps += [("thaw", MASTER)] if master.frozen else []
            steps += [("learn", MASTER)] if not master.frozen and master.owner == MASTER else []
        if self.replaced and self.bus:
            steps.append(("carry", REPLICA))
        return steps

    def disturb(self, kind: str) -> None:
        """Let something begin."""
        self._strand()
        self.began_us, master = self.now_us, self.nodes[MASTER]
        self.course = [(self.now_us + after, name) for after, name in COURSES.get(kind, ())]
        if kind == "move":
            self._moved()
        elif kind == "migrate":
            self.nodes[MASTER].migrating = self.nodes[OTHER].importing = True
            self._migrate(2 if self.long else 1)
        elif kind == "isolated":
            master.replica, master.deserted, master.cut = self._copied(), True, True
        else:
            master.frozen, master.gone = True, kind != "freeze"

    def _strand(self) -> None:
        """Note an undo that the slot's old master gets too late, and whose answer nobody awaits.

        Its request came two seconds late, and was served before it; the client has asked the slot's
        master meanwhile, which knew of nothing. So the grant ends with its ttl.
        """
        for client in self.clients:
            for link in client.links:
                undo = link.up[0] if link.up and link.server is self.nodes[MASTER] else None
                if undo is not None and undo.name in GIVING_UP and undo.asker is None:
                    self.monitor.is_haunted()

    def advance(self, name: str) -> None:
        """Let it go on."""
        self.say(lambda: f"! {name}")
        if name == "thaw":
            self.nodes[MASTER].frozen = False
        elif name == "learn":
            self._leaves(self.nodes[MASTER], REPLICA)
        elif name == "carry":
            super()._push(self.nodes[REPLICA], *self.bus.pop(0))
        else:
            self._migrate(self.stage + 1)

    def pass_to(self, instant: int) -> None:
        """Set the world's clock forward; what was due on the way happens first."""
        while self.course and instant >= self.course[0][0]:
            self._happens(self.course.pop(0)[1])
        super().pass_to(instant)
        if self.under_way and self.now_us >= self.began_us + self.lasts_us:
            self._moved()
        late = self.now_us >= self.began_us + REPLACED_US + THAWED_US
        master = self.nodes[MASTER]
        if self.replaced and not (master.gone or master.down) and (late or not master.frozen):
            master.frozen = False
            if master.owner == MASTER:
                self._leaves(master, REPLICA)

    def instants_us(self) -> list[int]:
        """Return when something happens to a node by itself."""
        if self.course:
            return [self.course[0][0]]
        if self.nodes[MASTER].frozen and not self.nodes[MASTER].gone:
            return [self.began_us + REPLACED_US + THAWED_US]
        return [self.began_us + self.lasts_us] if self.under_way else []

    def _push(self, server: Server, channel: bytes, message: bytes) -> None:
        """Bring a message to all nodes that hear this one: those of a shard, or all.

        What a master that is replaced sent comes to its successor late.
        """
        assert isinstance(server, ClusterNode)
        far = (OTHER,) if channel.endswith(SHARDED) else ()
        for node in self.nodes:
            apart = server.cut or node.cut or server.number in far or node.number in far
            if self.slow and (server.number, node.number) == (MASTER, REPLICA) and not apart:
                self.bus.append((channel, message))
            elif node is server or not apart:
                super()._push(node, channel, message)

    # -- what becomes of the slot ----------------------------------------------------------------

    def _migrate(self, stage: int) -> None:
        """Move the first key, then all others, then the slot."""
        self.stage = stage
        if stage > 2:
            self._moved()
            return
        source, target = self.nodes[MASTER], self.nodes[OTHER]
        moving = frozenset(
            sorted(source.state, key=lambda each: each[0])[: 1 if stage == 1 else None]
        )
        source.state, target.state = source.state - moving, target.state | moving

    def _moved(self) -> None:
        self._strand()
        source, target = self.nodes[MASTER], self.nodes[OTHER]
        target.state |= source.state
        source.state = EMPTY
        source.migrating = target.importing = False
        target.owner = OTHER
        self._leaves(source, OTHER)

    def _happens(self, name: str) -> None:
        """Let the nodes find out what is lost, or agree again."""
        self.say(lambda: f"! {name}")
        if name == "replace":
            self._replace()
        elif name in {"lose", "heal"}:
            self.nodes[MASTER].down = self.nodes[MASTER].cut = name == "lose"
        else:
            for node in self.nodes[OTHER:]:
                node.down = name == "fail"

    def _copied(self) -> Frozen:
        """Return what the replica of node 0 has."""
        master = self.nodes[MASTER]
        return master.replica if self.lossy or master.deserted else master.state

    def _replace(self) -> None:
        """Let the replica take the place of the master that is lost."""
        master = self.nodes[MASTER]
        had = self.nodes[REPLICA].state = self._copied()
        self.replaced = master.deserted = True
        if self.lossy:
            self.monitor.failed_over()
        elif master.state != had:
            self.monitor.replaced()
        for node in self.nodes[OTHER:]:
            node.owner = REPLICA

    def _leaves(self, node: ClusterNode, owner: int) -> None:
        """Let a node learn that the slot is another one's: it closes the channels of the slot."""
        node.owner = owner
        for channel, (number, line) in sorted(node.listeners):
            link = self.clients[number].links[line]
            if channel.endswith(SHARDED) and slot(channel) == SLOT:
                node.listeners -= {(channel, link.who)}
                if not link.closed:
                    link.down.append(Item(None, b"sunsubscribe " + channel))


def nodes(sources: Mapping[str, bytes], *, plain: bool = False) -> list[ClusterNode]:
    """Return the nodes of a Cluster that run these scripts; ``plain``: without sharded channels."""
    return [ClusterNode(number, sources, plain=plain) for number in (MASTER, OTHER, REPLICA)]
