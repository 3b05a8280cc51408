"""redis-fifo-lock: renews by itself until `max_hold_ms`; `Lease.lost` asks nobody."""

from __future__ import annotations

from typing import Any

from peers import redis_fifo_lock_
from redis_fifo_lock import FifoLock

from verification.peers.libraries import Lock


class _Lock(Lock):
    renews = "itself"
    held: Any = None

    def make(self) -> None:
        options: dict[str, int] = {}
        if self.use.ttl is not None:
            options["lease_ms"] = int(self.use.ttl * 1000)
            if not self.use.renew:
                options["max_hold_ms"] = options["lease_ms"] + 1  # it has to be longer
        self.lock = FifoLock(self.library._client, self.name, **options)

    async def acquire(self) -> Any:
        try:
            self.held = await self.lock.acquire(timeout=self.use.timeout or 0)
        except TimeoutError:
            return False
        return True

    async def release(self) -> Any:
        await self.lock.release(self.held)

    def says(self) -> bool | None:
        return self.held is not None and not self.held.lost.is_set()


class Tasks(redis_fifo_lock_.Tasks):
    lock = _Lock
