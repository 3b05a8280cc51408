"""redlock-ng on one master. `extend` by hand, not in asyncio; `Lock.valid` asks nobody.

It counts tries instead of seconds: as many as fill the timeout.
"""

from __future__ import annotations

from typing import Any, ClassVar

from redlock import AsyncRedlock, Redlock
from wire import Address

from verification.peers.libraries import Lock, tries


class _Lock(Lock):
    held: Any = None

    def make(self) -> None:
        if self.use.ttl is None:
            raise NotImplementedError("the ttl is a required argument")
        self.client = self.library.client(tries(self.use.timeout))

    def acquire(self) -> Any:
        return self.client.acquire(self.name, self.ttl_ms())

    def release(self) -> Any:
        return self.client.release(self.held)

    def says(self) -> bool | None:
        return bool(self.held and self.held.valid)

    def ttl_ms(self) -> int:
        return int((self.use.ttl or 0) * 1000)


class ThreadsLock(_Lock):
    renews = "extend"

    def acquire(self) -> Any:
        self.held = super().acquire()
        return self.held is not None

    def extend(self) -> Any:
        return self.client.extend(self.held, self.ttl_ms())


class TasksLock(_Lock):
    async def acquire(self) -> Any:
        self.held = await super().acquire()
        return self.held is not None


class Threads:
    lock = ThreadsLock
    kind: ClassVar[type] = Redlock

    def __init__(self, address: Address) -> None:
        self._address = address
        self._clients: dict[int, Any] = {}

    def client(self, count: int) -> Any:
        if count not in self._clients:
            self._clients[count] = self.kind([self._address.url], retry_count=count)
        return self._clients[count]


class Tasks(Threads):
    lock = TasksLock
    kind = AsyncRedlock

    async def open(self) -> None:
        """Nothing to do: the first command connects."""
