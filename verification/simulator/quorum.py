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
from typing import TYPE_CHECKING, Any

from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold
from fencelock._core.quorum.broadcast import Ballot
from fencelock._core.quorum.refresh import refresh
from fencelock._core.quorum.votes import NODE_SECONDS
from fencelock._core.seat import Seat
from fencelock._core.types import Args, Keys, NoReply, Reply
from fencelock._topology.quorum import DIAL_SECONDS, QuorumPortRules
from fencelock.errors import ServerError, ServerUnreachable
from fencelock.scripts import Script
from verification.simulator.network import Client, Link, State, Task
from verification.simulator.port import SimulatedPort
from verification.simulator.server import Request, unpacked

if TYPE_CHECKING:
    from verification.simulator.simulation import World


class NodePort(SimulatedPort):
    """One process's port to one node."""

    def __init__(self, whole: SimulatedQuorum, number: int) -> None:
        world, client = whole.world, whole.client
        server_timeout = whole.first_seconds
        server = world.servers[number]
        super().__init__(
            world, client, shared=whole.shared, server_timeout=server_timeout, server=server
        )
        self.lane: int = number
        self._whole = whole
        self._saw = whole.identified(number)
        self.client_channel: bytes = b"home%d.%d" % (client.number, number)
        self.stall: float = DIAL_SECONDS if whole.shared else server_timeout

    def dial(self) -> Link:
        """Open another connection, and hear who answers there."""
        server, now_us = self.server, self.world.now_us
        if server.is_down(now_us) or self.lane in self._whole.unreachable:
            raise ServerUnreachable("connection refused", code="REFUSED")
        run_id = b"node%d.%d" % (self.lane, server.generation)
        uptime = (now_us - server.started_us) // 1_000_000
        self._saw(run_id, float(uptime), self.now())
        return super().dial()

    def run_in_background(
        self, script: Script, keys: Keys, args: Args, undo_connection: object = None
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


class Leg:
    """One of several requests under way: who asked, and what for."""

    def __init__(self, sending: BroadcastState, ask: Ballot, request: Request, link: Link) -> None:
        self.sending: BroadcastState = sending
        self.ask: Ballot = ask
        self.link: Link = link
        self.request: Request = request
        request.asker = self

    @property
    def done(self) -> bool:
        """Return True if nobody waits for it any more."""
        return self.sending.task.done

    @property
    def state(self) -> State:
        """Return what its task waits for."""
        return self.sending

    def take(self, answer: tuple[str, Any]) -> Task | None:
        """Take what it came to; return the task when that was the last."""
        kind, value = answer
        if kind == "error":
            self.ask.fail(value)
        else:
            reply = list(value) if isinstance(value, tuple) else value
            self.ask.answer(reply, self.sending.now())
        return self.sending.moved_on()


class BroadcastState(State):
    """What a task waits for that asks several: all of them, or the time that is left then."""

    __slots__ = ("legs", "limit", "now", "task")

    def __init__(self, task: Task, now: Callable[[], float], limit: Callable[[], int]) -> None:
        super().__init__("sending", limit())
        self.task: Task = task
        self.now: Callable[[], float] = now
        self.limit: Callable[[], int] = limit
        self.legs: list[Leg] = []

    def reads(self, link: Link) -> bool:
        """Return True if an answer may come on this connection."""
        return any(leg.link is link and not leg.ask.ended for leg in self.legs)

    def moved_on(self) -> Task | None:
        """Note that one has ended; return the task when it need not wait."""
        self.until_us: int = self.limit()
        if not all(leg.ask.ended for leg in self.legs):
            return None
        self.task.ready = ("value", None)
        return self.task

    def end(self) -> list[Leg]:
        """Wait for nothing any more; return those that got no answer."""
        left = [leg for leg in self.legs if not leg.ask.ended]
        for leg in left:
            leg.request.asker = None
            if not leg.link.port.shared:
                leg.link.sound = False  # an answer may still come: nothing else may be read here
        return left


class SimulatedQuorum(QuorumPortRules, SimulatedPort):
    """Implements ``_core.quorum.broadcast.QuorumPort`` for one simulated process."""

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
            refresh(self, request, inf).send(None)

    # -- all at once ----------------------------------------------------------------------------

    async def exchange(
        self, asks: Sequence[Ballot], latest: float, limit: Callable[[], float]
    ) -> None:
        """Ask all at once; see ``QuorumPort``."""

        def limit_us() -> int:
            return self.client.world_us(limit())

        if not self.client.alive:  # a dead process cleans nothing up
            raise GeneratorExit
        task = self.world.running
        sending = BroadcastState(task, self.now, limit_us) if task is not None else None
        for ask in asks:
            self._send_out(ask, sending, latest)
        if sending is None:
            return
        try:
            if not all(ask.ended for ask in asks):
                sending.until_us = limit_us()
                await self._suspend(sending)
        except BaseException:
            sending.end()
            raise
        for leg in sending.end():
            leg.ask.fail(NoReply("no answer in time", sent=True, undo_connection=leg.link))

    def put_back(self, asks: Iterable[Ballot]) -> None:
        """Give the connections back."""
        for ask in asks:
            self.nodes[ask.node].close(ask)

    def _send_out(self, ask: Ballot, sending: BroadcastState | None, latest: float) -> None:
        try:
            with suppress(StopIteration):
                self.nodes[ask.node].open(ask, latest, listen=False).send(None)
        except (NoReply, ServerError) as error:
            ask.fail(error)
            return
        link: Link = ask.origin
        ask.asked_at = self.now()
        ask.begin()
        if sending is None:
            reply = link.server.run(unpacked(ask.packed)).reply
            ask.answer(list(reply), self.now())
            return
        request = unpacked(ask.packed)
        sending.legs.append(Leg(sending, ask, request, link))
        link.up.append(request)
        link.owed += 1

    async def _ask(self, request: Request, until: float, waiter: Seat | None) -> Reply:  # noqa: ARG002 - as SimulatedPort
        raise RuntimeError(f"{request.name}: a quorum is not one server")
