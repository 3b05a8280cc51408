"""One address that leads to another master: a proxy, or a name, of servers replaced by hand.

Nobody tells clients: connections to the old master stay open, and it refuses what it is asked, or
serves it until it learns that it was replaced. Grants are acknowledged by a replica.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.servers import ServerBinary
from tests.topologies.moving import Moving
from verification.runs.fault import Fault
from verification.runs.objects import LONG, PLAYS
from verification.runs.several import Masters, sum_of


class Address(Masters):
    """A master and two replicas behind one address."""

    play = "moved"

    def __init__(self, binary: ServerBinary | None, seed: int) -> None:
        super().__init__(random.Random(seed))
        self.servers = Moving(binary, replicas=2)

    @property
    def name(self) -> str:
        return f"3 x {self.servers.binary}"

    def faults(self) -> Iterator[Fault]:
        """Yield what can befall them."""
        yield from self.small_faults()
        yield Fault("move address", self.servers.move, often=3)
        yield Fault("freeze master for long", self.replace_frozen)

    def replace_frozen(self) -> None:
        """Freeze the master for longer than leases last; it wakes up and serves as before."""
        old = self.servers.master
        old.pause()
        self.servers.promote()
        self._wait(0.1, LONG * PLAYS[self.play].scale)
        self.servers.wake(old)

    # afterwards

    def sample(self) -> dict[str, int]:
        return sum_of([self.servers.master, *self.servers.replicas])
