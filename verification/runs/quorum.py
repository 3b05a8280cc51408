"""Five independent servers, of which a minority may fail.

Rules of this file:

- What is covered strikes two nodes at most, and forgetting strikes no third one before the first
  two know again who votes. Clocks that jump ahead are not covered, on any node.
- Two nodes are reached through a network that can fail; the others are near.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Self

from fencelock._runtime.clock import now
from tests.faults.proxy import Proxy
from tests.faults.world import PREFIX
from tests.servers import Server, ServerBinary
from tests.topologies.quorum import NODES, Quorum
from verification.runs import shims
from verification.runs.fault import Fault
from verification.runs.network import ON_A_NODE, Network, Span
from verification.runs.objects import PLAYS, TTLS
from verification.runs.servers import RATES
from verification.runs.several import Nodes, left_on, sum_of

ROSTER = f"{PREFIX}~quorum"
MINORITY = (NODES - 1) // 2
QUARANTINE_SECONDS = max(TTLS) * PLAYS["quorum"].scale + 0.5


class _Clocked(Quorum):
    """As for the tests, and each with a clock of its own."""

    def __init__(self, binary: ServerBinary | None, clocks: list[shims.Clock]) -> None:
        preload = {"LD_PRELOAD": str(shims.library("clock"))} if clocks else {}
        told = [preload | clock.environment for clock in clocks] or [{}] * NODES
        self.nodes = [Server(binary, environment=each) for each in told]
        self.dead = set()


class FiveServers(Nodes):
    """A quorum of five servers in memory."""

    play = "quorum"

    def __init__(self, binary: ServerBinary | None, seed: int) -> None:
        super().__init__(random.Random(seed))
        self._binary = binary
        self._ends = contextlib.ExitStack()
        self._restarted: dict[int, float] = {}  # node → when it was started again
        self.without = shims.why_not()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.clocks = [] if self.without else [self._clock(stack) for _ in range(NODES)]
            self.servers = stack.enter_context(_Clocked(self._binary, self.clocks))
            far = self.servers.nodes[:MINORITY]
            self.proxies = [stack.enter_context(Proxy(node)) for node in far]
            self.networks = [Network(proxy, self._dice, ON_A_NODE) for proxy in self.proxies]
            self._ends = stack.pop_all()
        return self

    def _clock(self, stack: contextlib.ExitStack) -> shims.Clock:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        return stack.enter_context(contextlib.closing(shims.Clock(Path(folder))))

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    @property
    def name(self) -> str:
        return f"{NODES} x {self.servers.binary}"

    @property
    def url(self) -> str:
        near = self.servers.nodes[len(self.proxies) :]
        return " ".join(each.url for each in (*self.proxies, *near))

    def victims(self) -> list[Server]:
        return self.servers.nodes

    def faults(self) -> Iterator[Fault]:
        """Yield what can befall nodes, and the network to two of them."""
        for number, network in enumerate(self.networks):
            for fault in network.faults():
                yield Fault(f"{fault.name} {number}", fault.strike)
        yield from self.small_faults()
        yield Fault("freeze minority", self.freeze_minority, often=3)
        yield Fault("restart minority", self.restart_minority, often=2)
        yield Fault("freeze and restart others", self.restart_others, often=3)
        yield Fault("node's clock rate", self.change_rate, why_not=self.without)
        yield Fault("node's clock back", partial(self._jump, -0.05, -0.5), why_not=self.without)
        ahead = partial(self._jump, 2.0, 60.0)
        yield Fault("node's clock forward", ahead, covered=False, why_not=self.without)

    # what befalls the nodes

    def freeze_minority(self) -> None:
        numbers = self._minority()
        self.servers.pause(*numbers)
        self._wait(0.1, 0.5, 2.0)
        self.servers.resume(*numbers)

    def restart_minority(self) -> None:
        """Kill nodes that then know nothing any more, of leases and of who votes."""
        self._restart(self._forgetful() or self._minority(), 0.0, 0.2, 1.0)

    def restart_others(self) -> None:
        """Freeze some, so that leases are had without them; then have others forget these."""
        others = self._forgetful() or self._minority()
        frozen = self._dice.sample([n for n in range(NODES) if n not in others], MINORITY)
        self.servers.pause(*frozen)
        self._wait(0.3, 0.6)
        self.servers.resume(*frozen)
        self._restart(others, 0.0)

    def _restart(self, numbers: list[int], *seconds: float) -> None:
        self.servers.kill(*numbers)
        self._wait(*seconds)
        for number in numbers:
            self.servers.nodes[number].start()
            self.servers.dead.discard(number)
            self._restarted[number] = now()

    def _minority(self) -> list[int]:
        return self._dice.sample(range(NODES), self._dice.randint(1, MINORITY))

    def _forgetful(self) -> list[int]:
        """Return the nodes that forgot and have not been asked to vote again."""
        return [number for number, at in self._restarted.items() if not self._voting(number, at)]

    def _voting(self, number: int, at: float) -> bool:
        known = self.servers.nodes[number].command("EXISTS", ROSTER)
        return bool(known) and now() > at + QUARANTINE_SECONDS

    def change_rate(self) -> None:
        self._dice.choice(self.clocks).go(self._dice.choice(RATES))

    def _jump(self, *seconds: float) -> None:
        self._dice.choice(self.clocks).jump(self._dice.choice(seconds))

    # afterwards

    def doubts(self) -> list[Span]:
        """Return nothing: on a quorum no refusal is checked."""
        return []

    def calm(self) -> None:
        """End what lasts."""
        for proxy in self.proxies:
            proxy.forget()
            proxy.heal()
        for clock in self.clocks:
            clock.go(1.0)

    def orphans(self) -> list[str]:
        """Return what is left on any node."""
        left = [(node, left_on(node, PLAYS[self.play])) for node in self.servers.nodes]
        return [f"{node.port}: {text}" for node, texts in left for text in texts]

    def sample(self) -> dict[str, int]:
        return sum_of(self.servers.nodes)
