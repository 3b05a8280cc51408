"""A master whose replica must acknowledge every grant and renewal."""

from __future__ import annotations

import contextlib
from typing import ClassVar

from tests.replication import replicated


class Acknowledged:
    """Looks like its master; clients are told to count on the replica."""

    client_options: ClassVar = {"replicas": 1, "replicas_timeout": 5.0}

    def __init__(self) -> None:
        self._running = contextlib.ExitStack()
        self.master, self.replica = self._running.enter_context(replicated())
        self.url, self.binary = self.master.url, self.master.binary
        self.command, self.info = self.master.command, self.master.info
        self.commandstats, self.flushall = self.master.commandstats, self.master.flushall

    def close(self) -> None:
        self._running.close()
