"""portalocker: its RedisLock, a subscription that others see, read by a thread for each lock."""

from __future__ import annotations

from contestants import FOR_EVER_SECONDS, Pair
from peers import redis_py
from portalocker.redis import RedisLock


class Threads(redis_py.Threads):
    def pair(self, name: str) -> Pair:
        lock = RedisLock(name, self._client, timeout=FOR_EVER_SECONDS)
        return Pair(lock.acquire, lock.release)
