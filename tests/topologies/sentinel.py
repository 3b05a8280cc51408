"""A master, its replicas and the Sentinels that watch them, all of one kind.

    with SentinelTopology(binary) as servers:
        fencelock.Client(servers.url)
        servers.master.kill()
        servers.until_failed_over()

Each of the real processes is a ``tests.servers.Server``, so that one guard ends them all.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from typing import Any, Self

from tests.servers import Refused, Runs, Server, ServerBinary
from tests.waiting import until

SERVICE = "locks"
READY_SECONDS = 20.0
# After how much silence a server is called down: soon where a test makes it so, late where none
# does: a busy machine is silent, too.
QUICK_MS = 1000
CALM_MS = 10_000
_SETTINGS = {"failover-timeout": 3000, "parallel-syncs": 2}
_REPLICATION = ["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"]
# What Sentinels and replicas send all the time. Of PUBLISH, which locks send, too, a test asks
# nothing but in scripts.
_NOISE = frozenset({"ping", "info", "replconf", "publish", "subscribe"})


class SentinelServer(Server):
    """One Sentinel: the server program, started as one, with a configuration it may rewrite.

    It is told its peers and the replicas: they would need seconds to find each other.
    """

    def __init__(self, binary: ServerBinary | None = None, *, config: str = "") -> None:
        super().__init__(binary, unix=False)
        self.config = config
        self.id = secrets.token_hex(20)

    def knows(self, peers: list[SentinelServer], replicas: list[Server]) -> None:
        """Add to the configuration what it would find out by itself."""
        self.config += f"sentinel myid {self.id}\n"
        for each in peers:
            if each is not self:
                self.config += (
                    f"sentinel known-sentinel {SERVICE} 127.0.0.1 {each.port} {each.id}\n"
                )
        for replica in replicas:
            self.config += f"sentinel known-replica {SERVICE} 127.0.0.1 {replica.port}\n"

    def _command_line(self) -> list[str]:
        path = self.directory / "sentinel.conf"
        if not path.exists():  # later it is the Sentinel's own
            text = f"port {self.port}\nbind 127.0.0.1\ndir {self.directory}\n{self.config}"
            path.write_text(text)
        return [self.binary.path, str(path), "--sentinel"]

    def _answers(self) -> bool:
        try:
            return str(self.directory) in self.info("server")["config_file"]
        except (OSError, Refused, KeyError):
            return False


class SentinelTopology(Runs):
    """Servers that look like one: the master, whichever it is now."""

    def __init__(
        self,
        binary: ServerBinary | None = None,
        *,
        replicas: int = 2,
        sentinels: int = 3,
        args: tuple[str, ...] = (),
        through: Callable[[Server], int] | None = None,
        down_after_ms: int = QUICK_MS,
    ) -> None:
        """Prepare; ``through`` gives the port by which all reach the first master."""
        options = [*_REPLICATION, *args]
        self.servers = [Server(binary, unix=False, args=options) for _ in range(1 + replicas)]
        self.binary = self.servers[0].binary
        self.sentinels: list[SentinelServer] = []
        self._through = through
        self._settings = {"down-after-milliseconds": down_after_ms, **_SETTINGS}
        self._number = sentinels

    # addresses

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in self.sentinels)
        return f"redis+sentinel://{hosts}/{SERVICE}/0"

    @property
    def tcp_url(self) -> str:
        """Where other programs find the master now."""
        return self.master.tcp_url

    @property
    def master(self) -> Server:
        """The server that the Sentinels call the master: as most of those say that answer."""
        said: list[int] = []
        for each in self.sentinels:
            with contextlib.suppress(OSError, Refused):
                found = each.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
                said.append(int(found[1]))
        port = max(set(said), key=said.count)
        return next((each for each in self.servers if each.port == port), self.servers[0])

    @property
    def replicas(self) -> list[Server]:
        """All servers but the master."""
        master = self.master
        return [each for each in self.servers if each is not master]

    # life

    def start(self) -> Self:
        """Start all; return when replicas follow and Sentinels know each other."""
        first, *others = self.servers
        first.start()
        port = self._through(first) if self._through else first.port
        for each in others:
            each.start()
            each.command("REPLICAOF", "127.0.0.1", port)
        self._until(lambda: all(_follows(each) for each in others), "replicas follow")
        config = f"sentinel monitor {SERVICE} 127.0.0.1 {port} {self._number // 2 + 1}\n"
        for name, value in self._settings.items():
            config += f"sentinel {name} {SERVICE} {value}\n"
        for _ in range(self._number):
            self.sentinels.append(SentinelServer(self.binary, config=config))
        for one in self.sentinels:
            one.knows(self.sentinels, others)
            one.start()
        self._until(self._agreed, "Sentinels know each other and the replicas")
        return self

    def _agreed(self) -> bool:
        peers, replicas = self._number - 1, len(self.servers) - 1
        wanted = {"num-slaves": replicas, "num-other-sentinels": peers, "flags": "master"}
        told = [_facts(each.command("SENTINEL", "MASTER", SERVICE)) for each in self.sentinels]
        if not all(one[name] == str(value) for one in told for name, value in wanted.items()):
            return False
        found = [each.command("SENTINEL", "REPLICAS", SERVICE) for each in self.sentinels]
        found += [each.command("SENTINEL", "SENTINELS", SERVICE) for each in self.sentinels]
        every = [_facts(one) for several in found for one in several]
        return all(
            one["flags"] in {"slave", "sentinel"} and one.get("master-link-status", "ok") == "ok"
            for one in every
        )

    def until_failed_over(self, before: Server, seconds: float = READY_SECONDS) -> Server:
        """Wait until all Sentinels name a master that takes writes, and another than before."""

        def over() -> bool:
            said = {
                each.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)[1]
                for each in self.sentinels
            }
            if len(said) != 1 or said == {str(before.port)} or self.master is before:
                return False
            return self.master.command("ROLE")[0] == "master"

        self._until(over, "another master", seconds)
        return self.master

    def fail_over(self) -> Server:
        """Order a failover and return the new master; the old one lives on."""
        before = self.master
        self._until(self._ordered, "a failover is begun")
        return self.until_failed_over(before)

    def _ordered(self) -> bool:
        with contextlib.suppress(Refused):  # no good replica yet, or one failover just ended
            return self.sentinels[0].command("SENTINEL", "FAILOVER", SERVICE) == "OK"
        return False

    def _until(self, true: Callable[[], bool], what: str, seconds: float = READY_SECONDS) -> None:
        until(true, what, seconds, tick=0.02)

    def close(self) -> None:
        for each in (*self.sentinels, *self.servers):
            each.close()

    # questions, to the master

    def command(self, *words: object) -> Any:
        return self.master.command(*words)

    def flushall(self) -> None:
        self.command("FLUSHALL")

    def info(self, section: str) -> dict[str, str]:
        return self.master.info(section)

    def commandstats(self) -> dict[str, int]:
        """Return how often each command ran; what Sentinels and replicas send is left out."""
        stats = self.master.commandstats()
        return {name: number for name, number in stats.items() if name not in _NOISE}


def _facts(words: list[Any]) -> dict[str, Any]:
    """Return the facts of a flat list of names and values."""
    return dict(zip(words[::2], words[1::2], strict=True))


def _follows(server: Server) -> bool:
    return server.info("replication").get("master_link_status") == "up"


def started(binary: ServerBinary | None = None, **options: Any) -> SentinelTopology:
    """Start servers for tests that take no master away."""
    servers = SentinelTopology(binary, down_after_ms=CALM_MS, **options)
    try:
        return servers.start()
    except BaseException:
        servers.close()
        raise
