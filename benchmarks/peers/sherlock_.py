"""sherlock: polls every 0.1 s."""

from __future__ import annotations

from contestants import FOR_EVER_SECONDS, TTL_SECONDS, Pair
from peers import redis_py
from sherlock import RedisLock


class Threads(redis_py.Threads):
    def pair(self, name: str) -> Pair:
        lock = RedisLock(name, client=self._client, expire=TTL_SECONDS, timeout=FOR_EVER_SECONDS)
        return Pair(lock.acquire, lock.release)
