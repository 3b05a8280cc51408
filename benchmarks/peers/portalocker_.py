"""portalocker: its RedisLock, a subscription that others see, read by a thread for each lock."""

from __future__ import annotations

from contestants import Contestant, Pair
from peers.redis_py import CONNECTIONS_MAX
from portalocker.redis import RedisLock
from redis import Redis
from wire import Address

FOR_EVER_SECONDS = 10**9


class Threads(Contestant):
    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._client = Redis(host=address.host, port=address.port, max_connections=CONNECTIONS_MAX)

    def pair(self, name: str) -> Pair:
        lock = RedisLock(name, self._client, timeout=FOR_EVER_SECONDS)
        return Pair(lock.acquire, lock.release)
