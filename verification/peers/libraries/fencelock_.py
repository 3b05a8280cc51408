"""fencelock: renews by itself, calls back when a lease is lost; `lease.lost` asks nobody."""

from __future__ import annotations

from typing import Any

from wire import Address

import fencelock
from verification.peers.libraries import Lock


class _Lock(Lock):
    renews = "itself"
    lease: Any = None

    def make(self) -> None:
        options: dict[str, Any] = {} if self.use.ttl is None else {"ttl": self.use.ttl}
        if not self.use.renew and self.use.ttl is not None:
            options["renew"] = False
        self.lock = self.library.client.lock(
            self.name, on_lost=lambda _lease: self.told(), **options
        )

    def acquire(self) -> Any:
        if self.use.timeout is None:
            return self.lock.acquire(blocking=False)
        return self.lock.acquire(timeout=self.use.timeout)

    def release(self) -> Any:
        return self.lock.release()

    def says(self) -> bool | None:
        lease = self.lease
        return lease is not None and not lease.lost


class ThreadsLock(_Lock):
    def acquire(self) -> Any:
        granted = super().acquire()
        self.lease = self.lock.lease
        return granted


class TasksLock(_Lock):
    async def acquire(self) -> Any:
        granted = await super().acquire()
        self.lease = self.lock.lease
        return granted


class Threads:
    lock = ThreadsLock

    def __init__(self, address: Address) -> None:
        self.client = fencelock.Client(address.url)


class Tasks:
    lock = TasksLock

    def __init__(self, address: Address) -> None:
        self.client = fencelock.AsyncClient(address.url)

    async def open(self) -> None:
        """Nothing to do: the first lock connects."""
