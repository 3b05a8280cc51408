"""The simulated port of a quorum: one simulated port per server, and how to ask them all at once.

Rules of this file:

- A request to several nodes is on its way to all of them before an answer is heard; the answers
  come in any order, and any of them late, or never.
- What a node says of itself (run id, uptime) is known once a connection is open, as with the real
  ports. A node that is down refuses connections at once.
- Clients have met all nodes before the run begins, unless told otherwise: most have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from math import inf

from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold
from fencelock._core.quorum.broadcast import Ballot
from fencelock._core.quorum.engine import QuorumEngine
from fencelock._core.quorum.membership import FIRST_FACTOR, NODE_SECONDS
from fencelock._core.round_trips import DIAL_SECONDS
from fencelock._core.seat import Seat
from fencelock._core.types import Args, Carrier, Keys, NoReply, Reply
from fencelock.errors import ServerError, ServerUnreachable
from fencelock.scripts import Script
from verification.simulator.network import Client, Link, World
from verification.simulator.port import SimulatedPort
from verification.simulator.server import Request, unpacked
from verification.simulator.several import exchange


class NodePort(SimulatedPort):
    """One process's port to one node."""

    def __init__(self, whole: SimulatedQuorum, number: int) -> None:
        world, client = whole.world, whole.client
        server_timeout = whole.node_timeout * FIRST_FACTOR  # as ``_topology/quorum.py``
        server = world.servers[number]
        super().__init__(
            world, client, shared=whole.shared, server_timeout=server_timeout, server=server
        )
        self.lane: int = number
        self._whole = whole
        self._saw = whole.identified(number)
        self.stall: float = DIAL_SECONDS if whole.shared else server_timeout

    def dial(self) -> Link:
        """Open another connection, and hear who answers there."""
        server, now_us = self.server, self.world.now_us
        if server.is_down(now_us) or self.lane in self._whole.unreachable:
            raise ServerUnreachable("connection refused", code="REFUSED")
        run_id = b"node%d.%d" % (self.lane, server.generation)
        self._saw(run_id, self.now())
        return super().dial()

    def run_in_background(
        self, script: Script, keys: Keys, args: Args, undo_connection: Carrier | None = None
    ) -> None:
        """Send it when the node is back, if it is down."""
        with suppress(ServerUnreachable):
            super().run_in_background(script, keys, args, undo_connection)
            return
        self._later(Request(script.name, tuple(keys), tuple(args), posted=self._repost))

    def _repost(self, request: Request) -> None:
        if self.server.is_down(self.world.now_us):
            self._later(request)
        else:
            super()._repost(request)

    def _later(self, request: Request) -> None:
        if self.lane in self._whole.unreachable:
            return  # it never arrives
        link = self._connected()
        link.blocked_up_us, link.apart = self.server.started_us, True
        self._send(request, link)

    def _for_posts(self) -> Link:
        return self._idle()

    def notify_loss(self, hold: Hold) -> None:
        """Tell nobody: what becomes of one node is no news."""


class SimulatedQuorum(QuorumEngine, SimulatedPort):
    """The port of a quorum for one simulated process."""

    def __init__(
        self, world: World, client: Client, *, shared: bool, server_timeout: float
    ) -> None:
        super().__init__(world, client, shared=shared, server_timeout=server_timeout)
        count = len(world.servers)
        self.begin_quorum([f"node {number}" for number in range(count)], "", NODE_SECONDS)
        client.lanes = [0] * count
        self.nodes: Sequence[NodePort] = [NodePort(self, number) for number in range(count)]
        for node in self.nodes:  # what units wait for is known to the process
            node.waits = self.waits
            self.waits.ports[node] = None

    def introduce(self, request: Attempt) -> None:
        """Meet the nodes before the run begins, to ask for leases like this one."""
        with suppress(StopIteration):
            self.refresh(request, inf).send(None)

    # -- all at once ----------------------------------------------------------------------------

    async def exchange(
        self, asks: Sequence[Ballot], latest: float, limit: Callable[[], float]
    ) -> None:
        """Ask all at once; see ``QuorumEngine``."""

        def limit_us() -> int:
            return self.client.world_us(limit())

        if not self.client.alive:  # a dead process cleans nothing up
            raise GeneratorExit
        await exchange(self, asks, limit, lambda ask: self._send_out(ask, latest))

    def put_back(self, asks: Iterable[Ballot]) -> None:
        """Give the connections back."""
        for ask in asks:
            self.nodes[ask.node].close(ask)

    def _send_out(self, ask: Ballot, latest: float) -> list[Request]:
        """Connect a question, and return its requests; none when it has ended."""
        try:
            with suppress(StopIteration):
                self.nodes[ask.node].open(ask, latest, listen=False).send(None)
        except (NoReply, ServerError) as error:
            ask.fail(error)
            return []
        request = unpacked(ask.requests[0])
        if self.world.running is None:  # before the run begins
            ask.began, ask.asked_at = True, self.now()
            ask.answer(list(ask.origin.server.run(request).reply), self.now())
            return []
        return [request]

    async def _ask(self, request: Request, until: float, waiter: Seat | None) -> Reply:  # noqa: ARG002 - as SimulatedPort
        raise RuntimeError(f"{request.name}: a quorum is not one server")
