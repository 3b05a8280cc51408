"""aioredlock on one master. Renews by itself when it is given no `lock_timeout`.

The length of such a lease is `internal_lock_timeout`. It counts tries instead of seconds: as many
as fill the timeout. It raises LockAcquiringError when the lock is taken, LockRuntimeError when the
server could not be asked; `Lock.valid` asks nobody, `is_locked()` asks whether anybody holds it.
"""

from __future__ import annotations

from typing import Any

from aioredlock import Aioredlock, LockAcquiringError
from wire import Address

from verification.peers.libraries import Lock, tries


class _Lock(Lock):
    renews = "itself"
    held: Any = None

    def make(self) -> None:
        options: dict[str, Any] = {"retry_count": tries(self.use.timeout)}
        if self.use.renew and self.use.ttl is not None:
            options["internal_lock_timeout"] = self.use.ttl
        self.client = self.library.client(**options)

    async def acquire(self) -> Any:
        fixed = {} if self.use.renew or self.use.ttl is None else {"lock_timeout": self.use.ttl}
        try:
            self.held = await self.client.lock(self.name, **fixed)
        except LockAcquiringError:
            return False
        return self.held.valid

    async def release(self) -> Any:
        await self.client.unlock(self.held)

    def says(self) -> bool | None:
        return bool(self.held and self.held.valid)

    async def asks(self) -> Any:
        return await self.held.is_locked()


class Tasks:
    lock = _Lock

    def __init__(self, address: Address) -> None:
        self._connections = [{"host": address.host, "port": address.port}]
        self._clients: dict[str, Any] = {}

    def client(self, **options: Any) -> Any:
        if str(options) not in self._clients:
            self._clients[str(options)] = Aioredlock(self._connections, **options)
        return self._clients[str(options)]

    async def open(self) -> None:
        """Nothing to do: the first lock connects."""
