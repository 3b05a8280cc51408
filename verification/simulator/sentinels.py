"""Worlds of a service behind Sentinels: its master is cut off or frozen, and replaced.

The replica has all that the master had at that instant, or what had been copied to it until then.
What the old master says after its replacement is what the shipping rules must not believe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from fencelock._topology.sentinel import SUSPECT_SECONDS, SentinelReply
from verification.simulator import faults, steps
from verification.simulator.monitor import Monitor
from verification.simulator.network import Client
from verification.simulator.port import SimulatedPort
from verification.simulator.server import Server
from verification.simulator.simulation import World

# From the freeze on: when Sentinels find something wrong, and when they name another master. As in
# the real ones more than a second lies between: what counts for a second relies on it.
SUSPECTED_SECONDS = 1.0
PROMOTED_SECONDS = 2.1
# For so long after its replacement an answer of the old master may still count: the Sentinels were
# asked just before. What it grants and renews then is lost like all else that was not replicated.
UNSEEN_SECONDS = SUSPECT_SECONDS + 0.01
# How long after it woke up the old master is made a replica.
DEMOTED_SECONDS = 1.0
OLD, NEW = 0, 1  # the numbers of the servers, and the ports that Sentinels name


@dataclass(frozen=True)
class Sentinel:
    """One Sentinel: it answers after ``delay`` seconds, by what it knows then.

    ``cut``: it never hears of the failover. ``stubborn``: it knows the new epoch, and names the old
    master. ``anew``: it was set up anew meanwhile, and counts epochs from 0 again.
    """

    delay: float = 0.001
    cut: bool = False
    stubborn: bool = False
    anew: bool = False


QUICK = (Sentinel(0.0010), Sentinel(0.0011), Sentinel(0.0012))
SILENT = Sentinel(inf)


class SimulatedService:
    """Implements ``_topology.sentinel.Service``, and is what the Sentinels know."""

    label = name = "locks"

    def __init__(self, servers: Sequence[Server], sentinels: Sequence[Sentinel]) -> None:
        self._servers = servers
        self.sentinels = sentinels
        self.suspected = False
        self.promoted = False

    def at(self, reply: SentinelReply) -> Server:
        """Return the server that a Sentinel named."""
        return self._servers[reply.port]

    def reply(self, sentinel: Sentinel) -> SentinelReply:
        """Return what a Sentinel replies now."""
        failed_over = self.promoted and not sentinel.cut
        epoch = (0 if sentinel.anew else 2) if failed_over else 1
        port = NEW if failed_over and not sentinel.stubborn else OLD
        suspected = self.suspected and not self.promoted and not sentinel.cut
        return SentinelReply(epoch, "host", port, suspected)


class SentinelMonitor(Monitor):
    """Knows what replication lost."""

    # How long a failover takes, and slow Sentinels, is not what is explored here.
    unserved_us_max = 20_000_000
    granting_seconds = 1.0
    unseen = False  # the failover was just now: no client can know of it

    def check(self) -> None:
        """Check every lease, but for a moment after a failover."""
        if not self.unseen:
            super().check()

    def replaced(self) -> None:
        """Note what replication lost: grants and renewals that the new master does not know."""
        self.failed_over()
        view, end_us = self.view(), self.end_us()
        self._revoked.update(
            hold.want.holder
            for client, hold in self.holds
            if hold.want.holder != view.holder or client.world_us(hold.deadline) > end_us
        )


class SentinelWorld(World):
    """A master, its replica, and Sentinels.

    ``wakes``: how many seconds after the failover the old master does; never for inf, and None: it
    is not frozen, but cut off from its replica and the Sentinels.
    """

    def __init__(
        self,
        server: Server,
        *,
        sentinels: Sequence[Sentinel] = QUICK,
        wakes: float | None = 0.2,
        **more: Any,
    ) -> None:
        super().__init__(server, port=_port(), **more)
        self.service = SimulatedService(self.servers, sentinels)
        self.demoted = False
        self._wakes = wakes
        self._fate = Client(0, 1000.0, 1.0)  # what happens to servers by itself
        self._fate.port = SimulatedPort(self, self._fate, shared=True, server_timeout=5.0)
        self._fate.touched = True
        self.clients.append(self._fate)
        for each in self.servers:
            each.frozen = each.gone = False

    def own_faults(self) -> list[steps.Action]:
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
        lost = old.follows or wakes is None
        had, old.follows = old.replica if old.follows else old.state, False
        old.frozen, old.gone = wakes is not None, wakes == inf
        began = self.now_us / 1e6
        await self._until(began + SUSPECTED_SECONDS)
        service.suspected = True
        await self._until(began + PROMOTED_SECONDS)
        await self._promote(had, lost=lost)
        if old.gone:
            return
        await self._until(began + PROMOTED_SECONDS + (wakes or 0.0))
        old.frozen = False
        await self._until(began + PROMOTED_SECONDS + (wakes or 0.0) + DEMOTED_SECONDS)
        self._demote()

    async def _promote(self, had: Any, *, lost: bool) -> None:
        self.say(lambda: "the Sentinels name another master")
        self.server, self.service.promoted = self.servers[NEW], True
        self.server.state = had
        if lost:
            self._monitor.replaced()
            self._monitor.unseen = True
            await self._until(self.now_us / 1e6 + UNSEEN_SECONDS)
            self._monitor.unseen = False
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


def _port() -> type[SimulatedPort]:
    from verification.simulator.sentinel_port import (  # noqa: PLC0415 - they need each other
        SimulatedSentinelPort,
    )

    return SimulatedSentinelPort
