"""A master and replicas that follow it, each real."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from fencelock._runtime.clock import now
from tests.servers import READY_SECONDS, Server, ServerBinary

# A replica is synchronized at once, not after the seconds in which others might come too.
AT_ONCE = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
_PAUSE = 0.005


def follow(replica: Server, port: int, host: str = "127.0.0.1") -> None:
    """Make a server follow another one; return once it keeps up."""
    replica.command("REPLICAOF", host, port)
    pause, deadline = threading.Event(), now() + READY_SECONDS
    while replica.info("replication").get("master_link_status") != "up":
        assert now() < deadline, f"the replica does not follow:\n{replica.log}"
        pause.wait(_PAUSE)


def counted(master: Server, replicas: int) -> None:
    """Return once so many replicas acknowledge what the master does."""
    deadline = now() + READY_SECONDS
    while master.command("INFO", "replication").count("state=online") < replicas:
        assert now() < deadline, "the master does not see its replicas"
        threading.Event().wait(_PAUSE)


@contextlib.contextmanager
def replicated(
    replicas: int = 1, binary: ServerBinary | None = None, args: tuple[str, ...] = ()
) -> Iterator[tuple[Any, ...]]:
    """Lend a master and its replicas."""
    with contextlib.ExitStack() as running:
        servers = [
            running.enter_context(Server(binary, args=(*AT_ONCE, *args)))
            for _ in range(replicas + 1)
        ]
        for replica in servers[1:]:
            follow(replica, servers[0].port)
        counted(servers[0], replicas)
        yield tuple(servers)
