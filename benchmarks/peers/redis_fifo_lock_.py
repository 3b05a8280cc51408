"""redis-fifo-lock: a line on the server, `BLPOP` while it waits, a task that renews."""

from __future__ import annotations

from contestants import TTL_SECONDS, Pair
from peers import redis_py
from redis_fifo_lock import FifoLock, Lease


class Tasks(redis_py.Tasks):
    def pair(self, name: str) -> Pair:
        lock = FifoLock(self._client, name, lease_ms=TTL_SECONDS * 1000)
        lease: Lease

        async def acquire() -> None:
            nonlocal lease
            lease = await lock.acquire()

        async def release() -> None:
            await lock.release(lease)

        return Pair(acquire, release)
