"""A master with two replicas and three Sentinels; masters die, freeze and are replaced.

Replication is asynchronous: what a replica had not heard of when it was promoted is lost, unless
clients have grants acknowledged. One replica is enough for that when the master is gone. While it
lives, and is replaced by order, the other replica still acknowledges what it grants: then only all
replicas are enough.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

from tests.servers import Refused, Server, ServerBinary
from tests.topologies.sentinel import SentinelTopology
from tests.waiting import until
from verification.runs.fault import Fault
from verification.runs.several import Masters, sum_of

DOWN_MS = 700
FOLLOW_SECONDS = 60.0  # a Sentinel looks at a server that came back every ten


class Sentinels(Masters):
    """Servers behind Sentinel; so many replicas must have every grant."""

    def __init__(self, binary: ServerBinary | None, seed: int, *, acknowledged_by: int = 0) -> None:
        super().__init__(random.Random(seed))
        self._acknowledged_by = acknowledged_by
        self.play = ("failover", "acknowledged", "acknowledged by all")[acknowledged_by]
        self.servers = SentinelTopology(binary, down_after_ms=DOWN_MS)

    @property
    def name(self) -> str:
        return f"3 x {self.servers.binary}, 3 Sentinels"

    def faults(self) -> Iterator[Fault]:
        """Yield what can befall the master; a failover covers what was acknowledged."""
        yield from self.small_faults()
        sure = self._acknowledged_by > 0
        yield Fault("kill master", self.kill_master, covered=sure, shows=False)
        yield Fault("kill cut off master", self.kill_cut_off_master, covered=sure, often=2)
        yield Fault("freeze master for long", self.replace_frozen, covered=sure, shows=False)
        by_all = self._acknowledged_by == len(self.servers.servers) - 1
        yield Fault("failover", self.fail_over, covered=by_all, shows=False)

    # what befalls the master

    def kill_master(self) -> None:
        """Kill it; it comes back empty, and is a replica once Sentinel told it."""
        master = self.servers.master
        master.kill()
        self._replaced(master)
        master.start()
        self._until_all_follow()

    def kill_cut_off_master(self) -> None:
        """Kill it when its replicas have not heard of it for a moment, in which it granted."""
        master, replicas = self.servers.master, self.servers.replicas
        for each in replicas:
            each.pause()
        self._say(master, "CLIENT", "KILL", "TYPE", "replica")
        self._wait(0.3, 0.6)
        master.kill()
        for each in replicas:
            each.resume()
        self._replaced(master)
        master.start()  # by an operator's hand it follows at once
        master.command("REPLICAOF", "127.0.0.1", self.servers.master.port)
        self._until_all_follow()

    def replace_frozen(self) -> None:
        """Freeze it until another one is master; it wakes up and believes that it still is."""
        master = self.servers.master
        master.pause()
        self._replaced(master)
        self._wait(0.0, 0.5)
        master.resume()
        self._until_all_follow()

    def fail_over(self) -> None:
        """Replace it by order, while it lives."""
        self.servers.fail_over()
        self._until_all_follow()

    def _replaced(self, master: Server) -> None:
        self.servers.until_failed_over(master, FOLLOW_SECONDS)

    def _until_all_follow(self) -> None:
        until(self._all_follow, "all others follow the master", FOLLOW_SECONDS)

    def _all_follow(self) -> bool:
        master = self.servers.master
        told = [each.info("replication") for each in self.servers.replicas]
        return master.info("replication")["role"] == "master" and all(
            one.get("master_link_status") == "up" and one["master_port"] == str(master.port)
            for one in told
        )

    # afterwards

    def calm(self) -> None:
        """Wait until all is well."""
        with contextlib.suppress(Refused):
            self._until_all_follow()

    def sample(self) -> dict[str, int]:
        return sum_of(self.servers.servers)
