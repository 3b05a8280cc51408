"""python-redis-lock: waits with BLPOP on a signal, then tries again."""

from __future__ import annotations

import redis_lock
from contestants import TTL_SECONDS, Contestant, Pair
from peers.redis_py import CONNECTIONS_MAX
from redis import Redis
from wire import Address


class Threads(Contestant):
    def __init__(self, address: Address) -> None:
        super().__init__(address)
        # Without a socket timeout: it would end a BLPOP that still waits, and dial anew.
        self._client = Redis(
            host=address.host,
            port=address.port,
            max_connections=CONNECTIONS_MAX,
            socket_timeout=None,
        )

    def pair(self, name: str) -> Pair:
        lock = redis_lock.Lock(self._client, name, expire=TTL_SECONDS)
        return Pair(lock.acquire, lock.release)
