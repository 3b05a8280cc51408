"""A real Cluster: three masters with a replica each, ready in some three seconds.

with Cluster() as cluster:
    cluster.command("SET", "key", "value")        # goes to the node of the key
    cluster.owner("key").kill()
"""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Self

from fencelock._core.keys import slot
from tests.servers import Refused, Runs, Server, ServerBinary, binaries
from tests.waiting import until

SLOTS = 16384
# After how much silence a node is called down: soon where a test makes it so, late where none does:
# a busy machine is silent, too, and its replica would be promoted in the middle of another test.
NODE_TIMEOUT_MS = 1000
CALM_MS = 60_000
BUS = 10_000  # a node's bus port is its port plus this
READY_SECONDS = 20.0
MEETINGS = 5
# Commands without a key: on every master, and what the answers come to; else words[1] is the key.
EVERYWHERE: dict[str, Callable[[list[Any]], Any]] = {
    "KEYS": lambda answers: [key for each in answers for key in each],
    "CLIENT": lambda answers: "\n".join(map(str, answers)),
    **dict.fromkeys(("FLUSHALL", "SCRIPT", "CONFIG", "ACL", "INFO"), lambda answers: answers[0]),
}
ANYWHERE = frozenset({"TIME", "PING"})
THIRD = frozenset({"EVAL", "EVALSHA"})


class Cluster(Runs):
    """Six nodes on loopback; has what a ``Server`` has for the conformance tests."""

    def __init__(
        self,
        binary: ServerBinary | None = None,
        *,
        masters: int = 3,
        replicas: int = 1,
        node_timeout_ms: int = NODE_TIMEOUT_MS,
        args: tuple[str, ...] = (),
    ) -> None:
        self.binary = binary or binaries()[0]
        self._ports: list[socket.socket] = []
        self._options = [
            *("--cluster-enabled", "yes", "--cluster-node-timeout", str(node_timeout_ms)),
            *("--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"),
            *args,
        ]
        count = masters * (1 + replicas)
        self.nodes = [self._node() for _ in range(count)]
        self.masters = self.nodes[:masters]
        self.replicas = self.nodes[masters:]

    def _node(self) -> Server:
        return Server(self.binary, port=free_port(self._ports), args=self._options)

    # life

    def start(self) -> Self:
        """Start all nodes, join them, and return once every slot is served and copied."""
        try:
            with ThreadPoolExecutor(len(self.nodes)) as pool:
                list(pool.map(Server.start, self.nodes))
            self._join()
        except BaseException:
            self.close()
            raise
        return self

    def calm(self) -> Self:
        """Have no replica take over, however long a node is silent: no test takes one away."""
        for node in self.nodes:
            node.command("CONFIG", "SET", "cluster-node-timeout", CALM_MS)
        return self

    def _join(self) -> None:
        count = len(self.masters)
        for number, node in enumerate(self.nodes):
            node.command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for number, node in enumerate(self.masters):
            share = range(SLOTS * number // count, SLOTS * (number + 1) // count)
            node.command("CLUSTER", "ADDSLOTS", *share)
        self._meet()
        for number, node in enumerate(self.replicas):
            node.command("CLUSTER", "REPLICATE", self.id_of(self.masters[number % count]))
        until(self.whole, "the Cluster is up", READY_SECONDS, tick=0.01)

    def _meet(self) -> None:
        """Have all nodes know each other: one that is late for its handshake must begin anew."""
        meet = "CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port
        for _ in range(MEETINGS):
            for node in self.nodes[1:]:
                node.command(*meet)
            with contextlib.suppress(AssertionError):
                return until(self._acquainted, "a handshake", READY_SECONDS / MEETINGS, tick=0.01)
        return until(self._acquainted, "all nodes know each other", READY_SECONDS, tick=0.01)

    def _acquainted(self) -> bool:
        told = [node.command("CLUSTER", "NODES") for node in self.nodes]
        shaken = all("handshake" not in text for text in told)
        return shaken and all(len(text.splitlines()) == len(self.nodes) for text in told)

    def whole(self) -> bool:
        """Return True if all nodes see all slots served, and all replicas follow."""
        for node in self.nodes:
            told = node.command("CLUSTER", "INFO")
            if "cluster_state:ok" not in told or f"cluster_size:{len(self.masters)}" not in told:
                return False
        return all(
            node.info("replication").get("master_link_status") == "up" for node in self.replicas
        )

    def close(self) -> None:
        """End all nodes and remove what they had."""
        for node in self.nodes:
            node.close()
        for line in self._ports:
            line.close()

    # addresses

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"redis+cluster://{hosts}"

    def id_of(self, node: Server) -> str:
        """Return a node's id in the Cluster."""
        return node.command("CLUSTER", "MYID")

    def at(self, port: int) -> Server:
        """Return the node on a port."""
        return next(node for node in self.nodes if node.port == port)

    def owner(self, key: str | bytes, asked: Server | None = None) -> Server:
        """Return the master that serves a key, as the first node that answers says."""
        number = slot(key.encode() if isinstance(key, str) else key)
        for node in [asked] if asked else self.nodes:
            with contextlib.suppress(OSError, RuntimeError):
                for first, last, master, *_ in node.command("CLUSTER", "SLOTS"):
                    if first <= number <= last:
                        return self.at(master[1])
        raise ConnectionError(f"no node knows who serves slot {number}")

    def replica_of(self, master: Server) -> Server:
        """Return a replica of a master."""
        return next(
            node
            for node in self.nodes
            if node.info("replication").get("master_port") == str(master.port)
        )

    # questions

    def command(self, *words: Any) -> Any:
        """Run a command at the node of its key, or on every master; as ``Server.command``."""
        word = str(words[0]).upper()
        if word == "PUBSUB":
            return [words[2], self._listeners(str(words[2]))]
        if word in EVERYWHERE:
            return EVERYWHERE[word]([node.command(*words) for node in self.masters])
        if word in ANYWHERE:
            return self.masters[0].command(*words)
        key = words[3] if word in THIRD else words[1]
        return self._follow(self._usual(key), words)

    def _listeners(self, channel: str) -> int:
        """Return how many listen to a channel, be it one of a slot."""
        how = "SHARDNUMSUB" if channel.endswith("!") else "NUMSUB"
        return sum(node.command("PUBSUB", how, channel)[1] for node in self.masters)

    def _usual(self, key: str | bytes) -> Server:
        number = slot(key if isinstance(key, bytes) else str(key).encode())
        return self.masters[min(number * len(self.masters) // SLOTS, len(self.masters) - 1)]

    def _follow(self, node: Server, words: tuple[Any, ...]) -> Any:
        while True:
            try:
                return node.command(*words)
            except Refused as error:
                if not str(error).startswith("MOVED"):
                    raise
                node = self.at(int(str(error).rpartition(":")[2]))

    def flushall(self) -> None:
        """Remove all keys."""
        self.command("FLUSHALL")

    def info(self, section: str) -> dict[str, str]:
        """Return one section of the first master's INFO."""
        return self.masters[0].info(section)

    def commandstats(self) -> dict[str, int]:
        """Return how often each command ran on the masters, all together."""
        sums: dict[str, int] = {}
        for node in self.masters:
            for name, number in node.commandstats().items():
                sums[name] = sums.get(name, 0) + number
        return sums

    # faults

    @contextlib.contextmanager
    def migrating(self, key: str | bytes, target: Server) -> Iterator[Callable[[], None]]:
        """Announce that a key's slot moves; the function moves its keys; at the end it is so."""
        source = self.owner(key)
        number = slot(key.encode() if isinstance(key, str) else key)
        target.command("CLUSTER", "SETSLOT", number, "IMPORTING", self.id_of(source))
        source.command("CLUSTER", "SETSLOT", number, "MIGRATING", self.id_of(target))

        def move() -> None:
            while keys := source.command("CLUSTER", "GETKEYSINSLOT", number, 100):
                where = ("127.0.0.1", target.port, "", 0, 5000, "KEYS")
                source.command("MIGRATE", *where, *keys)

        yield move
        move()
        for node in (target, source, *self.masters):
            node.command("CLUSTER", "SETSLOT", number, "NODE", self.id_of(target))

    def move_slot(self, key: str | bytes, target: Server) -> None:
        """Move a key's slot to another master, keys and all."""
        with self.migrating(key, target) as move:
            move()


def free_port(kept: list[socket.socket]) -> int:
    """Reserve a port whose bus port is free, too; below what the kernel gives to others.

    It is free again when what is ``kept`` is closed.
    """
    while True:
        port = random.randrange(11_000, 22_000)
        with contextlib.suppress(OSError):
            kept.append(_reserved(port))
            kept.append(_reserved(port + BUS))  # if it is taken, the first is closed with the rest
            return port


def _reserved(port: int) -> socket.socket:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", port))  # not where another one has only reserved it, too
    line = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        line.bind(("127.0.0.1", port))
    except BaseException:
        line.close()
        raise
    return line


def started() -> Cluster:
    """Return a running Cluster of the newest server at hand."""
    return Cluster().start().calm()


class Counted(Cluster):
    """A running Cluster whose replicas must acknowledge what clients are granted."""

    client_options: ClassVar = {"replicas": 1, "replicas_timeout": 5.0}

    def __init__(self) -> None:
        super().__init__()
        self.start().calm()
