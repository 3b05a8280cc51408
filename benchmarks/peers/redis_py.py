"""redis-py: its Lock, which polls every 0.1 s."""

from __future__ import annotations

from contestants import TTL_SECONDS, Contestant, Pair
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from wire import Address

CONNECTIONS_MAX = 10_000  # its default of 100 is fewer than the waiters here


class Threads(Contestant):
    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._client = Redis(host=address.host, port=address.port, max_connections=CONNECTIONS_MAX)

    def pair(self, name: str) -> Pair:
        lock = self._client.lock(name, timeout=TTL_SECONDS)
        return Pair(lock.acquire, lock.release)


class Tasks(Contestant):
    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._client = AsyncRedis(
            host=address.host, port=address.port, max_connections=CONNECTIONS_MAX
        )

    def pair(self, name: str) -> Pair:
        lock = self._client.lock(name, timeout=TTL_SECONDS)
        return Pair(lock.acquire, lock.release)
