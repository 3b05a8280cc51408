"""A Cluster of three masters with a replica each: slots move, masters are replaced.

Moving a slot is covered, and so is a failover that the master takes part in. One that it does not
take part in loses what the replica had not heard of, unless the replica acknowledges each grant.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.faults.world import PREFIX
from tests.servers import Server, ServerBinary
from tests.topologies.cluster import Cluster
from tests.waiting import until
from verification.runs.fault import Fault
from verification.runs.objects import LONG, PLAYS
from verification.runs.several import Masters, sum_of

WHOLE_SECONDS = 60.0


class Shards(Masters):
    """A Cluster; with ``failover`` leases are long enough to outlast one."""

    def __init__(
        self,
        binary: ServerBinary | None,
        seed: int,
        *,
        failover: bool = False,
        acknowledged: bool = False,
    ) -> None:
        super().__init__(random.Random(seed))
        self._failover, self._sure = failover, acknowledged
        self.play = "acknowledged" if acknowledged else "failover" if failover else "usual"
        self.servers = Cluster(binary)

    @property
    def name(self) -> str:
        return f"{len(self.servers.nodes)} x {self.servers.binary}"

    def victims(self) -> list[Server]:
        return self.servers.masters

    def faults(self) -> Iterator[Fault]:
        """Yield what can befall the nodes."""
        yield from self.small_faults()
        yield Fault("move slot", self.move, often=4)
        if self._failover:
            yield Fault("failover by order", self.fail_over)
            sure = self._sure
            yield Fault("kill master", self.kill_master, covered=sure, shows=False)
            yield Fault("kill cut off master", self.kill_cut_off_master, covered=sure, often=2)
            yield Fault("freeze master for long", self.replace_frozen, covered=sure, shows=False)

    # what befalls the nodes

    def move(self) -> None:
        """Move the slot of an object in use; scripts are refused half-way, and asked again."""
        key = self._key()
        owner = self.servers.owner(key)
        others = [each for each in self.servers.masters if each is not owner]
        with self.servers.migrating(key, self._dice.choice(others)) as move:
            self._wait(0.0, 0.02, 0.2)
            move()
            self._wait(0.0, 0.02, 0.2)

    def fail_over(self) -> None:
        """Have a master hand over to its replica, all that it has."""
        key = self._key()
        master = self.servers.owner(key)
        replica = self.servers.replica_of(master)
        replica.command("CLUSTER", "FAILOVER")
        self._until_replaced(key, master, replica)
        self._until_whole()

    def kill_master(self) -> None:
        """Kill a master; it comes back empty, as a replica."""
        key = self._key()
        master = self.servers.owner(key)
        replica = self.servers.replica_of(master)
        self._kill(key, master, replica)

    def kill_cut_off_master(self) -> None:
        """Kill a master when its replica has not heard of it for a moment, in which it granted."""
        key = self._key()
        master = self.servers.owner(key)
        replica = self.servers.replica_of(master)
        replica.pause()
        self._say(master, "CLIENT", "KILL", "TYPE", "replica")
        self._wait(0.3, 0.5)
        master.kill()
        replica.resume()
        self._kill(key, master, replica)

    def _kill(self, key: str, master: Server, replica: Server) -> None:
        master.kill()
        self._until_replaced(key, master, replica)
        master.start()
        self._until_whole()

    def replace_frozen(self) -> None:
        """Freeze a master until its replica serves, or all leases are over that it knows.

        When it wakes up it grants to who waits there, and learns later that it was replaced.
        """
        key = self._key()
        master = self.servers.owner(key)
        replica = self.servers.replica_of(master)
        master.pause()
        self._until_replaced(key, master, replica)
        self._wait(0.0, LONG * PLAYS[self.play].scale)
        master.resume()
        self._until_whole()

    def _key(self) -> str:
        return PREFIX + self._dice.choice(list(PLAYS[self.play].limits))

    def _until_replaced(self, key: str, master: Server, replica: Server) -> None:
        until(lambda: self.servers.owner(key, replica) is not master, "replaced", WHOLE_SECONDS)

    def _until_whole(self) -> None:
        until(self._whole, "the Cluster is whole again", WHOLE_SECONDS)
        self.servers.masters = self._masters()

    def _whole(self) -> bool:
        """Return True if all see all slots served, and every master has a replica that follows."""
        told = [node.command("CLUSTER", "INFO") for node in self.servers.nodes]
        roles = [node.info("replication") for node in self.servers.nodes]
        links = [one.get("master_link_status") for one in roles if one["role"] == "slave"]
        return all("cluster_state:ok" in text for text in told) and links == ["up"] * 3

    def _masters(self) -> list[Server]:
        nodes = self.servers.nodes
        return [node for node in nodes if node.info("replication")["role"] == "master"]

    # afterwards

    def calm(self) -> None:
        """Wait until all is well."""
        self._until_whole()

    def sample(self) -> dict[str, int]:
        return sum_of(self.servers.nodes)
