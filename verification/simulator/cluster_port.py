"""The simulated port for a Cluster: the shipping ``ClusterPort``, over simulated connections."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress

from fencelock._core.pushes import dispatch
from fencelock._core.round_trips import RoundTrips
from fencelock._core.seat import Question, Seat
from fencelock._core.types import Args, Carrier, Keys, NoReply, Reply
from fencelock._io.cleanup_queue import CLEANUP_SECONDS, UNDO_SECONDS
from fencelock._io.wire import ReplyError, not_now
from fencelock._topology.cluster import Batch, ClusterPort
from fencelock._topology.io import Flow
from fencelock._topology.slots import ClusterSource, NodeAddress
from fencelock.errors import FencelockError, ServerError
from fencelock.scripts import Script, packed
from verification.simulator.cluster import (
    MASTER,
    ClusterNode,
    ClusterRequest,
    ClusterWorld,
    address,
)
from verification.simulator.latch import SimulatedIo
from verification.simulator.network import Client, Link, World
from verification.simulator.port import SimulatedPort
from verification.simulator.replicas import DIAL_SECONDS, SimulatedReplicas
from verification.simulator.server import unpacked
from verification.simulator.several import exchange


class SimulatedNode:
    """Implements ``_topology.io.NodeConnections`` for one simulated process."""

    def __init__(self, port: SimulatedClusterPort, node: NodeAddress) -> None:
        self._port = port
        self._node = node

    def idle(self) -> Link | None:
        """Return a sound connection that no other task uses, or the shared one."""
        for link in self._port.client.links:
            free = self._port.shared or (link.seat_of is None and not link.owed)
            if link.sound and free and link.node == self._node and not link.apart:
                return link
        return None

    def give(self, connection: Link) -> None:
        """Use a connection no more on which an answer is owed."""
        if connection.owed and not self._port.shared:
            connection.sound = False


class SimulatedNodes(SimulatedIo):
    """Implements ``_topology.io.NodeIo`` for one simulated process."""

    _port: SimulatedClusterPort

    def __init__(self, port: SimulatedClusterPort) -> None:
        super().__init__(port)
        self.trips: RoundTrips = port.trips
        self.at: dict[NodeAddress | None, SimulatedNode] = {
            address(each.number): SimulatedNode(port, address(each.number))
            for each in port.world.nodes
        }

    def caller(self) -> Hashable:
        """Return the task that runs now."""
        return self._port.world.running

    def spawn(self, flow: Flow, name: str) -> bool:
        """Run a flow in a task of the process."""
        del name
        self._port.world.start(self._port.client, flow(), in_background=True)
        return True

    async def lend(self, node: NodeAddress, until: float) -> Link:
        """Return a connection to a node; it opens at once."""
        del until
        link = self.at[node].idle()
        return self._port.dial_to(node) if link is None else link

    async def run(
        self, connection: Link, packed: bytes, until: float, *, asking: bool = False
    ) -> Reply:
        """Run a packed script call."""
        call = unpacked(packed)
        request = ClusterRequest(call.name, call.keys, call.args, asking=asking)
        return await self._port.ask_on(connection, request, until)

    async def command(self, connection: Link, args: Args, until: float) -> Reply:
        """Run a plain command."""
        name = args[0] if isinstance(args[0], bytes) else b""
        request = ClusterRequest(name.decode(), (), tuple(args))
        return await self._port.ask_on(connection, request, until)

    async def commands(
        self, connection: Link, several: Sequence[Args], until: float
    ) -> Sequence[Reply]:
        """Run plain commands."""
        return [await self.command(connection, each, until) for each in several]

    async def subscribe(
        self,
        connection: Link,
        channel: bytes,
        until: float,
        word: bytes,
        *,
        asking: bool,
    ) -> None:
        """Listen to a channel."""
        args = (word, channel)
        request = ClusterRequest(word.decode(), (), args, asking=asking, who=connection.who)
        await self._port.ask_on(connection, request, until)
        connection.channel = channel

    async def exchange(
        self, asks: Sequence[Question], latest: float, limit: Callable[[], float]
    ) -> None:
        """Write to all nodes, and take answers as they come."""
        del latest  # connections open at once
        await exchange(self._port, asks, limit, self._send_out)
        for each in asks:
            if isinstance(each.error, NoReply) and each.error.undo_connection is not None:
                self._port.give_up(each.origin)

    def _send_out(self, asked: Question) -> list[ClusterRequest]:
        assert isinstance(asked, Batch)
        assert asked.node is not None
        at = self.at[asked.node]
        asked.origin = asked.connection or at.idle() or self._port.dial_to(asked.node)
        calls = [unpacked(each) for each in asked.requests]
        return [ClusterRequest(each.name, each.keys, each.args) for each in calls]

    def put_back(self, asks: Sequence[Question]) -> None:
        """Give the connections back."""
        for each in asks:
            assert isinstance(each, Batch)
            self.at[each.node].give(each.origin)


class SimulatedClusterPort(ClusterPort, SimulatedPort):
    """The port of one simulated process."""

    world: ClusterWorld

    def __init__(
        self, world: World, client: Client, *, shared: bool, server_timeout: float
    ) -> None:
        SimulatedPort.__init__(self, world, client, shared=shared, server_timeout=server_timeout)
        seeds = (address(MASTER),)
        self._use(ClusterSource(seeds, lambda node: node, self.label), SimulatedNodes(self))
        self.slots.learn(self.world.nodes[MASTER].run(_READ_MAP).reply, seeds[0])
        self.slots.master_check.note(seeds[0], self.now())

    async def call(
        self, script: Script, keys: Keys, args: Args, until: float, waiter: Seat | None = None
    ) -> Reply:
        """Run a script at the node of its keys, as the real ports do."""
        return await self.run(packed(script, keys, args), keys[0], until, waiter)

    def dial_to(self, node: NodeAddress) -> Link:
        """Open another connection to a node."""
        server = next(each for each in self.world.nodes if address(each.number) == node)
        return self._dialled(server, node)

    def _dialled(self, server: ClusterNode, node: NodeAddress) -> Link:
        self.server, before = server, self.server
        link = self._connected()
        self.server = before
        link.node = node
        link.name = self.client_channel if self.shared else self._new_channel()
        return link

    # -- waiting --------------------------------------------------------------------------------

    def sit(self, waiter: Seat, connection: Link) -> None:
        """Seat a waiter on a connection; its alone, as threads have it."""
        waiter.origin = connection
        self.waiters[waiter.id] = waiter
        if not self.shared:
            waiter.connection, connection.seat_of = connection, waiter

    def seated(self, connection: Link) -> Iterable[Seat]:
        """Return the waiters that sit on a connection."""
        return [each for each in self.waiters.values() if each.origin is connection]

    def seated_as(self, connection: Link, who: bytes) -> Seat | None:
        """Return the waiter of this id, if it sits on this connection."""
        waiter = self.waiters.get(who)
        return waiter if waiter is not None and waiter.origin is connection else None

    def close(self, waiter: Seat) -> None:
        """Forget a waiter."""
        waiter.origin = None
        SimulatedPort.close(self, waiter)

    async def wait(self, waiter: Seat, until: float) -> None:
        """Wait for news, or until the instant; where a connection is gone, so may be its node."""
        connection = waiter.origin
        await SimulatedPort.wait(self, waiter, until)
        if not self.shared and isinstance(connection, Link) and not connection.sound:
            self.slots.invalidate(connection.node)

    def pushed(self, link: Link, message: bytes) -> None:
        """Take a push."""
        if link.silent:
            return
        kind, _, channel = message.partition(b" ")
        push = [b"smessage", link.channel, message]
        taken = self.taken(link, [kind, channel] if kind == b"sunsubscribe" else push)
        waiter = None
        if taken is not None:
            waiter = dispatch(self, taken, lambda who: self.seated_as(link, who))
        if waiter is None and not self.shared and isinstance(link.seat_of, Seat):
            waiter = link.seat_of if link.seat_of.news else None  # the thread that reads
        if waiter is not None:
            self.world.wake(self.client, waiter)

    def unplugged(self, link: Link) -> None:
        """Have the waiters of a lost connection ask again."""
        if self.shared:
            self.lost(link)
        else:
            SimulatedPort.unplugged(self, link)

    def give_up(self, link: Link) -> None:
        """Ask nothing new on a connection that is silent."""
        link.sound, link.silent = False, True
        if self.shared:
            self.lost(link)

    _retire = give_up

    def attend_by(self, when: float) -> None:
        """Leave it to the keeper, which sees the book."""

    # -- clean-ups ------------------------------------------------------------------------------

    def run_in_background(
        self, script: Script, keys: Keys, args: Args, undo_connection: Carrier | None = None
    ) -> None:
        """Send after the request, and ask where the keys are when that is not answered."""
        if self.client.alive:
            self.world.start(
                self.client, self._deliver(script, keys, args, undo_connection), in_background=True
            )

    async def _deliver(
        self, script: Script, keys: Keys, args: Args, undo_connection: Carrier | None
    ) -> None:
        until = self.now() + CLEANUP_SECONDS
        link = (
            undo_connection
            if isinstance(undo_connection, Link) and not undo_connection.closed
            else None
        )
        if link is None and self.shared and (at := self._io.at.get(self.slots.sure(keys[0]))):
            link = at.idle()
        asked_at = self.now()
        answered = link is not None and await self._answered(link, script, keys, args)
        if answered and self.settles(link, keys[0], asked_at):
            return
        with suppress(FencelockError):
            await self.ask(script, keys, args, until)

    async def _answered(self, link: Link, script: Script, keys: Keys, args: Args) -> bool:
        if not self.shared:
            link.sound = False  # for nothing but this
        request = ClusterRequest(script.name, tuple(keys), tuple(args))
        try:
            await self.ask_on(link, request, self.now() + UNDO_SECONDS)
        except NoReply:
            return False
        except ServerError as error:
            cause = error.__cause__
            return not (isinstance(cause, ReplyError) and not_now(cause))
        return True


class SimulatedClusterReplicas(SimulatedReplicas):
    """Asks at the node that answered: threads on the waiter's connection, tasks on another one."""

    _port: SimulatedClusterPort

    async def _link(self, waiter: Seat) -> Link:
        origin = waiter.origin
        if not isinstance(origin, Link):
            raise NoReply("the connection of the request was lost", sent=False)
        if not self._port.shared:
            return await super()._link(waiter)
        for link in self._port.client.links:
            if link.apart and link.sound and link.node == origin.node:
                return link
        await self._port.sleep(self._port.now() + DIAL_SECONDS)
        link = self._port.dial_to(origin.node)
        link.apart = True
        return link


_READ_MAP = ClusterRequest("CLUSTER", (), (b"CLUSTER", b"SLOTS"))
