"""Worlds of a service behind Sentinels: its master is cut off or frozen, and replaced.

The replica has all that the master had at that instant, or what had been copied to it until then.
What the old master says after its replacement is what the shipping rules must not believe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from fencelock._topology.sentinel import SentinelReply, SentinelService
from verification.simulator import faults
from verification.simulator.monitor import Monitor
from verification.simulator.network import Client
from verification.simulator.port import SimulatedPort
from verification.simulator.server import Server
from verification.simulator.simulation import World
from verification.simulator.steps import Action

# From the freeze on: when Sentinels find something wrong, when they agree on it, and when they name
# another master. As in the real ones more than a second lies between the first and the last, and
# more than a tenth between the last two: what counts for so long relies on it.
FOUND = (1.0, 1.99, 2.1)
# The same by order: then a Sentinel says so from the beginning.
ORDERED = (0.55, 0.55, 0.7)
# How long after it woke up the old master is made a replica.
DEMOTED_SECONDS = 1.0
OLD, NEW = 0, 1  # the numbers of the servers, and the ports that Sentinels name


@dataclass(frozen=True)
class Sentinel:
    """One Sentinel: it answers after ``delay`` seconds, by what it knows then.

    ``cut``: it never hears of the failover. ``stubborn``: it knows the new epoch, and names the old
    master. ``anew``: it was set up anew meanwhile, and counts epochs from 0 again. ``slowed``: what
    it takes longer once it has found something wrong.
    """

    delay: float = 0.001
    slowed: float = 0.0
    cut: bool = False
    stubborn: bool = False
    anew: bool = False


QUICK = (Sentinel(0.0010), Sentinel(0.0011), Sentinel(0.0012))
SILENT = Sentinel(inf)


class SimulatedService:
    """What the Sentinels know of a service."""

    def __init__(self, servers: Sequence[Server], sentinels: Sequence[Sentinel]) -> None:
        self._servers = servers
        self.sentinels = sentinels
        self.flags = b"master"
        self.promoted = False

    def as_source(self) -> SentinelService:
        """Return how clients reach it."""
        return SentinelService(
            self.sentinels, "locks", lambda reply: self._servers[reply.port], "locks"
        )

    def reply(self, sentinel: Sentinel) -> SentinelReply:
        """Return what a Sentinel replies now."""
        failed_over = self.promoted and not sentinel.cut
        epoch = (0 if sentinel.anew else 2) if failed_over else 1
        port = NEW if failed_over and not sentinel.stubborn else OLD
        return SentinelReply(epoch, "host", port)

    def delay(self, sentinel: Sentinel) -> float:
        """Return how long a Sentinel takes to answer now."""
        return sentinel.delay + (sentinel.slowed if self.flags != b"master" else 0.0)

    def flags_by(self, sentinel: Sentinel) -> bytes:
        """Return what a Sentinel finds of the master now."""
        return b"master" if self.promoted or sentinel.cut else self.flags


class SentinelMonitor(Monitor):
    """Knows what replication lost."""

    # How long a failover takes, and slow Sentinels, is not what is explored here.
    unserved_us_max = 20_000_000
    granting_seconds = 1.0


class SentinelWorld(World):
    """A master, its replica, and Sentinels.

    ``wakes``: how many seconds after the failover the old master does; never for inf, and None: it
    is not frozen, but cut off from its replica and the Sentinels. ``steps``: after how many seconds
    one Sentinel suspects it, enough agree, and they name another master.
    """

    def __init__(
        self,
        server: Server,
        *,
        sentinels: Sequence[Sentinel] = QUICK,
        wakes: float | None = 0.2,
        steps: tuple[float, float, float] = FOUND,
        **more: Any,
    ) -> None:
        super().__init__(server, **more)
        self.service = SimulatedService(self.servers, sentinels)
        self.demoted = False
        self._wakes, self._steps = wakes, steps
        self._fate = Client(0, 1000.0, 1.0)  # what happens to servers by itself
        self._fate.port = SimulatedPort(self, self._fate, shared=True, server_timeout=5.0)
        self._fate.touched = True
        self.clients.append(self._fate)
        for each in self.servers:
            each.frozen = each.gone = False

    def own_faults(self) -> list[Action]:
        """Return that the master may freeze."""
        return [("freeze",)] if self.budgets.get("freeze") and self.server is self.old else []

    @property
    def old(self) -> Server:
        """Return the master that is replaced."""
        return self.servers[OLD]

    def disturb(self, kind: str) -> None:
        """Freeze the master, and let the Sentinels replace it."""
        assert kind == "freeze"
        self.start(self._fate, self._fail_over(), keeper=True)

    async def _fail_over(self) -> None:
        old, service, wakes = self.old, self.service, self._wakes
        suspected, agreed, promoted = self._steps
        lost = old.follows or wakes is None
        had, old.follows = old.replica if old.follows else old.state, False
        old.frozen, old.gone = wakes is not None, wakes == inf
        began = self.now_us / 1e6
        await self._until(began + suspected)
        service.flags = b"master,s_down"
        await self._until(began + agreed)
        service.flags = b"master,s_down,o_down,failover_in_progress"
        await self._until(began + promoted)
        await self._promote(had, lost=lost)
        if old.gone:
            return
        await self._until(began + promoted + (wakes or 0.0))
        old.frozen = False
        await self._until(began + promoted + (wakes or 0.0) + DEMOTED_SECONDS)
        self._demote()

    async def _promote(self, had: Any, *, lost: bool) -> None:
        self.say(lambda: "the Sentinels name another master")
        self.server, self.service.promoted = self.servers[NEW], True
        self.server.state = had
        if lost:
            self._monitor.replaced()

    def _demote(self) -> None:
        self.demoted = True
        for client in self.clients:
            for link in tuple(client.links):
                if client.alive and link.server is self.old and not link.closed:
                    faults.break_link(self, link, keeps=False)

    @property
    def _monitor(self) -> SentinelMonitor:
        assert isinstance(self.monitor, SentinelMonitor)
        return self.monitor

    async def _until(self, seconds: float) -> None:
        await self._fate.port.sleep(self._fate.local(int(seconds * 1e6)))
