"""A master and replicas that take its place, and the one address of the master."""

from __future__ import annotations

import contextlib
from typing import Any, Self

from tests.faults.proxy import Proxy
from tests.replication import counted, follow, replicated
from tests.servers import Server, ServerBinary
from tests.waiting import until


class Moving(contextlib.ExitStack):
    """Open connections stay with the old master, which closes none."""

    def __init__(self, binary: ServerBinary | None = None, *, replicas: int = 1) -> None:
        super().__init__()
        self._options = replicas, binary

    def __enter__(self) -> Self:
        super().__enter__()
        self.master, *self.replicas = self.enter_context(replicated(*self._options))
        self.binary = self.master.binary
        self._proxy: Any = self.enter_context(Proxy(self.master))
        self.url: str = self._proxy.url
        return self

    def command(self, *words: object) -> Any:
        """Ask the master."""
        return self.master.command(*words)

    def move(self) -> None:
        """Have the master change places with a replica."""
        told = int(self.master.info("replication")["master_repl_offset"])
        until(lambda: any(_heard(each) >= told for each in self.replicas))
        self._follow(self.promote())

    def promote(self) -> Server:
        """Have the replica that knows most take the master's place; return who does not know."""
        old, self.master = self.master, max(self.replicas, key=_heard)
        self.replicas = [old, *(each for each in self.replicas if each is not self.master)]
        self.master.command("REPLICAOF", "NO", "ONE")
        self._proxy.server = self.master
        for each in self.replicas[1:]:
            follow(each, self.master.port)
        return old

    def _follow(self, old: Server) -> None:
        follow(old, self.master.port)
        counted(self.master, len(self.replicas))

    def wake(self, old: Server) -> None:
        """Let one go on that stood still meanwhile, and have it follow a moment later."""
        old.resume()
        until(lambda: old.info("replication")["role"] == "master", "it serves")
        self._follow(old)


def _heard(replica: Server) -> int:
    """Return how much of what its master wrote a replica has."""
    return int(replica.info("replication")["slave_repl_offset"])
