"""What befalls the connections and the server in virtual time, and now and then a process."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from verification.virtual.wire import Server, Wire

BETWEEN_SECONDS = 4.0


class Weather:
    """Faults, one at a time, as the dice fall.

    ``kill`` ends a process. ``drift`` is the most that the server's clock runs fast or slow: leases
    allow for 1 % between two clocks.
    """

    def __init__(
        self, server: Server, dice: random.Random, kill: Callable[[], None], *, drift: float
    ) -> None:
        self.server = server
        self.dice = dice
        self.most = drift
        self.faults: Counter[str] = Counter()
        self._kinds = (self.drop, self.cut, self.delay, self.freeze, self.restart, self.flush)
        self._kinds += (self.drift, self.drop, self.delay, kill)

    def pause(self) -> float:
        """Return the time to the next fault."""
        return self.dice.expovariate(1 / BETWEEN_SECONDS)

    def strike(self) -> None:
        """Let one thing go wrong."""
        fault = self.dice.choice(self._kinds)
        self.faults[fault.__name__] += 1
        fault()

    def wires(self, host: str = "") -> list[Wire]:
        """Return the connections (of one host), the oldest first."""
        return [wire for wire in self.server.wires if host in {"", wire.host}]

    def calm(self) -> None:
        """End what would last."""
        for wire in self.wires():
            if wire.cut:
                wire.drop()

    def drop(self) -> None:
        """Break a connection; what is under way is lost."""
        for wire in self._any():
            wire.drop()

    def cut(self) -> None:
        """Let nothing pass on a connection any more; nobody is told."""
        for wire in self._any():
            wire.cut = True

    def delay(self) -> None:
        """Hold up a connection."""
        for wire in self._any():
            wire.delay(self.dice.expovariate(1 / 1.5))

    def freeze(self) -> None:
        """Stop the server for a while; what it was sent meanwhile runs afterwards."""
        self.server.freeze(self.dice.expovariate(1 / 1.0))

    def restart(self) -> None:
        """Stop the server, and start it a little later with all that it had."""
        if self.server.runs:
            self.server.stop()
            self.server.loop.call_later(self.dice.expovariate(1 / 0.5), self.server.start)

    def flush(self) -> None:
        """Let the server forget the scripts."""
        self.server.known.clear()

    def drift(self) -> None:
        """Let the server's clock run at another rate from now on."""
        self.server.drift(1 + (self.dice.random() * 2 - 1) * self.most)

    def _any(self) -> list[Wire]:
        wires = self.wires()
        return [self.dice.choice(wires)] if wires else []
