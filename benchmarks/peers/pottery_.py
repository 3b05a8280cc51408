"""pottery: Redlock, with one master or five; polls at random intervals."""

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
        self._masters = {
            Redis(host=node.host, port=node.port, max_connections=CONNECTIONS_MAX)
            for node in address.nodes
        }

    def pair(self, name: str) -> Pair:
        lock = Redlock(key=name, masters=self._masters, auto_release_time=TTL_SECONDS)
        return Pair(lock.acquire, lock.release)


class Tasks(Contestant):
    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._masters = {
            AsyncRedis(host=node.host, port=node.port, max_connections=CONNECTIONS_MAX)
            for node in address.nodes
        }

    def pair(self, name: str) -> Pair:
        lock = AIORedlock(key=name, masters=self._masters, auto_release_time=TTL_SECONDS)
        return Pair(lock.acquire, lock.release)
