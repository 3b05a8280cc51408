"""redis-fifo-lock: a line on the server, `BLPOP` while it waits, a task that renews."""

from __future__ import annotations

from contestants import TTL_SECONDS, Contestant, Pair
from peers.redis_py import CONNECTIONS_MAX
from redis.asyncio import Redis
from redis_fifo_lock import FifoLock, Lease
from wire import Address


class Tasks(Contestant):
    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._client = Redis(host=address.host, port=address.port, max_connections=CONNECTIONS_MAX)

    def pair(self, name: str) -> Pair:
        lock = FifoLock(self._client, name, lease_ms=TTL_SECONDS * 1000)
        lease: Lease

        async def acquire() -> None:
            nonlocal lease
            lease = await lock.acquire()

        async def release() -> None:
            await lock.release(lease)

        return Pair(acquire, release)
