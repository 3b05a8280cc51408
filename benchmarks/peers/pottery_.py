"""pottery: Redlock, here with a single master; polls at random intervals."""

from __future__ import annotations

from contestants import TTL_SECONDS, Contestant, Pair
from peers.redis_py import CONNECTIONS_MAX
from pottery import AIORedlock, Redlock
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from wire import Address


class Threads(Contestant):
    def __init__(self, address: Address) -> None:
        super().__init__(address)
        client = Redis(host=address.host, port=address.port, max_connections=CONNECTIONS_MAX)
        self._masters = {client}

    def pair(self, name: str) -> Pair:
        lock = Redlock(key=name, masters=self._masters, auto_release_time=TTL_SECONDS)
        return Pair(lock.acquire, lock.release)


class Tasks(Contestant):
    def __init__(self, address: Address) -> None:
        super().__init__(address)
        client = AsyncRedis(host=address.host, port=address.port, max_connections=CONNECTIONS_MAX)
        self._masters = {client}

    def pair(self, name: str) -> Pair:
        lock = AIORedlock(key=name, masters=self._masters, auto_release_time=TTL_SECONDS)
        return Pair(lock.acquire, lock.release)
