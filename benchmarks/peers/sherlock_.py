"""sherlock: polls every 0.1 s."""

from __future__ import annotations

from contestants import TTL_SECONDS, Contestant, Pair
from peers.redis_py import CONNECTIONS_MAX
from redis import Redis
from sherlock import RedisLock
from wire import Address

FOR_EVER_SECONDS = 10**9


class Threads(Contestant):
    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._client = Redis(host=address.host, port=address.port, max_connections=CONNECTIONS_MAX)

    def pair(self, name: str) -> Pair:
        lock = RedisLock(name, client=self._client, expire=TTL_SECONDS, timeout=FOR_EVER_SECONDS)
        return Pair(lock.acquire, lock.release)
