"""walrus: waits with BLPOP on a signal, then tries again."""

from __future__ import annotations

from contestants import TTL_SECONDS, Contestant, Pair
from peers.redis_py import CONNECTIONS_MAX
from walrus import Database
from wire import Address


class Threads(Contestant):
    def __init__(self, address: Address) -> None:
        super().__init__(address)
        # Without a socket timeout: it would end a BLPOP that still waits, and dial anew.
        self._database = Database(
            host=address.host,
            port=address.port,
            max_connections=CONNECTIONS_MAX,
            socket_timeout=None,
        )

    def pair(self, name: str) -> Pair:
        lock = self._database.lock(name, ttl=TTL_SECONDS * 1000)
        return Pair(lock.acquire, lock.release)
