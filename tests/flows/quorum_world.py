"""Three simulated servers and clients that take a lock on a majority of them: every schedule.

The flows and scripts are those that ship. A step is one request of one client, from its sending
to its answer. Before each step one may be chosen: another client's turn, a lost request, a lost
answer, or a node that restarts empty; each as often as its budget says. A run is a list of such
choices, and all lists are tried.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from fencelock._core.acquire import acquire
from fencelock._core.book import RenewalBook
from fencelock._core.hold import Hold, Taker
from fencelock._core.keys import LockKeys, roster_key
from fencelock._core.meet import meet
from fencelock._core.port import Broken
from fencelock._core.quorum_hold import drop_parts
from fencelock._core.release import release
from fencelock._core.roster import Roster
from fencelock._core.waiters import Lines
from fencelock._core.want import Form, Terms, Want
from fencelock.errors import FencelockError, ServerError
from fencelock.lease import BaseLease
from fencelock.scripts import VOTE
from fencelock.testing.server import EMPTY, EPOCH_US, Refusal, Request, Server, unpacked

NODES = 3
KEYS = LockKeys("p:", "a")
TTL = 30.0
# The servers' clocks, in seconds beside the first one's.
SKEWS = (0.0, -5.0, 5.0)
LATE_FENCE = EPOCH_US + 60_000_000  # what a vote in vain left on the last node


class Violated(Exception):
    """An invariant broke; the message says which."""


@dataclass
class Budgets:
    """How often which choice may be made in one run."""

    lost: int = 0
    restarts: int = 0
    switches: int = 0
    answers: bool = True  # answers are lost, too, not only requests


class Turn:
    """What a flow awaits before each request: others may run."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class Choices:
    """One run's choices: those of the list, then always the first."""

    def __init__(self, made: Sequence[int]) -> None:
        self.made = list(made)
        self.widths: list[int] = []

    def pick(self, width: int) -> int:
        """Return one of so many."""
        at = len(self.widths)
        self.widths.append(width)
        if at == len(self.made):
            self.made.append(0)
        return self.made[at]

    def following(self) -> list[int] | None:
        """Return the next list in order, or None after the last."""
        made = self.made[: len(self.widths)]
        while made:
            if made[-1] + 1 < self.widths[len(made) - 1]:
                return [*made[:-1], made[-1] + 1]
            made.pop()
        return None


class Node:
    """One client's port to one server."""

    nodes = ()
    apart = replicas = None
    patience = 0.0  # a request that got no answer is not repeated: the next node is asked

    def __init__(self, client: Client, number: int) -> None:
        self.client, self.number = client, number
        self.home = b"home%d.%d" % (client.number, number)
        self.lines, self.book = Lines(), RenewalBook()
        self.mutex = nullcontext
        self.jitter = lambda: 0.5
        self.now = client.now

    async def call(self, script, keys, args, until, waiter=None) -> Any:
        del until, waiter
        return await self.client.world.request(self, script.name, tuple(keys), tuple(args))

    async def run(self, request, key, until, waiter=None) -> Any:
        del key, until, waiter
        asked = unpacked(request)
        return await self.client.world.request(self, asked.name, asked.keys, asked.args)

    def seat(self, waiter, *, listen) -> bool:
        del waiter, listen
        return True

    async def open(self, waiter, until, *, listen=True) -> None:
        """Nothing is to be opened."""

    def close(self, waiter) -> None:
        """Nothing is to be closed."""

    async def sleep(self, until) -> None:
        del until
        await Turn()

    def post(self, script, keys, args, trail=None) -> None:
        del trail
        self.client.world.posts.append(
            (self.number, Request(script.name, tuple(keys), tuple(args)))
        )

    def keep(self, hold, when) -> None:
        self.book.add(hold, when)


class Client(Node):
    """One client's port to the quorum."""

    def __init__(self, world: QuorumWorld, number: int) -> None:
        self.world, self.number, self.ids = world, number, 0
        super().__init__(self, number)
        self.nodes = [Node(self, each) for each in range(NODES)]
        self.labels = [f"node {each}" for each in range(NODES)]
        self.needed, self.node_timeout = world.needed, 0.05
        self.roster, self.roster_key, self.ill = Roster(NODES), roster_key("p:"), {}

    def now(self) -> float:
        return 1000.0

    def new_id(self) -> bytes:
        self.ids += 1
        return b"client%d.%d" % (self.number, self.ids)

    async def fan(self, asks, until, latest, decided) -> None:
        del decided
        for ask in asks:
            ask.begin()
            ask.asked_at = self.now()
            try:
                ask.answer(await self.nodes[ask.node].call(*ask.request, until), latest)
            except (Broken, ServerError) as error:
                ask.fail(error)

    def post(self, script, keys, args, trail=None) -> None:
        for node in self.nodes:
            node.post(script, keys, args, trail)

    def move(self, hold, when) -> None:
        self.book.discard(hold)
        self.book.add(hold, when)

    def tell(self, hold) -> None:
        drop_parts(self, hold)

    def want(self) -> Want:
        form = Form(keys=KEYS, terms=Terms(ttl=TTL, renew=True), home=self.home, ttl=TTL)
        return Want(form, self.new_id())


class QuorumWorld:
    """One run."""

    def __init__(self, servers: Sequence[Server], choices: Choices, budgets: Budgets, needed: int):
        self.servers, self.choices, self.needed = servers, choices, needed
        self.lost, self.restarts, self.switches = 0, 0, budgets.switches
        self.fates = 3 if budgets.answers else 2
        self.posts: list[tuple[int, Request]] = []
        self.run_ids = [b"run %d" % number for number in range(NODES)]
        self.uptimes = [100.0] * NODES
        self.inside: list[Hold] = []
        self.fence = 0
        for server, skew in zip(servers, SKEWS, strict=True):
            server.reset()
            server.now_us = EPOCH_US + round(skew * 1e6)
        late = (b"gone", 1, b"1 1 0 home {}", b"%d" % LATE_FENCE)
        servers[-1].run(Request(VOTE.name, KEYS.grant, late))
        servers[-1].now_us += 2000  # that lease is over
        self.clients = [Client(self, number) for number in range(2)]
        for client in self.clients:
            finish(meet(client, client.want(), client.now()))
        self.lost, self.restarts = budgets.lost, budgets.restarts

    async def request(self, node: Node, name: str, keys: Any, args: Any) -> Any:
        """Carry a request out, unless something happens to it."""
        await Turn()
        server, at = self.servers[node.number], node.number
        if self.restarts and self.choices.pick(2):
            self.restarts -= 1
            server.state, self.run_ids[at], self.uptimes[at] = EMPTY, b"new run %d" % at, 0.0
        node.client.roster.saw(at, self.run_ids[at], self.uptimes[at], node.now())
        fate = self.choices.pick(self.fates) if self.lost else 0
        self.lost -= fate > 0
        if fate != 1:
            reply = server.run(Request(name, keys, args)).reply
        if fate:
            raise Broken("no answer", sent=True, trail=node)
        if isinstance(reply, Refusal):
            raise ServerError(reply.message)
        return list(reply) if isinstance(reply, tuple) else reply

    async def take_turns(self, client: Client) -> None:
        """Try, hold, give back: twice."""
        for _ in range(2):
            client.ill.clear()  # it was a while ago
            try:
                hold = await acquire(client, client.want(), -1, Taker(BaseLease))
            except FencelockError:
                continue
            if hold is None:
                continue
            self.enter(hold)
            await Turn()
            self.inside.remove(hold)
            with suppress(FencelockError):
                await release(client, hold)

    def enter(self, hold: Hold) -> None:
        """Check what must hold of every grant."""
        if any(not other.lease.lost for other in self.inside):
            raise Violated("I1: two hold it")
        if hold.lease.fence <= self.fence:
            raise Violated("I3: its fence did not grow")
        self.fence = hold.lease.fence
        self.inside.append(hold)

    def run(self) -> None:
        """Let the clients run to their ends, clean-ups between them."""
        flows = [self.take_turns(client) for client in self.clients]
        current = 0
        while flows:
            if self.switches and len(flows) > 1 and self.choices.pick(2):
                self.switches -= 1
                current = 1 - current
            try:
                flows[current].send(None)
            except StopIteration:
                flows.pop(current)
                current = 0
            for number, request in self.posts:
                self.servers[number].run(request)
            self.posts.clear()


def finish(flow: Coroutine[Any, Any, Any]) -> Any:
    """Run a flow alone to its end."""
    while True:
        try:
            flow.send(None)
        except StopIteration as stop:
            return stop.value


def explore(budgets: Budgets, *, needed: int = 2, runs_max: int = 10**9) -> tuple[int, bool]:
    """Try every run; return how many there were, and whether those were all. Raises Violated."""
    servers = [Server() for _ in range(NODES)]
    made: list[int] | None = []
    runs = 0
    while made is not None and runs < runs_max:
        choices = Choices(made)
        QuorumWorld(servers, choices, budgets, needed).run()
        runs += 1
        made = choices.following()
    return runs, made is None
